// Command referrers is the registry of go-containerregistry with its referrers API, which the
// registry of distribution does not have: in memory, behind TLS, and with a password.
//
// It takes --certificate and --key, and REGISTRY_USER and REGISTRY_PASSWORD from the environment. It
// writes `listening on ADDRESS` once, then a line for each request: `"GET /v2/ HTTP/1.1" 200`.
package main

import (
	"crypto/subtle"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"applyprune.tests.components/lifeline"

	"github.com/google/go-containerregistry/pkg/registry"
)

type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func main() {
	certificate := flag.String("certificate", "", "the file of the server's certificate")
	key := flag.String("key", "", "the file of its key")
	flag.Parse()
	go lifeline.ExitWithStdin()
	log.SetFlags(0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	handler := recorded(guarded(registry.New(
		registry.WithReferrersSupport(true),
		registry.Logger(log.New(io.Discard, "", 0)),
	)))
	log.Fatal(http.ServeTLS(listener, handler, *certificate, *key))
}

func recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		reply := &recorder{writer, http.StatusOK}
		next.ServeHTTP(reply, request)
		log.Printf("\"%s %s %s\" %d", request.Method, request.RequestURI, request.Proto, reply.status)
	})
}

func guarded(next http.Handler) http.Handler {
	wanted, password := os.Getenv("REGISTRY_USER"), os.Getenv("REGISTRY_PASSWORD")
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		user, secret, _ := request.BasicAuth()
		if !same(user, wanted) || !same(secret, password) {
			writer.Header().Set("WWW-Authenticate", `Basic realm="referrers"`)
			writer.Header().Set("Content-Type", "application/json")
			writer.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(writer, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			return
		}
		next.ServeHTTP(writer, request)
	})
}

func same(given, wanted string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(wanted)) == 1
}
