// Command hello answers every request to / with one line.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// version is set by the linker, from the Dockerfile's build argument VERSION.
var version = "dev"

// longestRequest is how long a request may still run when the pod ends. No new
// ones come in then: a pod that build-controller deploys gets its SIGTERM some
// seconds after it was taken out of the Service.
const longestRequest = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Hello from Go, version %s\n", version)
	})
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		log.Print("asked to stop")
		deadline, cancel := context.WithTimeout(context.Background(), longestRequest)
		defer cancel()
		stopped <- server.Shutdown(deadline)
	}()

	log.Printf("version %s listens on %s", version, server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}
