package main

import (
	"fmt"
	"os"
	"strconv"
)

// lifelineVariable holds the number of the file descriptor that is the read end of a pipe whose
// write end only the supervisor has.
const lifelineVariable = "APPLYPRUNE_LIFELINE_FD"

// holdLifeline ends this process at once when the supervisor is gone. The kernel closes a dead
// process's pipes whatever killed it, so not even SIGKILL of the supervisor leaves an orphan; there
// is no such signal on macOS, and on Linux PDEATHSIG is bound to a thread, not a process.
func holdLifeline() {
	value := os.Getenv(lifelineVariable)
	if value == "" {
		return
	}
	descriptor, err := strconv.Atoi(value)
	if err != nil || descriptor < 3 {
		fmt.Fprintf(os.Stderr, "%s=%q is not a file descriptor\n", lifelineVariable, value)
		os.Exit(2)
	}
	os.Unsetenv(lifelineVariable)
	pipe := os.NewFile(uintptr(descriptor), "lifeline")
	go func() {
		// Nothing is ever written: Read returns at the end of the pipe only, or with an error that
		// means that it never was one. Both say that nobody watches over this process.
		buffer := make([]byte, 1)
		for {
			if _, err := pipe.Read(buffer); err != nil {
				os.Exit(1)
			}
		}
	}()
}
