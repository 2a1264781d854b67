//go:build apitest

package apitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
	"github.com/buildcontroller/build-controller/pkg/plan"
)

// A change sets one field of the Build that the cases below start from, which
// is a good one. A nil value takes the field away.
type change struct {
	field string // dotted
	value any
}

func set(field string, value any) change { return change{field, value} }

// minimal is the least that a Build can say.
func minimal(name string, changes ...change) *unstructured.Unstructured {
	build := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "buildcontroller.dev/v1alpha1",
		"kind":       "Build",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"source": map[string]any{"git": map[string]any{"url": "https://git.example.com/acme/shop.git"}},
			"image":  map[string]any{"name": "registry.example.com/acme/shop:1.0"},
		},
	}}
	for _, c := range changes {
		path := strings.Split(c.field, ".")
		if c.value == nil {
			unstructured.RemoveNestedField(build.Object, path...)
			continue
		}
		// Through JSON, so that cases may be written with any type.
		encoded, err := json.Marshal(c.value)
		if err != nil {
			panic(err)
		}
		var value any
		if err := json.Unmarshal(encoded, &value); err != nil {
			panic(err)
		}
		if err := unstructured.SetNestedField(build.Object, value, path...); err != nil {
			panic(err)
		}
	}
	return build
}

const (
	url        = "spec.source.git.url"
	gitSecret  = "spec.source.git.secretName"
	rev        = "spec.source.git.revision"
	contextDir = "spec.source.contextDir"
	image      = "spec.image.name"
	dockerfile = "spec.dockerfile.path"
	buildArgs  = "spec.dockerfile.buildArgs"
	ports      = "spec.deployment.ports"
	replicas   = "spec.deployment.replicas"
	timeout    = "spec.timeout"
	name       = "metadata.name"
)

type object = map[string]any

var (
	http80   = object{"name": "http", "containerPort": 8080, "servicePort": 80}
	shopHost = object{"host": "shop.example.com"}
	withSSH  = set(gitSecret, "git-creds")
	longName = strings.Repeat("n", 52)
)

// What users are told.
const (
	badURL      = "url must be ssh://user@host/path, user@host:path or https://host/path, with no password in it"
	needsSecret = "secretName is required for a repository over ssh: name a Secret with the keys ssh (or ssh-privatekey) and known_hosts"
	badRevision = "revision must be the name of a branch or tag, or a full commit id"
	badContext  = "contextDir must be a path inside the repository: not absolute, no '..'"
	badPath     = "path must be a path inside the context directory: not absolute, no '..'"
	badImage    = "name must be [registry/]repository[:tag] with a lower case repository and a tag of at most 128 characters"
	hasDigest   = "name must have no digest: the digest is what the build finds out"
	badTimeout  = "timeout must be between 1s and 720h"
	badDeadline = "progressDeadline must be between 1s and 720h"
	badName     = "metadata.name must start with a letter and have at most 52 lower case letters, digits and '-'"
	badPort     = "name of a port must have lower case letters, digits and '-', and at least one letter"
	samePorts   = "the names of ports must differ"
	noPorts     = "service needs at least one entry in ports"
	noService   = "ingress needs service and a TCP port: that is where it leads to"
	badHost     = "host must be the name of a host in lower case, without scheme, port and path"
	badRollback = "rollback must be sha256: and at least 12 hex digits of the digest of an image in status.history"
)

var refused = map[string]struct {
	changes []change
	says    string // with the path of the field where that is not in the message
}{
	"no source":                               {[]change{set("spec.source", nil)}, "spec.source: Required value"},
	"no url":                                  {[]change{set(url, nil)}, "spec.source.git.url: Required value"},
	"no image":                                {[]change{set("spec.image", nil)}, "spec.image: Required value"},
	"no spec":                                 {[]change{set("spec", nil)}, "spec: Required value"},
	"an empty url":                            {[]change{set(url, "")}, "spec.source.git.url: Invalid value"},
	"git's ext transport":                     {[]change{set(url, "ext::sh -c id"), withSSH}, badURL},
	"git's ext transport, no space":           {[]change{set(url, "ext::id"), withSSH}, badURL},
	"a file url":                              {[]change{set(url, "file:///srv/git/shop"), withSSH}, badURL},
	"a path":                                  {[]change{set(url, "/srv/git/shop"), withSSH}, badURL},
	"a git url":                               {[]change{set(url, "git://git.example.com/acme/shop.git"), withSSH}, badURL},
	"an http url":                             {[]change{set(url, "http://git.example.com/acme/shop.git"), withSSH}, badURL},
	"an option for a url":                     {[]change{set(url, "--upload-pack=id"), withSSH}, badURL},
	"an option for a user":                    {[]change{set(url, "-oProxyCommand=id@git.example.com:shop"), withSSH}, badURL},
	"an option for a host":                    {[]change{set(url, "ssh://-oProxyCommand=id/shop"), withSSH}, badURL},
	"an option for a host after a user":       {[]change{set(url, "ssh://git@-oProxyCommand=id/shop"), withSSH}, badURL},
	"an option for an scp-like host":          {[]change{set(url, "git@-oProxyCommand=id:shop"), withSSH}, badURL},
	"a password in an https url":              {[]change{set(url, "https://ada:secret@git.example.com/acme/shop.git")}, badURL},
	"a token in an https url":                 {[]change{set(url, "https://token@git.example.com/acme/shop.git")}, badURL},
	"a password in an ssh url":                {[]change{set(url, "ssh://git:secret@git.example.com/acme/shop.git"), withSSH}, badURL},
	"a url with a line feed":                  {[]change{set(url, "https://git.example.com/acme/shop.git\nx")}, badURL},
	"a url that ends in a line feed":          {[]change{set(url, "https://git.example.com/acme/shop.git\n")}, badURL},
	"a url with a carriage return":            {[]change{set(url, "https://git.example.com/acme\r/shop.git")}, badURL},
	"an scp-like url with a line feed":        {[]change{set(url, "git@git.example.com:acme/shop.git\n"), withSSH}, badURL},
	"a url with a space":                      {[]change{set(url, "https://git.example.com/My Project/shop")}, badURL},
	"a url with no path":                      {[]change{set(url, "https://git.example.com")}, badURL},
	"a url with an empty path":                {[]change{set(url, "https://git.example.com/")}, badURL},
	"a url with no host":                      {[]change{set(url, "https:///acme/shop.git")}, badURL},
	"an scp-like url with no path":            {[]change{set(url, "git@git.example.com:"), withSSH}, badURL},
	"an scp-like url with no user":            {[]change{set(url, "git.example.com:acme/shop.git"), withSSH}, badURL},
	"a port that is no port":                  {[]change{set(url, "ssh://git@git.example.com:123456/acme/shop.git"), withSSH}, badURL},
	"a url of 2049 characters":                {[]change{set(url, "https://git.example.com/"+strings.Repeat("a", 2025))}, "Too long: may not be more than 2048"},
	"ssh without a Secret":                    {[]change{set(url, "ssh://git@git.example.com/acme/shop.git")}, needsSecret},
	"scp-like without a Secret":               {[]change{set(url, "git@git.example.com:acme/shop.git")}, needsSecret},
	"ssh with an empty Secret name":           {[]change{set(url, "git@git.example.com:acme/shop.git"), set(gitSecret, "")}, needsSecret},
	"a Secret name that cannot be one":        {[]change{set(gitSecret, "Git_Creds")}, "spec.source.git.secretName: Invalid value"},
	"a push Secret that cannot be one":        {[]change{set("spec.image.secretName", "a/b")}, "spec.image.secretName: Invalid value"},
	"an option for a revision":                {[]change{set(rev, "-b")}, badRevision},
	"a revision with a space":                 {[]change{set(rev, "my branch")}, badRevision},
	"a range for a revision":                  {[]change{set(rev, "v1..v2")}, badRevision},
	"an expression for a revision":            {[]change{set(rev, "main~1")}, badRevision},
	"a parent for a revision":                 {[]change{set(rev, "main^")}, badRevision},
	"a reflog entry for a revision":           {[]change{set(rev, "main@{1}")}, badRevision},
	"a refspec for a revision":                {[]change{set(rev, "a:b")}, badRevision},
	"a pattern for a revision":                {[]change{set(rev, "release-*")}, badRevision},
	"a set for a revision":                    {[]change{set(rev, "release-[12]")}, badRevision},
	"a revision with a backslash":             {[]change{set(rev, `a\b`)}, badRevision},
	"a revision with a line feed":             {[]change{set(rev, "main\n")}, badRevision},
	"a revision that ends in a slash":         {[]change{set(rev, "feature/")}, badRevision},
	"a revision that ends in .lock":           {[]change{set(rev, "main.lock")}, badRevision},
	"a revision of 256 characters":            {[]change{set(rev, strings.Repeat("r", 256))}, "Too long: may not be more than 255"},
	"contextDir up and out":                   {[]change{set(contextDir, "../shop")}, badContext},
	"contextDir is the parent":                {[]change{set(contextDir, "..")}, badContext},
	"contextDir out in the middle":            {[]change{set(contextDir, "a/../../b")}, badContext},
	"contextDir out at the end":               {[]change{set(contextDir, "a/..")}, badContext},
	"contextDir absolute":                     {[]change{set(contextDir, "/etc")}, badContext},
	"contextDir with a line feed":             {[]change{set(contextDir, "a\n..")}, badContext},
	"Dockerfile up and out":                   {[]change{set(dockerfile, "../Dockerfile")}, badPath},
	"Dockerfile absolute":                     {[]change{set(dockerfile, "/Dockerfile")}, badPath},
	"an option for a target":                  {[]change{set("spec.dockerfile.target", "-x")}, "spec.dockerfile.target: Invalid value"},
	"a build arg with no name":                {[]change{set(buildArgs, []object{{"value": "x"}})}, "buildArgs[0].name: Required value"},
	"a build arg with an empty name":          {[]change{set(buildArgs, []object{{"name": "", "value": "x"}})}, "buildArgs[0].name: Invalid value"},
	"a build arg that begins with a digit":    {[]change{set(buildArgs, []object{{"name": "1ST"}})}, "buildArgs[0].name: Invalid value"},
	"a build arg with a dash":                 {[]change{set(buildArgs, []object{{"name": "MY-ARG"}})}, "buildArgs[0].name: Invalid value"},
	"a build arg with an equals sign":         {[]change{set(buildArgs, []object{{"name": "A=B"}})}, "buildArgs[0].name: Invalid value"},
	"a build arg twice":                       {[]change{set(buildArgs, []object{{"name": "A"}, {"name": "A"}})}, "buildArgs[1]: Duplicate value"},
	"a build arg's value of 4097":             {[]change{set(buildArgs, []object{{"name": "A", "value": strings.Repeat("v", 4097)}})}, "Too long: may not be more than 4096"},
	"an image with a digest":                  {[]change{set(image, "registry.example.com/shop@sha256:"+strings.Repeat("0", 64))}, hasDigest},
	"an image in upper case":                  {[]change{set(image, "registry.example.com/Acme/Shop:1.0")}, badImage},
	"an image in upper case with no registry": {[]change{set(image, "Acme/shop")}, "lower case repository"},
	"a repository of one character":           {[]change{set(image, "registry.example.com/x")}, "at least two characters"},
	"an image with a scheme":                  {[]change{set(image, "https://registry.example.com/shop")}, badImage},
	"an image with a tag of 129":              {[]change{set(image, "registry.example.com/shop:"+strings.Repeat("t", 129))}, badImage},
	"an image with two tags":                  {[]change{set(image, "registry.example.com/shop:1:2")}, badImage},
	"an image with an empty tag":              {[]change{set(image, "registry.example.com/shop:")}, badImage},
	"an image with an empty part":             {[]change{set(image, "registry.example.com//shop")}, badImage},
	"an image that ends in a slash":           {[]change{set(image, "registry.example.com/shop/")}, badImage},
	"an image with a space":                   {[]change{set(image, "registry.example.com/my shop")}, badImage},
	"an image that ends in a line feed":       {[]change{set(image, "registry.example.com/shop\n")}, badImage},
	"an option for an image":                  {[]change{set(image, "--insecure")}, badImage},
	"an image of 384 characters":              {[]change{set(image, "registry.example.com/"+strings.Repeat("s", 363))}, "Too long: may not be more than 383"},
	"a service with no ports":                 {[]change{set("spec.deployment.service", object{})}, noPorts},
	"a service with empty ports":              {[]change{set("spec.deployment.service", object{}), set(ports, []object{})}, noPorts},
	"a service of a type we do not make":      {[]change{set("spec.deployment.service", object{"type": "ExternalName"}), set(ports, []object{http80})}, "Unsupported value"},
	"two ports of one number of the Service":  {[]change{set("spec.deployment.service", object{}), set(ports, []object{http80, {"name": "web", "containerPort": 80}})}, "the same servicePort"},
	"the same port twice":                     {[]change{set(ports, []object{http80, {"name": "web", "containerPort": 8080}})}, "spec.deployment.ports[1]: Duplicate value"},
	"the same port name twice":                {[]change{set(ports, []object{http80, {"name": "http", "containerPort": 8081}})}, samePorts},
	"port 0":                                  {[]change{set(ports, []object{{"name": "http", "containerPort": 0}})}, "should be greater than or equal to 1"},
	"port 65536":                              {[]change{set(ports, []object{{"name": "http", "containerPort": 65536}})}, "should be less than or equal to 65535"},
	"a port with no name":                     {[]change{set(ports, []object{{"containerPort": 8080}})}, "ports[0].name: Required value"},
	"a port name in upper case":               {[]change{set(ports, []object{{"name": "HTTP", "containerPort": 8080}})}, badPort},
	"a port name of digits":                   {[]change{set(ports, []object{{"name": "8080", "containerPort": 8080}})}, badPort},
	"a port name with two dashes":             {[]change{set(ports, []object{{"name": "a--b", "containerPort": 8080}})}, badPort},
	"a port name of 16":                       {[]change{set(ports, []object{{"name": strings.Repeat("p", 16), "containerPort": 8080}})}, "Too long: may not be more than 15"},
	"a protocol in lower case":                {[]change{set(ports, []object{{"name": "http", "containerPort": 8080, "protocol": "tcp"}})}, "Unsupported value"},
	"negative replicas":                       {[]change{set(replicas, -1)}, "should be greater than or equal to 0"},
	"replicas beyond int32":                   {[]change{set(replicas, int64(1)<<31)}, "spec.deployment.replicas"},
	"replicas that wrap around to 1":          {[]change{set(replicas, int64(1)<<32+1)}, "spec.deployment.replicas"},
	"too many replicas":                       {[]change{set(replicas, 100001)}, "should be less than or equal to 100000"},
	"replicas as a string":                    {[]change{set(replicas, "2")}, "must be of type integer"},
	"half a replica":                          {[]change{set(replicas, 1.5)}, "must be of type integer"},
	"the same env twice":                      {[]change{set("spec.deployment.env", []object{{"name": "A"}, {"name": "A"}})}, "spec.deployment.env[1]: Duplicate value"},
	"a quantity that is none":                 {[]change{set("spec.builder.resources", object{"limits": object{"memory": "2 gigs"}})}, "spec.builder.resources.limits.memory: Invalid value"},
	"timeout 0s":                              {[]change{set(timeout, "0s")}, badTimeout},
	"timeout 999ms":                           {[]change{set(timeout, "999ms")}, badTimeout},
	"timeout 1d":                              {[]change{set(timeout, "1d")}, "spec.timeout: Invalid value"},
	"timeout 99999999999h":                    {[]change{set(timeout, "99999999999h")}, "spec.timeout: Invalid value"},
	"timeout 720h1s":                          {[]change{set(timeout, "720h1s")}, badTimeout},
	"a negative timeout":                      {[]change{set(timeout, "-5m")}, "spec.timeout: Invalid value"},
	"a timeout with no unit":                  {[]change{set(timeout, "30")}, "spec.timeout: Invalid value"},
	"a timeout that is a number":              {[]change{set(timeout, 30)}, "must be of type string"},
	"an empty timeout":                        {[]change{set(timeout, "")}, "spec.timeout: Invalid value"},
	"an ingress with no service":              {[]change{set("spec.deployment.ingress", shopHost), set(ports, []object{http80})}, noService},
	"an ingress with no TCP port":             {[]change{set("spec.deployment.ingress", shopHost), set("spec.deployment.service", object{}), set(ports, []object{{"name": "dns", "containerPort": 53, "protocol": "UDP"}})}, noService},
	"an ingress with no host":                 {[]change{set("spec.deployment.ingress", object{}), set("spec.deployment.service", object{}), set(ports, []object{http80})}, "spec.deployment.ingress.host: Required value"},
	"an ingress whose host is a URL":          {[]change{set("spec.deployment.ingress.host", "https://shop.example.com")}, badHost},
	"an ingress whose host has a port":        {[]change{set("spec.deployment.ingress.host", "shop.example.com:80")}, badHost},
	"an ingress for all hosts of a domain":    {[]change{set("spec.deployment.ingress.host", "*.example.com")}, badHost},
	"an annotation of the controller's own":   {[]change{set("spec.deployment.service.annotations", object{"buildcontroller.dev/applied": "x"})}, "the controller's own"},
	"a rollback to a tag":                     {[]change{set("spec.deployment.rollback", "v1")}, badRollback},
	"a rollback to a few digits of a digest":  {[]change{set("spec.deployment.rollback", "sha256:1234")}, badRollback},
	"a rollback to an image":                  {[]change{set("spec.deployment.rollback", "registry.example.com/shop@sha256:"+strings.Repeat("1", 64))}, badRollback},
	"an unknown onFailure":                    {[]change{set("spec.deployment.onFailure", "Retry")}, `supported values: "Rollback", "Keep"`},
	"an unknown deletionPolicy":               {[]change{set("spec.deployment.deletionPolicy", "Orphan")}, `supported values: "Delete", "Retain"`},
	"a container's name with a dot":           {[]change{set("spec.deployment.containerName", "a.b")}, "spec.deployment.containerName: Invalid value"},
	"a template whose spec is a list":         {[]change{set("spec.deployment.template.spec", []any{})}, "spec.deployment.template.spec: Invalid value"},
	"a template with something else":          {[]change{set("spec.deployment.template.containers", []any{})}, "unknown field \"spec.deployment.template.containers\""},
	"a probe with an unknown field":           {[]change{set("spec.deployment.readinessProbe", object{"http": object{}})}, "unknown field \"spec.deployment.readinessProbe.http\""},
	"progressDeadline 0s":                     {[]change{set("spec.deployment.progressDeadline", "0s")}, badDeadline},
	"a name of 53":                            {[]change{set(name, longName+"n")}, badName},
	"a name that begins with a digit":         {[]change{set(name, "1shop")}, badName},
	"a name with a dot":                       {[]change{set(name, "shop.v1")}, badName},
	"a run policy that is none":               {[]change{set("spec.runPolicy", "Always")}, "Unsupported value"},
	"negative history":                        {[]change{set("spec.history", object{"failed": -1})}, "should be greater than or equal to 0"},
	"a depth below 0":                         {[]change{set("spec.source.git.depth", -1)}, "should be greater than or equal to 0"},
	"submodules in another way":               {[]change{set("spec.source.git.submodules", "Yes")}, "Unsupported value"},
	"sparse without a directory":              {[]change{set("spec.source.git.sparse", true)}, "source.git.sparse needs source.contextDir"},
	"sparse of the root in other words":       {[]change{set("spec.source.git.sparse", true), set(contextDir, ".//./")}, "source.git.sparse needs source.contextDir"},
	"sparse of the root":                      {[]change{set("spec.source.git.sparse", true), set(contextDir, ".")}, "source.git.sparse needs source.contextDir"},
	"a Dockerfile here and there":             {[]change{set("spec.dockerfile", object{"inline": "FROM scratch", "path": "Dockerfile"})}, "inline and path exclude each other"},
	"an inline Dockerfile of 65537":           {[]change{set("spec.dockerfile.inline", strings.Repeat("#", 65537))}, "Too long: may not be more than 65536"},
	"a builder that is none":                  {[]change{set("spec.builder.name", "Docker")}, "Unsupported value"},
	"a builder in lower case":                 {[]change{set("spec.builder.name", "buildkit")}, "Unsupported value"},
	"a builder's image with a space":          {[]change{set("spec.builder.image", "kaniko executor")}, "spec.builder.image: Invalid value"},
	"a platform that is none":                 {[]change{set("spec.builder.platforms", []string{"arm64"})}, "spec.builder.platforms[0]: Invalid value"},
	"two platforms in one":                    {[]change{set("spec.builder.platforms", []string{"linux/amd64,linux/arm64"})}, "spec.builder.platforms[0]: Invalid value"},
	"a platform twice":                        {[]change{set("spec.builder.name", "BuildKit"), set("spec.builder.platforms", []string{"linux/amd64", "linux/amd64"})}, "Duplicate value"},
	"a cache with a tag":                      {[]change{set("spec.builder.cache.repository", "registry.example.com/cache:1")}, "repository must be [registry/]repository in lower case, without a tag"},
	"a cache in upper case":                   {[]change{set("spec.builder.cache.repository", "registry.example.com/Cache")}, "repository must be [registry/]repository in lower case, without a tag"},
	"a cache of an age beyond all ages":       {[]change{set("spec.builder.cache", object{"repository": "registry.example.com/cache", "ttl": "99999999999h"})}, "spec.builder.cache.ttl: Invalid value"},
	"a cache of no age":                       {[]change{set("spec.builder.cache", object{"repository": "registry.example.com/cache", "ttl": "0s"})}, "ttl must be between 1s and 87600h"},
	"a mirror with a scheme":                  {[]change{set("spec.builder.mirrors", []string{"https://mirror.example.com"})}, "spec.builder.mirrors[0]: Invalid value"},
	"a mirror with a quote":                   {[]change{set("spec.builder.mirrors", []string{"mirror\"]"})}, "spec.builder.mirrors[0]: Invalid value"},
	"a build secret with a path for an id":    {[]change{set("spec.builder", object{"name": "BuildKit", "secrets": []object{{"id": "../x", "secretName": "npm", "key": "token"}}})}, "secrets[0].id: Invalid value"},
	"a build secret of no Secret":             {[]change{set("spec.builder", object{"name": "BuildKit", "secrets": []object{{"id": "npm", "key": "token"}}})}, "secrets[0].secretName: Required value"},
	"a build secret twice":                    {[]change{set("spec.builder", object{"name": "BuildKit", "secrets": []object{{"id": "npm", "secretName": "a", "key": "b"}, {"id": "npm", "secretName": "c", "key": "d"}}})}, "Duplicate value"},
	"an arg that pushes nothing":              {[]change{set("spec.builder.args", []string{"--verbosity=debug", "--no-push"})}, "args must not name a flag by which nothing is pushed"},
	"an arg that takes the digest away":       {[]change{set("spec.builder.args", []string{"--digest-file=/tmp/x"})}, "args must not name a flag by which nothing is pushed"},
	"an empty arg":                            {[]change{set("spec.builder.args", []string{""})}, "spec.builder.args[0]: Invalid value"},
	"a volume over the source":                {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/kaniko/source", "emptyDir": object{}}})}, "mountPath must not be below /kaniko"},
	"a volume at a path with a detour":        {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/a/./b", "emptyDir": object{}}})}, "mountPath must be an absolute path"},
	"two volumes at one path":                 {[]change{set("spec.builder.volumes", []object{{"name": "a", "mountPath": "/a", "emptyDir": object{}}, {"name": "b", "mountPath": "/a", "emptyDir": object{}}})}, "two volumes have the same mountPath"},
	"a volume of nothing":                     {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/cache"}})}, "exactly one of persistentVolumeClaim, emptyDir, configMap and secret"},
	"a volume of two things":                  {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/cache", "emptyDir": object{}, "configMap": object{"name": "x"}}})}, "exactly one of persistentVolumeClaim, emptyDir, configMap and secret"},
	"a volume at no absolute path":            {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "cache", "emptyDir": object{}}})}, "mountPath must be an absolute path"},
	"a volume over everything":                {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/", "emptyDir": object{}}})}, "mountPath must be an absolute path"},
	"a subPath out of the volume":             {[]change{set("spec.builder.volumes", []object{{"name": "cache", "mountPath": "/cache", "subPath": "../x", "emptyDir": object{}}})}, "subPath must be a path inside the volume"},
	"an additional tag of 129":                {[]change{set("spec.image.additionalTags", []string{strings.Repeat("t", 129)})}, "Too long: may not be more than 128"},
	"an additional tag with a colon":          {[]change{set("spec.image.additionalTags", []string{"shop:1"})}, "spec.image.additionalTags[0]: Invalid value"},
	"an option for an additional tag":         {[]change{set("spec.image.additionalTags", []string{"--insecure"})}, "spec.image.additionalTags[0]: Invalid value"},
	"a label with an equals sign in its name": {[]change{set("spec.image.labels", object{"a=b": "c"})}, "a label's name has letters, digits"},
	"retries without end":                     {[]change{set("spec.retries", 11)}, "should be less than or equal to 10"},
	"negative retries":                        {[]change{set("spec.retries", -1)}, "should be greater than or equal to 0"},
	"a field that does not exist":             {[]change{set("spec.source.git.branch", "main")}, `unknown field "spec.source.git.branch"`},
}

var accepted = map[string][]change{
	"an application with all there is": {
		set(ports, []object{{"name": "dns", "containerPort": 53, "protocol": "UDP"}, http80}),
		set("spec.deployment.service", object{"type": "LoadBalancer", "annotations": object{"example.com/internal": "true"}}),
		set("spec.deployment.ingress", object{"host": "shop.example.com", "className": "nginx", "tlsSecretName": "shop-tls", "annotations": object{"cert-manager.io/cluster-issuer": "corp"}}),
		set("spec.deployment.readinessProbe", object{"httpGet": object{"path": "/ready", "port": "http"}}),
		set("spec.deployment.livenessProbe", object{"httpGet": object{"path": "/live", "port": 8080}}),
		set("spec.deployment.startupProbe", object{"exec": object{"command": []string{"/started"}}, "failureThreshold": 30}),
		set("spec.deployment.template", object{
			"metadata": object{"labels": object{"team": "shop"}, "annotations": object{"example.com/scrape": "true"}},
			"spec":     object{"containers": []object{{"name": "proxy", "image": "proxy:1"}}},
		}),
		set("spec.deployment.containerName", "web"), set("spec.deployment.adopt", true), set("spec.deployment.onFailure", "Keep"),
		set("spec.deployment.deletionPolicy", "Retain"), set("spec.deployment.rollback", "sha256:3b0c1d9a4f52"),
	},
	"the least":                         nil,
	"https with .git":                   {set(url, "https://git.example.com/acme/shop.git")},
	"https without .git":                {set(url, "https://git.example.com/acme/shop")},
	"https on a port":                   {set(url, "https://git.example.com:8443/acme/shop.git")},
	"https of Azure DevOps":             {set(url, "https://dev.azure.com/acme/My%20Project/_git/shop")},
	"https of a user's home":            {set(url, "https://git.example.com/~ada/shop")},
	"https at an IPv6 address":          {set(url, "https://[2001:db8::1]:8443/acme/shop.git")},
	"https with a Secret":               {withSSH},
	"scp-like":                          {set(url, "git@git.example.com:acme/shop.git"), withSSH},
	"scp-like, another user":            {set(url, "org-123456@git.example.com:acme/shop.git"), withSSH},
	"scp-like, a user with dots":        {set(url, "ada.lovelace_1@git.example.com:acme/shop"), withSSH},
	"scp-like of Azure DevOps":          {set(url, "git@ssh.dev.azure.com:v3/acme/project/shop"), withSSH},
	"scp-like, absolute":                {set(url, "git@git.example.com:/srv/git/shop.git"), withSSH},
	"scp-like, a user's home":           {set(url, "git@git.example.com:~ada/shop.git"), withSSH},
	"scp-like at an IPv6 address":       {set(url, "git@[2001:db8::1]:acme/shop.git"), withSSH},
	"ssh with a port and no .git":       {set(url, "ssh://git@git.example.com:2222/acme/shop"), withSSH},
	"ssh of Gerrit":                     {set(url, "ssh://ada@review.example.com:29418/shop"), withSSH},
	"ssh with no user":                  {set(url, "ssh://git.example.com/acme/shop.git"), withSSH},
	"ssh, a user's home":                {set(url, "ssh://git@git.example.com/~ada/shop.git"), withSSH},
	"ssh at an IPv6 address":            {set(url, "ssh://git@[2001:db8::1]:2222/acme/shop"), withSSH},
	"ssh of CodeCommit":                 {set(url, "ssh://APKAEIBAERJR2EXAMPLE@git-codecommit.example.com/v1/repos/shop"), withSSH},
	"a url of 2048 characters":          {set(url, "https://git.example.com/"+strings.Repeat("a", 2024))},
	"a branch":                          {set(rev, "main")},
	"a branch with slashes":             {set(rev, "feature/a-b_c/d.e+f#1")},
	"a branch in another script":        {set(rev, "funktion/größe-日本")},
	"a tag":                             {set(rev, "v1.2.3-rc.1")},
	"a commit":                          {set(rev, strings.Repeat("0123456789", 4))},
	"a full ref":                        {set(rev, "refs/heads/main")},
	"an empty revision":                 {set(rev, "")},
	"contextDir":                        {set(contextDir, "services/shop")},
	"contextDir with dots in a name":    {set(contextDir, "services/..shop/a..b")},
	"contextDir with a space":           {set(contextDir, "My Services/shop")},
	"Dockerfile elsewhere":              {set(dockerfile, "build/Dockerfile.release")},
	"a target":                          {set("spec.dockerfile.target", "release_1.x")},
	"build args":                        {set(buildArgs, []object{{"name": "_A1", "value": "$(id) `id` \"'\n"}, {"name": "EMPTY"}})},
	"an image by its short name":        {set(image, "shop")},
	"an image on a port":                {set(image, "registry.example.com:5000/acme/shop:1.0")},
	"an image at an IPv6 address":       {set(image, "[2001:db8::1]:5000/acme/shop:1.0")},
	"an image with every separator":     {set(image, "registry.example.com/a.b/c_d/e__f/g---h:V_1.0-x")},
	"an image with a tag of 128":        {set(image, "registry.example.com/shop:"+strings.Repeat("t", 128))},
	"one port for two protocols":        {set(ports, []object{{"name": "dns", "containerPort": 53}, {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"}})},
	"a service":                         {set(ports, []object{http80}), set("spec.deployment.service", object{"type": "NodePort"})},
	"a deployment with nothing in it":   {set("spec.deployment", object{})},
	"no replicas at all":                {set(replicas, 0)},
	"all of the history":                {set("spec.source.git.depth", 0), set("spec.source.git.submodules", "Off")},
	"a directory of a large repository": {set("spec.source.git.sparse", true), set(contextDir, "services/shop")},
	"an inline Dockerfile":              {set("spec.dockerfile.inline", "FROM scratch\nCOPY . /\n")},
	"private authorities":               {set("spec.source.git.caConfigMapName", "corp-ca"), set("spec.image.caConfigMapName", "corp-ca")},
	"additional tags and labels":        {set("spec.image.additionalTags", []string{"latest", "v1.0_x-y"}), set("spec.image.labels", object{"org.opencontainers.image.vendor": "ACME, \"Inc\"=$(x)"})},
	"a pod as the team wants it": {set("spec.builder", object{
		"image": "registry.example.com/kaniko@sha256:" + strings.Repeat("0", 64), "args": []string{"--verbosity=debug"},
		"env":          []object{{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}},
		"nodeSelector": object{"disk": "ssd"}, "tolerations": []object{{"key": "builds", "operator": "Exists"}},
		"affinity": object{"podAntiAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []object{{
			"weight": 1, "podAffinityTerm": object{"topologyKey": "kubernetes.io/hostname", "labelSelector": object{"matchLabels": object{"a": "b"}}}}}}},
		"priorityClassName": "low", "runtimeClassName": "kata", "serviceAccountName": "builder",
		"imagePullSecrets": []object{{"name": "pull"}}, "hostAliases": []object{{"ip": "192.0.2.1", "hostnames": []string{"git.example.com"}}},
		"volumes": []object{{"name": "cache", "mountPath": "/cache", "persistentVolumeClaim": object{"claimName": "cache"}}},
	})},
	"timeout 1s":                   {set(timeout, "1s")},
	"timeout of hours and minutes": {set(timeout, "1h30m")},
	"timeout with a fraction":      {set(timeout, "1.5h")},
	"timeout 720h":                 {set(timeout, "720h")},
	"a name of 52":                 {set(name, longName)},
	"a name of one letter":         {set(name, "a")},
}

// asks sets each of the fields in plan.Capabilities.
var asks = map[string][]change{
	"dockerfile.target":          {set("spec.dockerfile.target", "release")},
	"dockerfile.buildArgs":       {set(buildArgs, []object{{"name": "A", "value": "b"}})},
	"image.additionalTags":       {set("spec.image.additionalTags", []string{"latest"})},
	"image.labels":               {set("spec.image.labels", object{"a": "b"})},
	"image.annotations":          {set("spec.image.annotations", object{"a": "b"})},
	"image.reproducible":         {set("spec.image.reproducible", true)},
	"image.sbom":                 {set("spec.image.sbom", true)},
	"image.provenance":           {set("spec.image.provenance", true)},
	"image.insecure":             {set("spec.image.insecure", true)},
	"image.caConfigMapName":      {set("spec.image.caConfigMapName", "corp-ca")},
	"builder.secrets":            {set("spec.builder.secrets", []object{{"id": "npm", "secretName": "npm", "key": "token"}})},
	"builder.platforms, one":     {set("spec.builder.platforms", []string{"linux/arm64"})},
	"builder.platforms, several": {set("spec.builder.platforms", []string{"linux/amd64", "linux/arm64"})},
	"builder.cache.repository":   {set("spec.builder.cache.repository", "registry.example.com/cache")},
	"builder.cache.ttl":          {set("spec.builder.cache", object{"repository": "registry.example.com/cache", "ttl": "168h"})},
	"builder.insecureRegistries": {set("spec.builder.insecureRegistries", []string{"base.example.com:5000"})},
	"builder.mirrors":            {set("spec.builder.mirrors", []string{"mirror.example.com:5000"})},
}

func TestAFieldThatABuilderCannotHonourIsRefusedAndOneThatCanIsNamed(t *testing.T) {
	ctx := testContext(t, usual)
	builds := cluster.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("builds")).Namespace("default")
	for _, capability := range plan.Capabilities {
		for _, builder := range []v1alpha1.BuilderName{"", v1alpha1.Kaniko, v1alpha1.BuildKit, v1alpha1.Buildah} {
			t.Run(fmt.Sprintf("%s with %q", capability.Field, builder), func(t *testing.T) {
				if len(asks[capability.Field]) == 0 {
					t.Fatal("the test does not know how to ask for it")
				}
				changes := slices.Clone(asks[capability.Field])
				if builder != "" {
					changes = append(changes, set("spec.builder.name", builder))
				}
				_, err := builds.Create(ctx, minimal("case", changes...), strictly)
				if _, can := capability.By[cmp.Or(builder, v1alpha1.Kaniko)]; can {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if !apierrors.IsInvalid(err) {
					t.Fatalf("it was not refused: %v", err)
				}
				_, advice, _ := strings.Cut(err.Error(), "set builder.name to ")
				for name := range capability.By {
					if !strings.Contains(advice, string(name)) {
						t.Errorf("the message does not name %s: %v", name, err)
					}
				}
			})
		}
	}
}

// strictly has the server refuse what it does not know, as kubectl asks it to.
var strictly = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}

func TestABuildThatCannotWorkIsRefusedWithAReason(t *testing.T) {
	ctx := testContext(t, usual)
	builds := cluster.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("builds")).Namespace("default")
	for what, c := range refused {
		t.Run(what, func(t *testing.T) {
			_, err := builds.Create(ctx, minimal("case", c.changes...), strictly)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("an error of another kind: %v", err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message does not say %q: %v", c.says, err)
			}
		})
	}
}

func TestABuildThatCanWorkIsAcceptedAsItIs(t *testing.T) {
	ctx := testContext(t, usual)
	builds := cluster.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("builds")).Namespace("default")
	for what, changes := range accepted {
		t.Run(what, func(t *testing.T) {
			asked := minimal("case", changes...)
			got, err := builds.Create(ctx, asked.DeepCopy(), strictly)
			if err != nil {
				t.Fatal(err)
			}
			// A default in an input would change the hash of every stored Build
			// once it changes itself, and rebuild the world.
			for _, input := range []string{"source", "dockerfile", "builder", "image"} {
				want, _ := json.Marshal(asked.Object["spec"].(object)[input])
				have, _ := json.Marshal(got.Object["spec"].(object)[input])
				if string(want) != string(have) {
					t.Errorf("spec.%s was stored as %s, not %s", input, have, want)
				}
			}
		})
	}
}

// One kubectl for all cases: that it goes on after an error saves a minute.
func TestKubectlTellsUsersWhatIsWrong(t *testing.T) {
	names := map[string]string{} // of the cases, by the name of the Build
	var stdin strings.Builder
	for what, c := range refused {
		build := minimal(fmt.Sprintf("case-%d", len(names)), c.changes...)
		names[build.GetName()] = what
		encoded, err := build.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&stdin, "---\n%s\n", encoded)
	}
	cmd := exec.Command(cluster.kubectl, "apply", "--dry-run=server", "-f", "-")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.kubeconfig)
	cmd.Stdin = strings.NewReader(stdin.String())
	said, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("kubectl accepted all: %s", said)
	}
	answers := strings.Split("\n"+string(said), "\nThe Build ")
	for build, what := range names {
		t.Run(what, func(t *testing.T) {
			for _, answer := range answers {
				// An unknown field is said with no name of the object.
				mine := strings.HasPrefix(answer, fmt.Sprintf("%q is invalid", build)) || strings.Contains(answer, "strict decoding error")
				if mine && strings.Contains(answer, refused[what].says) {
					return
				}
			}
			t.Errorf("kubectl does not say %q about %s", refused[what].says, build)
		})
	}
	if t.Failed() {
		t.Logf("what kubectl said:\n%s", said)
	}
}

func TestTheExamplesAreAccepted(t *testing.T) {
	ctx := testContext(t, usual)
	files, err := filepath.Glob(filepath.Join(repository, "artifacts", "examples", "*", "build.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	builds := cluster.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("builds")).Namespace("default")
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			build := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(content, &build.Object); err != nil {
				t.Fatal(err)
			}
			if _, err := builds.Create(ctx, build, strictly); err != nil {
				t.Error(err)
			}
		})
	}
}
