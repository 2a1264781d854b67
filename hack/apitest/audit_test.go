//go:build apitest

package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An auditLog is what the API server writes down about every request.
type auditLog struct {
	path    string
	markers atomic.Int64
}

// A request is one entry of the audit log.
type request struct {
	Stage            string      `json:"stage"`
	Verb             string      `json:"verb"`
	UserAgent        string      `json:"userAgent"`
	ImpersonatedUser *auditUser  `json:"impersonatedUser"`
	ObjectRef        auditObject `json:"objectRef"`
	ResponseStatus   struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
	Received    metav1.MicroTime  `json:"requestReceivedTimestamp"`
	Answered    metav1.MicroTime  `json:"stageTimestamp"` // when it was answered
}

type auditUser struct {
	Username string              `json:"username"`
	Extra    map[string][]string `json:"extra"`
}

type auditObject struct {
	Group       string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

func (r request) String() string {
	s := r.Verb + " " + r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		s += "/" + r.ObjectRef.Subresource
	}
	if name := strings.Trim(r.ObjectRef.Namespace+"/"+r.ObjectRef.Name, "/"); name != "" {
		s += " " + name
	}
	return fmt.Sprintf("%s: %d", s, r.ResponseStatus.Code)
}

// writes says whether the request asked to change something.
func (r request) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// changed says whether the request changed something, for all that its answer tells.
func (r request) changed() bool {
	return r.writes() && r.ResponseStatus.Code >= 200 && r.ResponseStatus.Code < 300
}

// by says whether the request came from that controller process.
func (r request) by(instance string) bool {
	return r.ImpersonatedUser != nil && slices.Contains(r.ImpersonatedUser.Extra[instanceKey], instance)
}

// byController says whether it came from any controller.
func (r request) byController() bool {
	return r.ImpersonatedUser != nil && len(r.ImpersonatedUser.Extra[instanceKey]) > 0
}

// lease says whether the request belongs to the leader election.
func (r request) lease() bool { return r.ObjectRef.Resource == "leases" }

// A position is a place in the audit log.
type position int64

// here is where the log ends now.
func (l *auditLog) here(t *testing.T) position {
	t.Helper()
	l.flushed(t, 0)
	info, err := os.Stat(l.path)
	if err != nil {
		t.Fatal(err)
	}
	return position(info.Size())
}

// since returns all requests that were answered between a position and now.
func (l *auditLog) since(t *testing.T, from position) []request {
	t.Helper()
	log := l.flushed(t, from)
	var requests []request
	for line := range bytes.Lines(log) {
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("audit log: %v: %s", err, line)
		}
		if r.Stage != "ResponseComplete" || r.UserAgent == markerAgent {
			continue
		}
		requests = append(requests, r)
	}
	return requests
}

const markerAgent = "apitest-marker"

// flushed returns the log from a position on, once it has a request that is
// made now: then those that were answered earlier are there too.
func (l *auditLog) flushed(t *testing.T, from position) []byte {
	t.Helper()
	marker := fmt.Sprintf("marker-%d", l.markers.Add(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := cluster.kube.CoreV1().RESTClient().Get().
		AbsPath("/api/v1/namespaces/default/configmaps/"+marker).
		SetHeader("User-Agent", markerAgent).Do(ctx).Error()
	if err == nil {
		t.Fatalf("there is a ConfigMap %s", marker)
	}
	for {
		log, err := readFrom(l.path, int64(from))
		if err != nil {
			t.Fatal(err)
		}
		if end := bytes.LastIndexByte(log, '\n') + 1; bytes.Contains(log[:end], []byte(marker)) {
			return log[:end]
		}
		select {
		// A file can't be watched with the standard library.
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the audit log does not get on")
		}
	}
}

func readFrom(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}
