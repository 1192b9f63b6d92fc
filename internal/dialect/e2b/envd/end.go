package envd

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
)

// noExit is the exit code of a process that has not exited.
const noExit = -1

// end tells how a process ended: by an event if that is known, and by an error if it is not or if a deadline ended it. Nothing but a
// process that returned zero becomes exit code zero.
func (v *view) end(e core.Exec) error {
	end, err := endOf(e)
	if err != nil {
		return err
	}
	return v.send(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_End{End: end}})
}

const outOfMemory = "the sandbox ran out of memory, and processes of this one's group were killed"

func endOf(e core.Exec) (*processpb.ProcessEvent_EndEvent, error) {
	end := &processpb.ProcessEvent_EndEvent{ExitCode: noExit}
	switch e.Outcome {
	case core.OutcomeExited:
		if e.ExitCode == nil {
			return nil, core.Errorf(core.CodeInternal, "a process that exited without a code")
		}
		end.ExitCode, end.Exited = int32(*e.ExitCode), true
		end.Status = "exit status " + strconv.Itoa(*e.ExitCode)
		if *e.ExitCode != 0 {
			end.Error = proto.String(end.Status)
		}
	case core.OutcomeSignaled:
		end.Status = "signal: " + signalText(e.Signal)
		end.Error = proto.String(end.Status)
	case core.OutcomeCanceled:
		end.Status = "signal: killed"
		end.Error = proto.String("canceled: another call killed it")
	case core.OutcomeTimeout:
		return nil, core.Errorf(core.CodeTimeout, "the process's deadline has passed: it and its whole group were killed")
	case core.OutcomeLost:
		return nil, core.Errorf(core.CodeUnavailable, "the process is lost with its sandbox: how it ended is not known")
	case core.OutcomeRunning:
		return nil, core.Errorf(core.CodeInternal, "a process that ended and runs")
	default:
		return nil, core.Errorf(core.CodeInternal, "an unknown outcome: %q", string(e.Outcome))
	}
	if e.OutOfMemory {
		end.Error = proto.String(outOfMemory)
	}
	return end, nil
}

// signalText is what Go says of a signal, which clients know: "killed" for SIGKILL.
func signalText(name string) string {
	if n := unix.SignalNum(name); n != 0 {
		return n.String()
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "SIGRTMIN+")); err == nil {
		return syscall.Signal(34 + n).String()
	}
	return strings.ToLower(name)
}
