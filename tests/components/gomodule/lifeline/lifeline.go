// Package lifeline ends a server together with the test that has started it.
package lifeline

import (
	"io"
	"os"
)

// ExitWithStdin waits for the end of the standard input, a pipe whose other end the starter holds,
// and exits: a starter that was killed leaves no server behind.
func ExitWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
