package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

// branch is a checkpoint with how it stands in the tree of parents.
type branch struct {
	shoal.Checkpoint
	// lines is drawn before its id.
	lines string
}

// treeOf puts checkpoints, which come newest first, below their parents, the oldest first. One whose parent isn't among them is a root. A
// long chain stays in its column: └ ends a list of children, so that what follows in the column is a child again.
func treeOf(list []shoal.Checkpoint) []branch {
	known, children := map[string]bool{}, map[string][]shoal.Checkpoint{}
	for _, k := range list {
		known[k.ID] = true
	}
	for i := len(list) - 1; i >= 0; i-- {
		parent := list[i].Parent
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], list[i])
	}
	var out []branch
	// A stack and no recursion: a chain may be as long as there are checkpoints.
	type place struct {
		shoal.Checkpoint
		mark, below string
	}
	var stack []place
	for _, root := range children[""] {
		stack = append(stack, place{Checkpoint: root})
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			out = append(out, branch{at.Checkpoint, at.mark})
			of := children[at.ID]
			column := at.below
			if len(of) > 1 && at.mark != "" {
				column += "  "
			}
			for i := len(of) - 1; i >= 0; i-- {
				p := place{Checkpoint: of[i], mark: column + "└ ", below: column}
				if i < len(of)-1 {
					p.mark, p.below = column+"├ ", column+"│ "
				}
				stack = append(stack, p)
			}
		}
	}
	return out
}

func printCheckpoints(out io.Writer, now time.Time, list []shoal.Checkpoint) error {
	t := newTable(out, "ID", "SANDBOX", "CAUSE", "AGE", "ENDS IN", "WRITTEN", "COMMENT")
	for _, b := range treeOf(list) {
		t.row(b.lines+b.ID, b.SandboxID, b.Cause, age(now, b.CreatedAt), age(now, b.ExpiresAt), writtenText(b.Checkpoint), b.Comment)
	}
	return t.flush()
}

// writtenText says how much the sandbox had written, if anybody can tell.
func writtenText(k shoal.Checkpoint) string {
	if k.WrittenBytes == nil {
		return ""
	}
	return bytesText(*k.WrittenBytes)
}

func printCheckpoint(out io.Writer, now time.Time, k shoal.Checkpoint) error {
	t := newTable(out)
	disk := "no limit"
	if k.DiskBytes > 0 {
		disk = bytesText(k.DiskBytes)
	}
	for _, row := range [][2]string{
		{"id", k.ID},
		{"kind", k.Kind},
		{"comment", k.Comment},
		{"sandbox", k.SandboxID},
		{"parent", k.Parent},
		{"cause", k.Cause},
		{"template", k.Template},
		{"age", age(now, k.CreatedAt)},
		{"ends in", age(now, k.ExpiresAt)},
		{"written", writtenText(k)},
		{"vcpus", strconv.FormatFloat(k.VCPUs, 'g', -1, 64)},
		{"memory", bytesText(k.MemoryBytes)},
		{"disk", disk},
	} {
		t.row(row[0], row[1])
	}
	return t.flush()
}

// checkpoints completes checkpoints by id, with their comments, for at most so many arguments; any number if it is negative.
func (a completions) checkpoints(most int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.checkpointsOf("")(c, args, "")
	}
}

// sandboxThenCheckpoint completes a sandbox and then a checkpoint of it.
func (a completions) sandboxThenCheckpoint() cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return a.sandboxes(1)(c, args, typed)
		case 1:
			return a.checkpointsOf(args[0])(c, args, typed)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// checkpointsOf completes the checkpoints of a sandbox, or for none all.
func (a completions) checkpointsOf(sandbox string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
		err := a.askServer(c, func(ctx context.Context, client *shoal.Client) error {
			for k, err := range client.Checkpoints().List(ctx, shoal.CheckpointsOptions{Sandbox: sandbox}) {
				if err != nil || len(ids) == completionMost {
					return err
				}
				ids = append(ids, cobra.CompletionWithDesc(k.ID, fmt.Sprintf("%s, %s ago", printable(k.Comment), age(time.Now(), k.CreatedAt))))
			}
			return nil
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
