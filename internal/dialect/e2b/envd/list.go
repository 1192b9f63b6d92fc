package envd

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
	"shoal/internal/store"
)

// listPage is how many records are read at once.
const listPage = 1000

// List returns the processes that were started by a call and still run. Their environment is not told: it may hold secrets, and no
// record has it.
func (s *processes) List(ctx context.Context, _ *connect.Request[processpb.ListRequest]) (*connect.Response[processpb.ListResponse], error) {
	reply := &processpb.ListResponse{}
	err := s.eachRunning(ctx, func(e core.Exec) {
		info := &processpb.ProcessInfo{Config: configOf(e.Spec), Pid: uint32(max(e.PID, 0))}
		if e.Spec.Tag != "" {
			info.Tag = proto.String(text(e.Spec.Tag))
		}
		reply.Processes = append(reply.Processes, info)
	})
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(reply), nil
}

// eachRunning calls f for every running process, newest first.
func (s *processes) eachRunning(ctx context.Context, f func(core.Exec)) error {
	t := target(ctx)
	for page := (store.Page{Limit: listPage}); ; {
		list, next, err := s.control.ListExecs(ctx, t.Principal, t.ref(), store.ExecFilter{Running: true}, page)
		if err != nil {
			return outside(err)
		}
		for _, e := range list {
			// What ended a moment ago may still be on record as running until the guest agent is asked.
			if e.Outcome == core.OutcomeRunning && e.PID > 0 {
				f(e)
			}
		}
		if next == "" {
			return nil
		}
		page.Cursor = next
	}
}

func configOf(spec core.ExecSpec) *processpb.ProcessConfig {
	c := &processpb.ProcessConfig{}
	if spec.Shell != "" {
		c.Cmd, c.Args = "/bin/sh", []string{"-c", text(spec.Shell)}
	} else if len(spec.Cmd) > 0 {
		c.Cmd = text(spec.Cmd[0])
		for _, arg := range spec.Cmd[1:] {
			c.Args = append(c.Args, text(arg))
		}
	}
	if spec.Cwd != "" {
		c.Cwd = proto.String(text(spec.Cwd))
	}
	return c
}
