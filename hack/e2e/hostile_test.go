//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// Whatever users, repositories, Dockerfiles and images hold ends in a refusal, in a failure with a reason, or in just what was asked
// for. The controller goes on as before, keeps to the namespaces of the Builds, and tells no secret.
func TestHostileInputsEndInARefusalOrHarmlessly(t *testing.T) {
	pid, from, logged := cluster.controller.cmd.Process.Pid, auditEnd(t), len(controllerLog(t))
	all := &hostileScenes{builds: map[string]int{}}
	t.Run("the inputs", func(t *testing.T) {
		t.Run("refused", func(t *testing.T) { testRefused(all.scene(t)) })
		for group, rows := range hostileRows {
			t.Run(group, func(t *testing.T) { testHostile(all.scene(t), rows) })
		}
		for _, builder := range allBuilders {
			t.Run("values given to "+string(builder), func(t *testing.T) { testValues(all.scene(t), builder) })
		}
		t.Run("commands", func(t *testing.T) { testCommands(all.scene(t)) })
		t.Run("images in the place of the builder's", func(t *testing.T) { testLiars(all.scene(t)) })
		t.Run("objects of others", func(t *testing.T) { testForged(all.scene(t)) })
	})
	t.Run("an ordinary Build becomes Ready after all of them", func(t *testing.T) {
		s := all.scene(t)
		_, commit := s.pushPage()
		s.apply(s.page("page"))
		s.untilReady("page")
		s.expectBuilt("page", commit)
		s.expectAnswer("page", "", "hello")
	})
	t.Run("the controller is as it was", func(t *testing.T) {
		select {
		case <-cluster.controller.exited:
			t.Fatalf("it has ended: %s", cluster.controller.cmd.ProcessState)
		default:
		}
		if now := cluster.controller.cmd.Process.Pid; now != pid {
			t.Errorf("it is process %d, not %d", now, pid)
		}
		log := controllerLog(t)[logged:]
		if trouble := regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d).*|.*Observed a panic.*`).FindString(log); trouble != "" {
			t.Errorf("its log has %q", trouble)
		}
		expectNoSecret(t, "the controller's log", log)
		memory := mostMemory(t, pid)
		if memory > mostMiB {
			t.Errorf("it had %d MiB of memory", memory)
		}
		t.Logf("it had at most %d MiB of memory and wrote %d bytes of log", memory, len(log))
		all.expectNoWriteElsewhere(t, from)
	})
}

const (
	mostMiB    = 300
	mostStatus = 64 << 10 // bytes of JSON
	mostWrites = 60       // of the controller for one Build, over all of its life here
)

// hostileScenes are the namespaces with hostile inputs, and how many Builds each had at its end.
type hostileScenes struct {
	mu     sync.Mutex
	builds map[string]int
}

// scene is a scene whose Builds and Events are looked at before they are cleared.
func (all *hostileScenes) scene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	t.Cleanup(func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.builds[s.ns] = len(s.builds.List())
		s.expectHarmless()
	})
	return s
}

// expectNoWriteElsewhere expects that the controller has written to the scenes only, and not without end.
func (all *hostileScenes) expectNoWriteElsewhere(t *testing.T, from int64) {
	t.Helper()
	writes := map[string]int{}
	for _, r := range requestsSince(t, from) {
		if strings.HasPrefix(r.UserAgent, "build-controller/") && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb) {
			if _, ours := all.builds[r.ObjectRef.Namespace]; !ours {
				t.Errorf("it wrote where no Build is: %s", r)
			}
			writes[r.ObjectRef.Namespace]++
		}
	}
	for namespace, builds := range all.builds {
		if writes[namespace] > max(1, builds)*mostWrites {
			t.Errorf("%d writes for the %d Builds of %s", writes[namespace], builds, namespace)
		}
		t.Logf("%d writes for the %d Builds of %s", writes[namespace], builds, namespace)
	}
}

// expectHarmless expects that all statuses are short, fit to be printed, and that neither they nor the Events tell a secret.
func (s *scene) expectHarmless() {
	s.t.Helper()
	for _, build := range list[v1alpha1.Build](s.builds) {
		encoded, err := json.Marshal(build.Status)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(encoded) > mostStatus {
			s.t.Errorf("the status of %s has %d bytes", build.Name, len(encoded))
		}
		expectNoSecret(s.t, "the status of "+build.Name, string(encoded))
		var status any
		if err := json.Unmarshal(encoded, &status); err != nil {
			s.t.Fatal(err)
		}
		eachText("status", status, func(path, text string) {
			// A log has lines, and programs line up what they print; a message has the last line.
			text = strings.ReplaceAll(text, "\t", "")
			if strings.HasSuffix(path, ".logTail") {
				text = strings.ReplaceAll(text, "\n", "")
			}
			if strings.ContainsFunc(text, unicode.IsControl) {
				s.t.Errorf("%s of %s has characters that are not to be printed: %q", path, build.Name, text)
			}
		})
	}
	for _, event := range list[corev1.Event](s.events) {
		expectNoSecret(s.t, "the Event "+event.Reason+" of "+event.InvolvedObject.Name, event.Message)
	}
}

// eachText calls f with every text in decoded JSON, keys included, and where it is.
func eachText(path string, value any, f func(path, text string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, value := range value {
			f(path, key)
			eachText(path+"."+key, value, f)
		}
	case []any:
		for _, value := range value {
			eachText(path, value, f)
		}
	case string:
		f(path, value)
	}
}

// expectNoSecret expects that a text has none of the values of the scenes' Secrets.
func expectNoSecret(t *testing.T, where, text string) {
	t.Helper()
	for what, values := range knownSecrets(t) {
		for _, value := range values {
			if strings.Contains(text, value) {
				t.Errorf("%s has %s", where, what) // and not the text: others are in it as well
			}
		}
	}
}

// knownSecrets are the values that are to be seen nowhere.
var knownSecrets = func() func(t *testing.T) map[string][]string {
	read := sync.OnceValues(func() (map[string][]string, error) {
		key, err := os.ReadFile(filepath.Join(cluster.state, "git", "id_ed25519"))
		if err != nil {
			return nil, err
		}
		password, err := os.ReadFile(filepath.Join(cluster.state, "git", "password"))
		if err != nil {
			return nil, err
		}
		user, login, err := registryLogin()
		if err != nil || login == "" {
			return nil, errors.Join(err, errors.New("the registry has no password"))
		}
		lines := slices.DeleteFunc(strings.Fields(string(key)), func(line string) bool { return len(line) < 30 })
		return map[string][]string{
			"the git key":             lines[1:], // the first is the same in all keys of that kind
			"the git password":        {strings.TrimSpace(string(password))},
			"the registry's password": {login, base64.StdEncoding.EncodeToString([]byte(user + ":" + login))},
		}, nil
	})
	return func(t *testing.T) map[string][]string {
		t.Helper()
		secrets, err := read()
		if err != nil {
			t.Fatal(err)
		}
		return secrets
	}
}()

func controllerLog(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(cluster.controller.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// mostMemory is the most that a process has had, in MiB.
func mostMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("there is no VmHWM in %s", status)
	}
	kib, _ := strconv.Atoi(string(match[1])) // digits
	return kib >> 10
}

// part runs a part of a scene's test under a name of its own, whose failure ends no other part.
func (s *scene) part(name string, run func()) {
	whole := s.t
	whole.Run(name, func(t *testing.T) {
		s.t = t
		defer func() { s.t = whole }()
		run()
	})
}

// create makes a Build as it is: an apply would note all of it down once more in an annotation, for which a large one has no room.
func (s *scene) create(build *v1alpha1.Build) {
	s.t.Helper()
	if _, err := cluster.builds.BuildcontrollerV1alpha1().Builds(s.ns).Create(s.ctx, build, metav1.CreateOptions{FieldManager: "e2e"}); err != nil {
		s.t.Fatal(err)
	}
}

// untilSettled returns a Build when it is Ready, or says what is in its way.
func (s *scene) untilSettled(name string) *v1alpha1.Build {
	s.t.Helper()
	s.until(buildLimit, name+" is settled", func() error {
		err := s.ready(name)
		if build := s.build(name); err != nil && build != nil && build.Status.Phase == v1alpha1.PhaseFailed && build.Status.Failure != nil {
			return nil
		}
		return err
	})
	return s.build(name)
}

// expectSettled expects that a Build becomes Ready, if there are no reasons, or fails for one of them.
func (s *scene) expectSettled(name string, reasons ...v1alpha1.FailureReason) *v1alpha1.Build {
	s.t.Helper()
	build := s.untilSettled(name)
	failure := build.Status.Failure
	switch {
	case failure == nil && len(reasons) > 0:
		s.t.Errorf("%s is Ready, not %v", name, reasons)
	case failure != nil && !slices.Contains(reasons, failure.Reason):
		s.t.Errorf("%s ended with %s/%s: %s\n%s", name, failure.Step, failure.Reason, failure.Message, failure.LogTail)
	case failure != nil && failure.Message == "":
		s.t.Errorf("%s ended with %s and no message", name, failure.Reason)
	case failure != nil:
		s.t.Logf("%s/%s: %s", failure.Step, failure.Reason, failure.Message)
	}
	return build
}

// within is a timeout for a run that would not end by itself.
func within(d time.Duration) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Timeout = &metav1.Duration{Duration: d} }
}

func inlined(dockerfile string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.Inline = dockerfile }
}

func inContext(dir string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Source.ContextDir = dir }
}
