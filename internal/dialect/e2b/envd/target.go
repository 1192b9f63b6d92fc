package envd

import (
	"context"
	"maps"

	"shoal/internal/control"
	"shoal/internal/core"
)

// Target is the sandbox that a request is for, and who makes it. Whoever puts it into the context has checked the caller.
type Target struct {
	Principal control.Principal
	Sandbox   core.Sandbox
	// Token is the sandbox's access token.
	Token string
}

type targetKey struct{}

// WithTarget returns a context for a request to a sandbox.
func WithTarget(ctx context.Context, t Target) context.Context {
	return context.WithValue(ctx, targetKey{}, t)
}

func targetOf(ctx context.Context) (Target, bool) {
	t, ok := ctx.Value(targetKey{}).(Target)
	return t, ok
}

// target is targetOf for a handler behind the check that there is one.
func target(ctx context.Context) Target {
	t, _ := targetOf(ctx)
	return t
}

// ref names the sandbox to control.
func (t Target) ref() string { return string(t.Sandbox.ID) }

// environment is what E2B's programs expect to find, with what was given when the sandbox was created over it.
func (t Target) environment() map[string]string {
	env := map[string]string{
		"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": string(t.Sandbox.ID), "E2B_TEMPLATE_ID": string(t.Sandbox.Template),
	}
	maps.Copy(env, t.Sandbox.Env)
	return env
}
