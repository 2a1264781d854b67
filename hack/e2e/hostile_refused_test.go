//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// What the API server says.
const (
	saysURL      = "url must be ssh://user@host/path, user@host:path or https://host/path, with no password in it"
	saysRevision = "revision must be the name of a branch or tag, or a full commit id"
	saysPath     = "must be a path inside the"
	saysImage    = "name must be [registry/]repository[:tag]"
	saysPattern  = "should match"
	saysArgs     = "args must not name a flag by which nothing is pushed"
)

// hostileRefused are Builds that never get in. hack/apitest has every rule; these are those by which something would be reached.
var hostileRefused = map[string]struct {
	asks func(*v1alpha1.BuildSpec)
	says string
}{
	"git's ext transport runs a command":               {fromURL("ext::sh -c touch% /tmp/x", gitKeySecret), saysURL},
	"an option in the place of the url":                {fromURL("--upload-pack=touch /tmp/x", gitKeySecret), saysURL},
	"an option of ssh in the place of the host":        {fromURL("ssh://-oProxyCommand=id/x", gitKeySecret), saysURL},
	"an option of ssh in the place of the user":        {fromURL("-oProxyCommand=id@host:x", gitKeySecret), saysURL},
	"an option in the place of an scp-like path":       {fromURL("git@host:--upload-pack=id x", gitKeySecret), saysURL},
	"files of the node by url":                         {fromURL("file:///etc", ""), saysURL},
	"files of the node by path":                        {fromURL("/etc", ""), saysURL},
	"files of the node by a relative path":             {fromURL("../../etc", ""), saysURL},
	"the git protocol, which nobody signs":             {fromURL("git://git.example.com/x", ""), saysURL},
	"http, which anybody reads":                        {fromURL("http://git.example.com/x", ""), saysURL},
	"a user and password in the url":                   {fromURL("https://user:word@git.example.com/x", ""), saysURL},
	"a token in the url":                               {fromURL("https://token@git.example.com/x", ""), saysURL},
	"a url with a line break":                          {fromURL("https://git.example.com/x\nhttps://evil.example.com/y", ""), saysURL},
	"a url with a carriage return":                     {fromURL("https://git.example.com/x\r", ""), saysURL},
	"a url with a tab":                                 {fromURL("https://git.example.com/x\ty", ""), saysURL},
	"a url with a NUL":                                 {fromURL("https://git.example.com/x\x00y", ""), saysURL},
	"a host that looks like another":                   {fromURL("https://gіthub.com/x", ""), saysURL}, // a Cyrillic і
	"a url that is written from right to left":         {fromURL("https://git.example.com/\u202egit.x", ""), saysURL},
	"a url of 3,000 characters":                        {fromURL("https://git.example.com/"+strings.Repeat("x", 3000), ""), "Too long"},
	"a host with a variable of a shell":                {fromURL("https://$(id)/x", ""), saysURL},
	"a port that is a path":                            {fromURL("ssh://git@host:22/../x y", gitKeySecret), saysURL},
	"ssh with no key":                                  {fromURL(gitSSH+"x", ""), "secretName is required for a repository over ssh"},
	"a Secret of another namespace":                    {gitSecret("other/secret"), saysPattern},
	"a Secret two directories up":                      {gitSecret("../../kube-system/secret"), saysPattern},
	"a Secret for the registry of another namespace":   {func(spec *v1alpha1.BuildSpec) { spec.Image.SecretName = "other/secret" }, saysPattern},
	"an option in the place of the revision":           {revision("--upload-pack=id"), saysRevision},
	"a short option in the place of the revision":      {revision("-x"), saysRevision},
	"a range of revisions":                             {revision("main..other"), saysRevision},
	"an entry of the reflog":                           {revision("main@{0}"), saysRevision},
	"a refspec":                                        {revision("main:refs/heads/other"), saysRevision},
	"a file of a revision":                             {revision("HEAD:file"), saysRevision},
	"a revision with a command behind it":              {revision("main;rm -rf /"), saysRevision},
	"a revision that climbs":                           {revision("refs/../../x"), saysRevision},
	"a revision with a line break":                     {revision("main\n--upload-pack=id"), saysRevision},
	"a revision of 300 characters":                     {revision(strings.Repeat("x", 300)), "Too long"},
	"a parent of a revision":                           {revision("main~1"), saysRevision},
	"a context directory that climbs":                  {inContext("../.."), saysPath},
	"a context directory that climbs later":            {inContext("a/../../b"), saysPath},
	"a context directory of the node":                  {inContext("/etc"), saysPath},
	"a context directory with a line break":            {inContext("a\nb"), saysPath},
	"a Dockerfile that climbs":                         {dockerfileAt("../../../etc/passwd"), saysPath},
	"a Dockerfile of the node":                         {dockerfileAt("/proc/self/environ"), saysPath},
	"an image with an option behind it":                {imageName("registry.example.com/x:1,push=false"), saysImage},
	"an image with a command in it":                    {imageName("registry.example.com/$(id):1"), saysImage},
	"an image with a line break":                       {imageName("registry.example.com/x:1\n--no-push"), saysImage},
	"an image of other letters":                        {imageName("registry.example.com/shöp:1"), saysImage},
	"an image that says its digest":                    {imageName("registry.example.com/x@sha256:" + strings.Repeat("0", 64)), "name must have no digest"},
	"an image with an option in the place of the name": {imageName("--no-push"), saysImage},
	"a tag that is an option":                          {func(spec *v1alpha1.BuildSpec) { spec.Image.AdditionalTags = []string{"--insecure"} }, saysPattern},
	"a tag that pushes elsewhere":                      {func(spec *v1alpha1.BuildSpec) { spec.Image.AdditionalTags = []string{"x,name=evil.example.com/x"} }, saysPattern},
	"a label whose name has more in it":                {imageLabel("a=b,push=false", "x"), "a label's name has letters"},
	"a label with a line break in its name":            {imageLabel("a\nb", "x"), "a label's name has letters"},
	"a label of 5,000 characters":                      {imageLabel("a", strings.Repeat("x", 5000)), "at most 4096 characters"},
	"a build argument that is an option":               {buildArg("--no-push", "x"), saysPattern},
	"a build argument whose name is two":               {buildArg("A=1 B", "x"), saysPattern},
	"a build argument of 5,000 characters":             {buildArg("A", strings.Repeat("x", 5000)), "Too long"},
	"a target that is an option":                       {func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.Target = "--no-push" }, saysPattern},
	"an argument by which nothing is pushed":           {builderArgs("--no-push"), saysArgs},
	"an argument that puts the digest elsewhere":       {builderArgs("--digest-file=/tmp/x"), saysArgs},
	"a mirror with a setting behind it": {func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{Mirrors: []string{"a\"]\nhttp = true #"}}
	}, saysPattern},
	"a secret whose key climbs": {func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{Name: v1alpha1.BuildKit, Secrets: []v1alpha1.BuildSecret{{ID: "x", SecretName: "s", Key: "../x"}}}
	}, saysPattern},
	"a secret whose name is a second source": {func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{Name: v1alpha1.BuildKit, Secrets: []v1alpha1.BuildSecret{{ID: "x,src=/etc/shadow", SecretName: "s", Key: "k"}}}
	}, saysPattern},
	"a volume over kaniko's own files": {mounted("/kaniko/.docker"), "mountPath must not be below"},
	"a volume that climbs there":       {mounted("/x/../kaniko"), "mountPath must be an absolute path"},
	"a directory of a volume that climbs": {func(spec *v1alpha1.BuildSpec) {
		mounted("/x")(spec)
		spec.Builder.Volumes[0].SubPath = "../.."
	}, saysPath},
	"two sources for a volume": {func(spec *v1alpha1.BuildSpec) {
		mounted("/x")(spec)
		spec.Builder.Volumes[0].Secret = &corev1.SecretVolumeSource{SecretName: gitKeySecret}
	}, "a volume has exactly one of"},
	"an inline Dockerfile of 70 kB":     {inlined(strings.Repeat("# x\n", 17_500)), "Too long"},
	"a history without end":             {func(spec *v1alpha1.BuildSpec) { spec.History = &v1alpha1.History{Failed: ptr.To[int32](51)} }, "less than or equal to 50"},
	"an annotation of the controller's": {serviceAnnotation("buildcontroller.dev/applied", "x"), "are the controller's own"},
	"a rollback to another repository": {func(spec *v1alpha1.BuildSpec) {
		spec.Deployment.Rollback = "evil.example.com/x@sha256:" + strings.Repeat("0", 64)
	}, "rollback must be sha256:"},
	"an ingress for every host": {func(spec *v1alpha1.BuildSpec) {
		spec.Deployment.Ingress = &v1alpha1.Ingress{Host: "*.example.com/x"}
	}, "host must be the name of a host"},
}

func dockerfileAt(path string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Dockerfile.Path = path }
}

func imageName(name string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Image.Name = name }
}

func imageLabel(name, value string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Image.Labels = map[string]string{name: value} }
}

func builderArgs(args ...string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Builder = &v1alpha1.Builder{Args: args} }
}

func mounted(path string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) {
		spec.Builder = &v1alpha1.Builder{Volumes: []v1alpha1.Volume{{Name: "x", MountPath: path, EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
}

func serviceAnnotation(name, value string) func(*v1alpha1.BuildSpec) {
	return func(spec *v1alpha1.BuildSpec) { spec.Deployment.Service.Annotations = map[string]string{name: value} }
}

// hostileObjects are Builds that never get in for what they are as objects.
var hostileObjects = map[string]struct {
	change func(*v1alpha1.Build)
	says   string
}{
	"a name of 253 characters":       {func(build *v1alpha1.Build) { build.Name = strings.Repeat("n", 253) }, "metadata.name must start with a letter"},
	"a name that is a path":          {func(build *v1alpha1.Build) { build.Name = "a/../b" }, "a lowercase RFC 1123 subdomain"},
	"a name of other letters":        {func(build *v1alpha1.Build) { build.Name = "gіt" }, "a lowercase RFC 1123 subdomain"},
	"a name that no Job may have":    {func(build *v1alpha1.Build) { build.Name = "a.b" }, "metadata.name must start with a letter"},
	"annotations of 300 kB":          {func(build *v1alpha1.Build) { build.Annotations = many(3000, 100) }, "Too long: may not be more than 262144"},
	"the namespace of somebody else": {func(build *v1alpha1.Build) { build.Namespace = "kube-system" }, "does not match the namespace"},
	"an object of 2 MB": {func(build *v1alpha1.Build) {
		build.Spec.Deployment.Env = nil
		for i := range 200 {
			build.Spec.Deployment.Env = append(build.Spec.Deployment.Env, corev1.EnvVar{Name: fmt.Sprint("E", i), Value: strings.Repeat("x", 10_000)})
		}
	}, "etcdserver: request is too large"},
}

// many are n entries with values of that size.
func many(n, size int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("example.com/a%d", i)] = strings.Repeat("x", size)
	}
	return all
}

// testRefused has one kubectl for all of them: it goes on after an error.
func testRefused(s *scene) {
	s.t.Parallel()
	var stdin strings.Builder
	names, says := map[string]string{}, map[string]string{} // by the row
	ask := func(row, what string, build *v1alpha1.Build) {
		encoded, err := json.Marshal(build)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&stdin, "---\n%s\n", encoded)
		says[row] = what
	}
	for row, c := range hostileRefused {
		names[row] = fmt.Sprintf("row-%d", len(names))
		ask(row, c.says, s.page(names[row], c.asks))
	}
	for row, c := range hostileObjects {
		build := s.page("object")
		c.change(build)
		ask(row, c.says, build)
	}
	_, err := kubectl(stdin.String(), "create", "--namespace", s.ns, "-f", "-")
	if err == nil {
		s.t.Fatal("nothing was refused")
	}
	_, said, _ := strings.Cut(err.Error(), "\n")
	answers := strings.Split("\n"+said, "\nError from server")
	for row, what := range says {
		s.part(row, func() {
			for _, answer := range answers {
				name, ofRow := names[row]
				if strings.Contains(answer, what) && (!ofRow || strings.Contains(answer, fmt.Sprintf("%q is invalid", name))) {
					return
				}
			}
			s.t.Errorf("kubectl does not say %q about %s", what, names[row])
		})
	}
	if s.t.Failed() {
		s.t.Log(said)
	}
	if builds := list[v1alpha1.Build](s.builds); len(builds) > 0 {
		s.t.Errorf("%d got in, %s with %+v among them", len(builds), builds[0].Name, builds[0].Spec)
	}
}
