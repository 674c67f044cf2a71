// Command registry is github.com/distribution/distribution/v3/cmd/registry without its storage in
// clouds, which is most of the build: the same server, which stores in memory or in a folder.
package main

import (
	"os"

	"applyprune.tests.components/lifeline"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/middleware/redirect"
)

func main() {
	go lifeline.ExitWithStdin()
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
