package plan

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// terminationLog is the file that becomes a container's termination message.
const terminationLog = "/dev/termination-log"

const (
	gitSyncContainer = "git-sync"
	gitSyncUser      = 65533 // the user of git-sync's own image

	workspaceDir      = "/workspace"
	gitSecretDir      = "/etc/git-secret"
	gitCADir          = "/etc/git-ca"
	gitKeysDir        = "/run/git"
	gitFilesDir       = "/etc/git-sync"
	registrySecretDir = "/etc/registry-secret"

	sparseFile = "sparse-checkout"
)

//go:embed gitsync.sh
var gitSyncScript string

// gitSync is the step that clones the repository. The flags are those of git-sync v4.
func gitSync(build *v1alpha1.Build, steps Steps) corev1.Container {
	git := build.Spec.Source.Git
	args := []string{
		"--repo=" + git.URL,
		"--root=" + workspaceDir,
		"--link=" + sourceLink,
		"--one-time",
		"--ref=" + cmp.Or(git.Revision, "HEAD"), // always, or builder.env could
		fmt.Sprintf("--depth=%d", ptr.Deref(git.Depth, 1)),
		fmt.Sprintf("--sync-timeout=%ds", seconds(timeout(build))), // the Job's deadline counts, not git-sync's default of 120 s
	}
	mounts := []corev1.VolumeMount{
		{Name: workspaceVolume, MountPath: workspaceDir},
		{Name: gitKeysVolume, MountPath: gitKeysDir},
	}
	if git.Submodules != "" {
		args = append(args, "--submodules="+strings.ToLower(string(git.Submodules)))
	}
	if git.Sparse {
		args = append(args, "--filter=blob:none", "--sparse-checkout-file="+gitFilesDir+"/"+sparseFile)
		mounts = append(mounts, fileMount(sparseFile, gitFilesDir))
	}
	for _, mount := range []corev1.VolumeMount{
		{Name: gitVolume, MountPath: gitSecretDir, ReadOnly: true},
		{Name: gitCAVolume, MountPath: gitCADir, ReadOnly: true},
		{Name: pushVolume, MountPath: registrySecretDir, ReadOnly: true}, // only to see whether the key is there
	} {
		if hasVolume(build, mount.Name) {
			mounts = append(mounts, mount)
		}
	}
	transport := "ssh"
	if strings.HasPrefix(git.URL, "https://") {
		transport = "https"
	}
	return corev1.Container{
		Name:    gitSyncContainer,
		Image:   steps.GitSync,
		Command: []string{"/bin/sh", "-ec", gitSyncScript, gitSyncContainer},
		Args:    args,
		Env: append(userEnv(build),
			corev1.EnvVar{Name: "TRANSPORT", Value: transport},
			corev1.EnvVar{Name: "CONTEXT_DIR", Value: escaped(build.Spec.Source.ContextDir)},
			corev1.EnvVar{Name: "GIT_SECRET", Value: escaped(git.SecretName)},
			corev1.EnvVar{Name: "REGISTRY_SECRET", Value: escaped(build.Spec.Image.SecretName)}),
		Resources:                steps.resources(build),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                ptr.To[int64](gitSyncUser),
			RunAsGroup:               ptr.To[int64](gitSyncUser),
			RunAsNonRoot:             ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// sparsePattern matches a directory and all that is in it, in the format of gitignore.
func sparsePattern(dir string) string {
	return "/" + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir) + "/\n"
}
