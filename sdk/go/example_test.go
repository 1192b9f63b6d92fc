package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shoal/sdk/go"
)

// An ephemeral sandbox runs one command and is gone.
func Example() {
	ctx := context.Background()
	client := &shoal.Client{BaseURL: os.Getenv("SHOAL_URL"), APIKey: os.Getenv("SHOAL_API_KEY")}
	sandbox, err := client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{TTLSeconds: new(int64(600))})
	if err != nil {
		fmt.Println("create:", err)
		return
	}
	defer func() { _ = client.Sandboxes().Delete(ctx, sandbox.ID) }()
	result, err := client.Execs(sandbox.ID).Run(ctx, shoal.ExecRequest{
		Cmd: []string{"python3", "-c", "print(6*7)"}, TimeoutSeconds: new(30.0),
	})
	if err != nil {
		fmt.Println("run:", err)
		return
	}
	fmt.Printf("%s: %s", result.Outcome, result.StdoutBytes())
}

// A stream brings output as it comes and takes input.
func ExampleExecs_Stream() {
	ctx := context.Background()
	client := &shoal.Client{}
	stream, err := client.Execs("build-1").Stream(ctx, shoal.ExecRequest{Shell: "read x; echo got $x", StdinOpen: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stream.Close() }()
	if _, err := io.WriteString(stream, "it\n"); err != nil {
		fmt.Println(err)
		return
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		switch m.Type {
		case shoal.MessageStdout, shoal.MessageStderr:
			_, _ = os.Stdout.Write(m.Bytes())
		case shoal.MessageEnded:
			fmt.Println(m.Exec.Outcome)
		default:
		}
	}
}

// A detached process goes on by itself; whoever attaches again from the offset reached misses and repeats nothing.
func ExampleExecs_Attach() {
	ctx := context.Background()
	execs := (&shoal.Client{}).Execs("build-1")
	exec, err := execs.Start(ctx, shoal.ExecRequest{Cmd: []string{"make"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for reached := int64(0); ; {
		stream, err := execs.Attach(ctx, exec.ID, reached)
		if err != nil {
			fmt.Println(err)
			return
		}
		for err == nil {
			var m shoal.ExecMessage
			if m, err = stream.Recv(); err == nil && m.Offset != nil {
				_, _ = os.Stdout.Write(m.Bytes())
				reached = *m.Offset + int64(len(m.Bytes())) + m.Missing
			}
		}
		_ = stream.Close()
		if shoal.ErrorCode(err) != shoal.CodeUnavailable {
			return
		}
	}
}

// Files are written whole or not at all.
func ExampleFiles_Write() {
	files := (&shoal.Client{}).Files("build-1")
	info, err := files.Write(context.Background(), "/home/user/in/data.csv", strings.NewReader("a,b\n1,2\n"), shoal.WriteOptions{Parents: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.PathBytes(), info.Size)
}

// An error has a code to decide by.
func ExampleError() {
	_, err := (&shoal.Client{}).Sandboxes().Create(context.Background(), shoal.CreateSandboxRequest{Name: "build-1"})
	var e *shoal.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Code == shoal.CodeExhausted:
		fmt.Println("full, try again in", e.RetryAfter.Round(time.Second))
	default:
		fmt.Println(err)
	}
}
