package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// gitUser may read below /private/ of the https git server.
const gitUser = "git"

// servers is this program again, as the servers that are few enough lines to
// be part of it.
func (c *cluster) servers() (service, error) {
	secret, err := c.gitPassword()
	if err != nil {
		return service{}, err
	}
	return service{
		name: "servers",
		path: c.program(),
		args: []string{"serve"},
		env:  []string{"DEVCLUSTER_STATE=" + c.state, "DEVCLUSTER_SOURCE=" + c.source, "BUILD_CONTROLLER_CACHE=" + c.cache},
		ready: func(ctx context.Context) error {
			return errors.Join(
				wantsPassword(ctx, "https://"+gitHTTPSAddress+"/private/", gitUser, secret),
				wantsPassword(ctx, "https://"+gitPrivateAddress+"/private/", gitUser, secret),
				httpOK("http://"+goProxyAddress+"/")(ctx),
			)
		},
	}, nil
}

// serve runs git over https, a Go module proxy, and the Pods' name server.
func (c *cluster) serve(ctx context.Context) error {
	git, err := c.gitHandler()
	if err != nil {
		return err
	}
	goProxy, err := goModuleProxy(ctx)
	if err != nil {
		return err
	}
	names, err := net.ListenPacket("udp", dnsAddress)
	if err != nil {
		return err
	}
	failed := make(chan error, 4)
	for address, p := range map[string]pki{
		gitHTTPSAddress:   pki(c.in("git", "pki")),
		gitPrivateAddress: pki(c.in("git", "private-pki")),
	} {
		go func() { failed <- http.ListenAndServeTLS(address, p.cert("server"), p.key("server"), git) }()
	}
	go func() { failed <- http.ListenAndServe(goProxyAddress, goProxy) }()
	go func() { failed <- c.answerNames(ctx, names) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// gitHandler serves every repository twice, below /public/ to all and below
// /private/ to the git user. Neither may push: that is what ssh is for.
func (c *cluster) gitHandler() (http.Handler, error) {
	secret, err := c.gitPassword()
	if err != nil {
		return nil, err
	}
	execPath, err := output(exec.Command("git", "--exec-path"))
	if err != nil {
		return nil, err
	}
	backend := func(root string) http.Handler {
		return &cgi.Handler{
			Path:       filepath.Join(execPath, "git-http-backend"),
			Root:       root,
			Env:        append([]string{"GIT_PROJECT_ROOT=" + c.repositoriesDir(), "GIT_HTTP_EXPORT_ALL=1"}, gitEnvironment...),
			InheritEnv: []string{"PATH"},
		}
	}
	private := backend("/private")
	mux := http.NewServeMux()
	mux.Handle("/public/", backend("/public"))
	mux.HandleFunc("/private/", func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		if user != gitUser || subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="devcluster git"`)
			http.Error(w, "wrong user or password", http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/private/" {
			return // for whoever wants to know whether the password is right
		}
		private.ServeHTTP(w, r)
	})
	return mux, nil
}

// goModuleProxy serves the Go modules that this machine has downloaded: the
// go command's own cache is laid out like a module proxy.
func goModuleProxy(ctx context.Context) (http.Handler, error) {
	modules, err := output(exec.CommandContext(ctx, "go", "env", "GOMODCACHE"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(modules, "cache", "download")
	return http.FileServerFS(os.DirFS(dir)), os.MkdirAll(dir, 0o755)
}

// answerNames is the Pods' name server: it knows the cluster's Services, and no
// other name exists.
func (c *cluster) answerNames(ctx context.Context, connection net.PacketConn) error {
	buffer := make([]byte, 4096)
	for {
		n, client, err := connection.ReadFrom(buffer)
		if err != nil {
			return err
		}
		query := append([]byte(nil), buffer[:n]...)
		go func() {
			answer, err := c.answerName(ctx, query)
			if err == nil {
				_, err = connection.WriteTo(answer, client)
			}
			if err != nil {
				log.Printf("answering a name query: %v", err)
			}
		}()
	}
}

func (c *cluster) answerName(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	address, found := c.serviceAddress(ctx, question.Name.String())
	response := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, Authoritative: true,
			RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	switch {
	case !found:
		response.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		response.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 5},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	return response.Pack()
}

// serviceAddress returns the cluster address of <service>.<namespace>.svc.cluster.local.
func (c *cluster) serviceAddress(ctx context.Context, name string) (address [4]byte, found bool) {
	name, isService := strings.CutSuffix(strings.ToLower(name), ".svc.cluster.local.")
	serviceName, namespace, ok := strings.Cut(name, ".")
	if !isService || !ok || strings.ContainsAny(namespace, "./") || strings.Contains(serviceName, "/") {
		return address, false
	}
	api, err := newAPI(c.controlPlane().server(), c.controlPlane().pki())
	if err != nil {
		return address, false
	}
	var object struct{ Spec struct{ ClusterIP string } }
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/%s", namespace, serviceName)
	if err := api.get(ctx, path, &object); err != nil {
		return address, false
	}
	ip := net.ParseIP(object.Spec.ClusterIP).To4()
	return [4]byte(append(ip, make([]byte, 4)...)[:4]), ip != nil
}
