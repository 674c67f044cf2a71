// Command controlplane is a whole Kubernetes control plane in one program: the first argument names
// the component, the rest are that component's own arguments.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// components maps a name to its main function; each reads os.Args as if it were a program of its own.
var components = map[string]func(){
	"etcd":                    etcd,
	"kube-apiserver":          kubeAPIServer,
	"kube-controller-manager": kubeControllerManager,
	"kube-scheduler":          kubeScheduler,
	"kwok":                    kwok,
	"kwok-stages":             kwokStages,
	"pki":                     pki,
}

func main() {
	if len(os.Args) > 1 {
		if run, known := components[os.Args[1]]; known {
			holdLifeline()
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	names := make([]string, 0, len(components))
	for name := range components {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane %s [ARGUMENT...]\n", strings.Join(names, "|"))
	os.Exit(2)
}
