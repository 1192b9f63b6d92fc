package core

import "testing"

// model is a sandbox told in terms of what exists of it, apart from the table: its files, its processes, its memory and
// where they are. The fuzz test drives both and compares.
type model struct {
	files     bool // a tree that can be used
	processes bool
	thawed    bool // its processes may run
	memory    bool // a memory image on the node
	remote    bool // everything is in the blob store
	broken    bool
	gone      bool
}

func (m model) state() State {
	switch {
	case m.gone:
		return StateDeleted
	case m.broken:
		return StateFailed
	case !m.files:
		return StateCreating
	case m.processes && m.thawed:
		return StateRunning
	case m.processes:
		return StateFrozen
	case m.remote:
		return StateHibernated
	case m.memory:
		return StateStandby
	}
	return StateStopped
}

// step is the model's own idea of an operation's end.
func (m model) step(op OperationKind, ok bool) model {
	running := model{files: true, processes: true, thawed: true}
	switch op {
	case OpDelete:
		return model{gone: true}
	case OpCreate:
		if !ok {
			return model{gone: true}
		}
		return running
	case OpRestore:
		if !ok {
			return model{files: true, broken: true}
		}
		return running
	case OpFreeze, OpStandby, OpHibernate, OpWake, OpStop, OpCheckpoint, OpFork, OpResize, OpNone:
	}
	if !ok {
		return m
	}
	switch op {
	case OpWake:
		return running
	case OpFreeze:
		return model{files: true, processes: true}
	case OpStandby:
		return model{files: true, memory: true}
	case OpHibernate:
		return model{files: true, memory: true, remote: true}
	case OpStop:
		return model{files: true}
	case OpCheckpoint, OpFork, OpResize, OpNone, OpCreate, OpRestore, OpDelete:
	}
	return m
}

// FuzzStates drives random operations, begun, ended well, ended badly and overtaken by others, against the model. Each
// byte is one event: the operation in the low bits, what to do with it in the high ones.
func FuzzStates(f *testing.F) {
	f.Add([]byte{0x00, 0x40})
	f.Add([]byte{0x00, 0x40, 0x01, 0x40, 0x04, 0x40, 0x05, 0x80, 0x0a, 0x40, 0x04})
	f.Add([]byte{0x00, 0x0a, 0x40, 0x00})
	f.Fuzz(func(t *testing.T, events []byte) {
		state, underWay := StateCreating, OpNone
		var m model
		for _, e := range events {
			op := Operations()[int(e&0x0f)%len(Operations())]
			switch e >> 6 {
			case 1, 2: // what is under way ends, well or badly
				if underWay == OpNone {
					continue
				}
				next, ok := Next(state, underWay)
				if !ok {
					t.Fatalf("%s is under way in %s, where it isn't allowed", underWay, state)
				}
				well := e>>6 == 1
				if state = next.Failure; well {
					state = next.Success
				}
				m = m.step(underWay, well)
				underWay = OpNone
			default:
				before := underWay
				err := Begin(state, underWay, op)
				switch {
				case err == nil:
					if before != OpNone && before != op && op != OpDelete {
						t.Fatalf("%s began while a %s was under way", op, before)
					}
					underWay = op
				case op == OpDelete && state != StateDeleted:
					t.Fatalf("delete is refused in %s: %v", state, err)
				}
			}
			if state != m.state() {
				t.Fatalf("after %x: the table says %s, the model %s", events, state, m.state())
			}
			if state == StateDeleted && underWay != OpNone {
				t.Fatalf("%s on a deleted sandbox", underWay)
			}
		}
		// Whatever happened, it can be deleted, and stays so.
		if state != StateDeleted {
			if err := Begin(state, underWay, OpDelete); err != nil {
				t.Fatal(err)
			}
			if next, _ := Next(state, OpDelete); next != same(StateDeleted) {
				t.Fatalf("delete in %s leads to %+v", state, next)
			}
		}
	})
}
