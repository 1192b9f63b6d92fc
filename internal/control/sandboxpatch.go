package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/store"
)

// SandboxPatch changes a sandbox. A nil field is left as it is.
type SandboxPatch struct {
	// Persistent makes an ephemeral sandbox persistent, which keeps the ttl that it has, or a persistent one ephemeral. What is
	// ephemeral in the end and has neither a ttl nor an idle rule gets the default ttl.
	Persistent *bool
	// TTL counts from now; zero takes the ttl away, which a persistent sandbox allows and one with an idle rule. Together with
	// Persistent and Idle it is the ttl of what the sandbox becomes.
	TTL *time.Duration
	// ExtendTTL makes the sandbox live at least so long from now: it never shortens its life. Not together with TTL.
	ExtendTTL *time.Duration
	// Idle is how long the sandbox may be unused before OnIdle, from now on; zero takes the rule away. Without OnIdle what was done stays,
	// which is delete for an ephemeral sandbox that had no rule, and has to be said for a persistent one. One that becomes persistent
	// loses a rule that deletes it unless both are given.
	Idle   *time.Duration
	OnIdle core.LifecycleAction
	// Rules replaces all rules but those of ttl and idle.
	Rules  *[]core.LifecycleRule
	Labels *map[string]string
	// Resources changes limits while the sandbox runs.
	Resources ResourcesPatch
}

// UpdateSandbox changes a sandbox, all that the patch names or nothing, in one moment.
func (s *Service) UpdateSandbox(ctx context.Context, p Principal, ref string, patch SandboxPatch) (sb core.Sandbox, err error) {
	if err := p.may("UpdateSandbox"); err != nil {
		return core.Sandbox{}, err
	}
	if err := patch.check(); err != nil {
		return core.Sandbox{}, err
	}
	if sb, err = s.used(ctx, p, ref); err != nil {
		return core.Sandbox{}, err
	}
	if patch.Resources != (ResourcesPatch{}) {
		if err = p.needKey(); err == nil {
			sb, err = s.resizing.update(ctx, p, sb.ID, patch)
		}
	} else {
		sb, err = s.patchRecord(ctx, p, ref, patch)
	}
	if err != nil {
		return core.Sandbox{}, err
	}
	s.lifecycle.lookAgain()
	if patch.Idle != nil || patch.OnIdle != "" || patch.Rules != nil || patch.Persistent != nil {
		s.activity.reload(ctx, sb.ID)
	}
	s.activity.show(&sb)
	return sb, nil
}

// patchRecord makes a change of which no machine has to hear.
func (s *Service) patchRecord(ctx context.Context, p Principal, ref string, patch SandboxPatch) (sb core.Sandbox, err error) {
	now := s.clock.Now()
	err = s.store.Update(ctx, func(tx store.Tx) error {
		if sb, err = p.findToChange(tx, ref); err != nil {
			return err
		}
		if sb, err = s.patched(tx, p, sb, patch, now); err != nil {
			return err
		}
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return s.usage.relabel(tx, sb, patch, now)
	})
	return sb, err
}

// patched returns a record as a patch makes it, but for limits.
func (d *deps) patched(r store.Reader, p Principal, sb core.Sandbox, patch SandboxPatch, now time.Time) (core.Sandbox, error) {
	if patch.Labels != nil {
		labels, err := p.labeled(*patch.Labels)
		if err != nil {
			return sb, err
		}
		patch.Labels = &labels
	}
	limits, err := d.limitsIn(r, sb.Tenant)
	if err != nil {
		return sb, err
	}
	err = limits.patch(&sb, patch, now)
	return sb, err
}

// check refuses what is wrong whatever the sandbox is.
func (patch SandboxPatch) check() error {
	if patch.TTL != nil && patch.ExtendTTL != nil {
		return core.Invalid("extend_ttl_seconds", "give either ttl_seconds or extend_ttl_seconds")
	}
	if patch.ExtendTTL != nil && *patch.ExtendTTL < minTTL {
		return core.Invalid("extend_ttl_seconds", "a ttl is extended to at least 1 second")
	}
	if patch.Labels != nil {
		return checkLabels(*patch.Labels)
	}
	return nil
}

// patch changes a record.
func (l Limits) patch(sb *core.Sandbox, patch SandboxPatch, now time.Time) (err error) {
	if patch.Labels != nil {
		sb.Labels = *patch.Labels
	}
	becomesEphemeral := patch.Persistent != nil && !*patch.Persistent && sb.Persistent
	if patch.Persistent != nil {
		if *patch.Persistent && !sb.Persistent && sb.OnIdle == core.ActionDelete {
			sb.Idle, sb.OnIdle = 0, ""
		}
		sb.Persistent = *patch.Persistent
	}
	if err := patch.rules(l, sb, now); err != nil {
		return err
	}
	switch {
	case patch.TTL != nil:
		sb.ExpiresAt, err = l.newExpiry(*sb, *patch.TTL, now)
	case !sb.Persistent && !sb.Ends():
		sb.ExpiresAt = now.Add(l.DefaultTTL)
	case becomesEphemeral && sb.ExpiresAt.After(now.Add(l.MaxTTL)):
		return core.Invalid("persistent",
			"an ephemeral sandbox lives at most %s, and this one has longer to go: say its ttl too", config.FormatDuration(l.MaxTTL))
	}
	if err == nil && becomesEphemeral {
		err = l.ephemeral(*sb, now)
	}
	if err != nil || patch.ExtendTTL == nil {
		return err
	}
	until, err := l.newExpiry(*sb, *patch.ExtendTTL, now)
	if err != nil {
		return blame(err, "extend_ttl_seconds")
	}
	if !sb.ExpiresAt.IsZero() && until.After(sb.ExpiresAt) {
		sb.ExpiresAt = until
	}
	return nil
}

// rules changes the rules of a record, but for the ttl.
func (patch SandboxPatch) rules(l Limits, sb *core.Sandbox, now time.Time) (err error) {
	if patch.Idle != nil || patch.OnIdle != "" {
		after, then := sb.Idle, cmp.Or(patch.OnIdle, sb.OnIdle)
		if patch.Idle != nil {
			after = *patch.Idle
		}
		if after == 0 {
			then = patch.OnIdle
		}
		if sb.Idle, sb.OnIdle, err = idleRule(after, then, sb.Persistent); err != nil {
			return err
		}
	}
	if patch.Rules != nil {
		if sb.Rules, err = l.rules(*patch.Rules, *sb, now); err != nil {
			return err
		}
	}
	switch counted := patch.Idle != nil || patch.Rules != nil; {
	case !sb.CountsUse():
		sb.ActiveAt = time.Time{}
	case (counted || sb.ActiveAt.IsZero()) && now.After(sb.ActiveAt):
		sb.ActiveAt = now // what is on record may lie ahead, and stays there
	}
	return nil
}

// newExpiry is when a sandbox ends whose ttl is set anew.
func (l Limits) newExpiry(sb core.Sandbox, ttl time.Duration, now time.Time) (time.Time, error) {
	if ttl == 0 {
		if sb.ExpiresAt = (time.Time{}); !sb.Persistent && !sb.Ends() {
			return time.Time{}, core.Invalid("ttl_seconds", "only a persistent sandbox, or one with an idle rule or another that deletes it, can be without a ttl")
		}
		return time.Time{}, nil
	}
	d, err := l.ttl(ttl, sb.Persistent)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(d), nil
}

// blame makes an error blame another field.
func blame(err error, field string) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return err
	}
	other := *e
	other.Field = field
	return &other
}
