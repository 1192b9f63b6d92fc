package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// operand is one argument as a usage line names it: SANDBOX, [EXEC], EXEC… or bash|zsh|fish.
type operand struct {
	name           string
	choices        []string
	optional, many bool
}

// operands reads what arguments a usage line promises, and how many of them come before its --. That line is what people
// see, so it's the only place that says it.
func operands(use string) (list []operand, dash int) {
	dash = -1
	for _, word := range strings.Fields(use)[1:] {
		switch word {
		case "[flags]", "[command]", "COMMAND":
			continue
		case "--":
			dash = len(list)
			continue
		}
		o := operand{}
		if inner, ok := strings.CutPrefix(word, "["); ok {
			word, o.optional = strings.TrimSuffix(inner, "]"), true
		}
		o.name, o.many = strings.CutSuffix(word, "…")
		if strings.Contains(o.name, "|") {
			o.choices = strings.Split(o.name, "|")
		}
		list = append(list, o)
	}
	return list, dash
}

// takesWhatItSays checks a command's arguments against its usage line.
func takesWhatItSays(c *cobra.Command, args []string) error {
	if c.HasSubCommands() {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return nil
	}
	list, dash := operands(c.Use)
	if dash >= 0 && dash < len(args) && args[dash] == "--" {
		args = slices.Delete(slices.Clone(args), dash, dash+1)
	}
	var missing []string
	for i, o := range list {
		switch {
		case i >= len(args) && !o.optional && o.choices != nil:
			return usage(c, "say which: %s", either(o.choices, "or"))
		case i >= len(args) && !o.optional:
			missing = append(missing, o.name)
		case i < len(args) && args[i] == "" && !mayBeEmpty(o.name):
			return usage(c, "%s is empty: %s", o.name, strings.Replace(usageLine(c), " [flags]", "", 1))
		case i < len(args) && o.choices != nil && !slices.Contains(o.choices, args[i]):
			return usage(c, "%q is not %s", args[i], either(o.choices, "or"))
		}
	}
	line := strings.Replace(usageLine(c), " [flags]", "", 1)
	if last := len(list) - 1; last >= 0 && list[last].many && len(args) > last && !mayBeEmpty(list[last].name) && slices.Contains(args[last:], "") {
		return usage(c, "one %s is empty: %s", list[last].name, line)
	}
	switch {
	case len(missing) == 1:
		return usage(c, "%s is missing: %s", missing[0], line)
	case len(missing) > 1:
		return usage(c, "%s are missing: %s", either(missing, "and"), line)
	case len(args) > len(list) && len(list) == 0:
		return usage(c, "'%s' takes no argument: what is %q?", c.CommandPath(), args[0])
	case len(args) > len(list) && !list[len(list)-1].many:
		return usage(c, "one argument too many, %q: %s", args[len(list)], line)
	}
	return nil
}

// mayBeEmpty reports whether an operand is a word for something else to judge: a program's argument, or a command's that says what is wrong
// with it better.
func mayBeEmpty(name string) bool {
	return slices.Contains([]string{"CMD", "ARG", "NAME=VALUE", "SRC", "DST"}, name)
}

// either joins words as people list them: a, b or c.
func either(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// laterCommands are words for what this release can't do yet, each with what it is. None of them must be answered with a
// command that does something else for good.
func laterCommands() map[string]string {
	const (
		life   = "put a sandbox to sleep with its processes ('shoal stop' ends them and keeps its files)"
		copies = "make a second sandbox of one as it is"
		states = "go back by steps ('shoal restore' goes back to a checkpoint)"
	)
	return map[string]string{
		"pause": life, "unpause": life, "resume": life, "suspend": life, "freeze": life, "standby": life, "hibernate": life,
		"fork": copies, "clone": copies, "undo": states,
	}
}

// unknownCommand says that c has no command of a name, and what may have been meant.
func unknownCommand(c *cobra.Command, name string) error {
	if what := laterCommands()[name]; what != "" && !c.HasParent() {
		return usage(c, "this release has no command %q yet: it can't %s", name, what)
	}
	text := fmt.Sprintf("unknown command %q", name)
	if c.HasParent() {
		text = fmt.Sprintf("'%s' has no command %q", c.CommandPath(), name)
	}
	var near []string
	for c.SuggestionsMinimumDistance = 1; len(near) == 0 && c.SuggestionsMinimumDistance <= 2; c.SuggestionsMinimumDistance++ {
		near = c.SuggestionsFor(name)
	}
	if len(near) > 0 {
		slices.Sort(near)
		text += ": did you mean " + either(slices.Compact(near), "or") + "?"
	}
	return usage(c, "%s", text)
}

// flagError says in words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		bare    *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		number  *strconv.NumError
	)
	switch {
	case c.HasSubCommands() && c.Flags().NArg() > 0: // Whose flag it is, is what is wrong first.
		return unknownCommand(c, c.Flags().Arg(0))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return usage(c, "'%s' has no flag -%s", c.CommandPath(), unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return usage(c, "'%s' has no flag --%s%s", c.CommandPath(), unknown.GetSpecifiedName(), nearFlags(c, unknown.GetSpecifiedName()))
	case errors.As(err, &bare):
		return usage(c, "--%s needs a value", bare.GetFlag().Name)
	case errors.As(err, &invalid) && errors.As(invalid.Unwrap(), &number):
		return usage(c, "--%s takes a number, not %q", invalid.GetFlag().Name, invalid.GetValue())
	case errors.As(err, &invalid):
		return usage(c, "--%s %q: %v", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	return usage(c, "%v", err)
}

// checkArguments makes every command answer wrong arguments as a usage error, and refuse an output format that it doesn't
// know. It is called once the tree is complete.
func checkArguments(c *cobra.Command) {
	c.Args = takesWhatItSays
	c.Flags().BoolP("help", "h", false, "show this")
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := checkOutput(c); err != nil {
				return err
			}
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		checkArguments(sub)
	}
}

// checkOutput refuses an output format that a command doesn't have.
func checkOutput(c *cobra.Command) error {
	f := c.Flags().Lookup("output")
	if f == nil || f.Value.String() == outputTable {
		return nil
	}
	if shared, offline := c.Annotations[Offline]; offline && c.HasParent() && !c.HasSubCommands() && !slices.Contains(strings.Fields(shared), "output") {
		return usage(c, "'%s' has no -o %s: what it prints has one form", c.CommandPath(), f.Value)
	}
	if f.Value.String() == outputJSON {
		return nil
	}
	if c.Annotations[alsoCSV] == "" {
		return usage(c, "-o takes table or json, not %q", f.Value.String())
	}
	if f.Value.String() != outputCSV {
		return usage(c, "-o takes table, json or csv here, not %q", f.Value.String())
	}
	return nil
}
