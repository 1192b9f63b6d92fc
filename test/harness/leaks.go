package harness

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Leaks names everything of a server that is still on the machine: mounts and loop devices in its data directory, processes
// that run from it, cgroups under its name.
func Leaks(dir, cgroup string) []string {
	var out []string
	out = append(out, linesWith("/proc/self/mountinfo", dir+"/", "mount")...)
	out = append(out, loopDevices(dir)...)
	for _, p := range Processes(dir) {
		out = append(out, fmt.Sprintf("process %d (%s)", p.PID, p.Command))
	}
	out = append(out, cgroups(cgroup)...)
	return out
}

func linesWith(file, text, what string) []string {
	f, err := os.Open(file)
	if err != nil {
		return []string{fmt.Sprintf("%s can't be read: %v", file, err)}
	}
	defer f.Close()
	var out []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.Contains(sc.Text(), text) {
			out = append(out, what+": "+sc.Text())
		}
	}
	return out
}

func loopDevices(dir string) []string {
	var out []string
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil && strings.HasPrefix(string(data), dir+"/") {
			out = append(out, "loop device: "+f+": "+strings.TrimSpace(string(data)))
		}
	}
	return out
}

// Process is a process that runs a program of a data directory.
type Process struct {
	PID     int
	Command string
}

// Processes returns the processes whose program is below dir: a server's sentries, gofers and their helpers.
func Processes(dir string) []Process {
	var out []Process
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		exe, err := os.Readlink(l)
		if err != nil || !strings.HasPrefix(exe, dir+"/") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(l, "/proc/%d/exe", &pid); err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		out = append(out, Process{pid, strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")})
	}
	return out
}

// cgroups returns every cgroup directory whose name begins so.
func cgroups(prefix string) []string {
	var out []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), prefix) {
			out = append(out, "cgroup: "+path)
			return filepath.SkipDir
		}
		return nil
	})
	return out
}
