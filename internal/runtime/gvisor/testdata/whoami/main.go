// Command whoami is the only program of an image in a test: it says as whom, where and with what it runs.
package main

import (
	"fmt"
	"os"
)

func main() {
	dir, err := os.Getwd()
	fmt.Printf("%d:%d %s %v PATH=%s HOME=%s\n", os.Getuid(), os.Getgid(), dir, err, os.Getenv("PATH"), os.Getenv("HOME"))
}
