//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A request is what the API server has written down about one.
type request struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (r request) String() string {
	return fmt.Sprintf("%s %s %s/%s: %d", r.Verb, r.resource(), r.ObjectRef.Namespace, r.ObjectRef.Name, r.ResponseStatus.Code)
}

// resource is the request's kind of objects, as a rule for roles calls it.
func (r request) resource() string {
	if r.ObjectRef.Subresource != "" {
		return r.ObjectRef.Resource + "/" + r.ObjectRef.Subresource
	}
	return r.ObjectRef.Resource
}

func auditFile() string { return filepath.Join(cluster.state, "audit.log") }

// auditEnd is where the audit log ends now.
func auditEnd(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(auditFile())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// requestsSince returns the requests that were answered between a place in the
// audit log and now. A watch is there when it begins, and once more when it ends.
func requestsSince(t *testing.T, from int64) []request {
	t.Helper()
	var requests []request
	for line := range bytes.Lines(flushedAudit(t, from)) {
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			continue // the first line may be half of one
		}
		requests = append(requests, r)
	}
	return requests
}

// flushedAudit returns the log from a place on once it has a request that is made
// now: then those that were answered earlier are there too.
func flushedAudit(t *testing.T, from int64) []byte {
	t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = cluster.kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/configmaps/" + marker).Do(ctx).Error() // there is none
	for {
		file, err := os.Open(auditFile())
		if err != nil {
			t.Fatal(err)
		}
		log, err := io.ReadAll(io.NewSectionReader(file, from, 1<<40))
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		if end := bytes.LastIndexByte(log, '\n') + 1; bytes.Contains(log[:end], []byte(marker)) {
			return log[:end]
		}
		select {
		// A file can't be watched with the standard library.
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the audit log does not get on; is it of this cluster?")
		}
	}
}

// writesOf are the writes of the controller to a namespace.
func writesOf(t *testing.T, namespace string, from int64) []request {
	t.Helper()
	return slices.DeleteFunc(requestsSince(t, from), func(r request) bool {
		return r.ObjectRef.Namespace != namespace || !strings.HasPrefix(r.UserAgent, "build-controller/") ||
			!slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
	})
}
