// Command workload is what the Pods of the stories run:
//
//	workload serve [-ready true|false|SECONDS] [-ignore-term] [-fail-once FILE]
//	workload exit CODE [SECONDS]
//	workload eat MIB
//
// serve answers /ready and /live on port 8080, and fails once if the file is not there yet; exit ends
// with the code after that time; eat takes memory, and then waits.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	switch arguments := os.Args[2:]; os.Args[1] {
	case "serve":
		serve(arguments)
	case "exit":
		exit(arguments)
	case "eat":
		eat(arguments)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: workload serve|exit|eat …")
	os.Exit(2)
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		usage()
	}
	return value
}

func exit(arguments []string) {
	if len(arguments) == 0 {
		usage()
	}
	if len(arguments) > 1 {
		time.Sleep(time.Duration(number(arguments[1]) * float64(time.Second)))
	}
	fail(int(number(arguments[0])))
}

func fail(code int) {
	if code != 0 {
		fmt.Fprintln(os.Stderr, "panic: cannot open the database: connection refused")
	}
	os.Exit(code)
}

func eat(arguments []string) {
	if len(arguments) == 0 {
		usage()
	}
	taken := make([]byte, int(number(arguments[0]))<<20)
	for at := range taken {
		taken[at] = 1
	}
	fmt.Println("took", len(taken)>>20, "MiB")
	select {}
}

func serve(arguments []string) {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	ready := flags.String("ready", "true", "true, false, or after how many seconds")
	ignore := flags.Bool("ignore-term", false, "go on after SIGTERM")
	failed := flags.String("fail-once", "", "a file that says that it has failed before")
	flags.Parse(arguments)
	if *failed != "" {
		if _, err := os.Stat(*failed); err != nil {
			os.WriteFile(*failed, nil, 0o644)
			fail(1)
		}
	}
	start := time.Now()
	isReady := func() bool {
		if seconds, err := strconv.ParseFloat(*ready, 64); err == nil {
			return time.Since(start).Seconds() > seconds
		}
		return *ready == "true"
	}
	http.HandleFunc("/ready", func(writer http.ResponseWriter, _ *http.Request) {
		if !isReady() {
			writer.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/live", func(http.ResponseWriter, *http.Request) {})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			if !*ignore {
				os.Exit(0)
			}
		}
	}()
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
	os.Exit(1)
}
