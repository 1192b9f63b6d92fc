// Command agent is a stand-in for the guest agent in the runtime's tests: one line in, one line out, on the guest agent's
// address.
//
//	echo WORDS       WORDS
//	stat PATH        uid gid mode, or an error
//	read PATH        the file, quoted
//	write PATH WORDS
//	alloc MIB        touches so much memory and keeps it
//	spin MS          burns one processor for so long, then says how much processor time that was in ms
//	cpus             number of processors
//	exit N           ends init
//
// With arguments it does what they say as one line, and fails if the answer is an error.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var kept [][]byte

func main() {
	if len(os.Args) > 1 {
		if strings.HasPrefix(answer(os.Args[1], strings.Join(os.Args[2:], " ")), "error") {
			os.Exit(1)
		}
		return
	}
	l, err := net.Listen("tcp", "10.88.0.2:7070")
	if err != nil {
		os.Exit(3)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(4)
		}
		go serve(conn)
	}
}

func serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		fmt.Fprintln(conn, answer(verb, rest))
	}
}

func answer(verb, rest string) string {
	switch verb {
	case "echo":
		return rest
	case "stat":
		var st syscall.Stat_t
		if err := syscall.Lstat(rest, &st); err != nil {
			return "error " + err.Error()
		}
		return fmt.Sprintf("%d %d %o", st.Uid, st.Gid, st.Mode)
	case "read":
		text, err := os.ReadFile(rest)
		if err != nil {
			return "error " + err.Error()
		}
		return strconv.Quote(string(text))
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "error " + err.Error()
		}
		return "ok"
	case "alloc":
		n, _ := strconv.Atoi(rest)
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
		return "ok"
	case "spin":
		ms, _ := strconv.Atoi(rest)
		return strconv.FormatInt(spin(time.Duration(ms)*time.Millisecond).Milliseconds(), 10)
	case "cpus":
		return strconv.Itoa(runtime.NumCPU())
	case "exit":
		n, _ := strconv.Atoi(rest)
		os.Exit(n)
	}
	return "error no such verb"
}

// spin counts work done in a wall-clock time, as rounds.
func spin(d time.Duration) time.Duration {
	var rounds int64
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := 0; i < 1000; i++ {
			rounds++
		}
	}
	return time.Duration(rounds/1000) * time.Millisecond
}
