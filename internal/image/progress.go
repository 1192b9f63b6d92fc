package image

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// tailLines is how many lines of a tool's output are kept for the operator.
const tailLines = 40

// progress reads a tool's output as it comes: it tells how far the work is and keeps the last lines.
type progress struct {
	report func(step string, percent int)
	// partial is an unfinished line.
	partial []byte
	tail    []string
	// name and percent are what was reported last.
	name    string
	percent int
	// fetched and configured count packages, of total.
	fetched, configured, total int
}

// maxLine bounds a line without an end.
const maxLine = 16 << 10

var newlyInstalled = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+ upgraded, (\d+) newly installed`) })

// Write takes a piece of output. It never fails.
func (p *progress) Write(data []byte) (int, error) {
	p.partial = append(p.partial, data...)
	for {
		i := bytes.IndexAny(p.partial, "\r\n")
		if i < 0 && len(p.partial) > maxLine {
			i = maxLine
		}
		if i < 0 {
			return len(data), nil
		}
		line := strings.TrimSpace(string(p.partial[:i]))
		p.partial = p.partial[i+1:]
		if line != "" {
			p.line(line)
		}
	}
}

// line looks at one line of mmdebstrap, debootstrap, apt or dpkg.
func (p *progress) line(line string) {
	if len(p.tail) == tailLines {
		p.tail = append(p.tail[:0], p.tail[1:]...)
	}
	p.tail = append(p.tail, line)
	switch {
	case strings.HasPrefix(line, "I: running apt-get update"), strings.HasPrefix(line, "I: Retrieving InRelease"):
		p.step("reading the package lists", 2)
	case strings.HasPrefix(line, "I: downloading packages"), strings.HasPrefix(line, "I: Retrieving "):
		p.step("downloading packages", 10)
	case strings.HasPrefix(line, "I: extracting archives"), strings.HasPrefix(line, "I: Extracting "):
		p.step("unpacking the base system", 25)
	case strings.HasPrefix(line, "I: installing essential"), strings.HasPrefix(line, "I: Configuring "):
		p.step("installing the base system", 35)
	case strings.HasPrefix(line, "I: installing remaining"):
		p.step("installing packages", 45)
	case strings.HasPrefix(line, "I: cleaning"):
		p.step("cleaning up", 94)
	case newlyInstalled().MatchString(line):
		p.total, _ = strconv.Atoi(newlyInstalled().FindStringSubmatch(line)[1])
		p.fetched, p.configured = 0, 0
	case strings.HasPrefix(line, "Get:") && p.total > 0 && p.percent >= 45:
		p.fetched++
		p.step(fmt.Sprintf("downloading packages (%d of %d)", min(p.fetched, p.total), p.total), p.between(45, 60, p.fetched))
	case strings.HasPrefix(line, "Setting up ") && p.total > 0 && p.percent >= 45:
		p.configured++
		p.step(fmt.Sprintf("installing packages (%d of %d)", min(p.configured, p.total), p.total), p.between(60, 93, p.configured))
	}
}

// between maps n of total to a percentage between low and high.
func (p *progress) between(low, high, n int) int {
	return low + (high-low)*min(n, p.total)/p.total
}

// step reports a step, unless it was the last. It never goes back.
func (p *progress) step(name string, percent int) {
	if percent < p.percent || (percent == p.percent && name == p.name) {
		return
	}
	p.percent, p.name = percent, name
	p.report(name, percent)
}

// output returns the last lines, the unfinished one included.
func (p *progress) output() string {
	lines := p.tail
	if rest := strings.TrimSpace(string(p.partial)); rest != "" {
		lines = append(lines[:len(lines):len(lines)], rest)
	}
	return strings.Join(lines, "\n")
}
