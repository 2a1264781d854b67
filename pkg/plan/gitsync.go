package plan

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

const (
	gitSyncUser      = 65533 // the user of git-sync's own image
	workspaceDir     = "/workspace"
	gitSecretDir     = "/etc/git-secret"
	terminationLog   = "/dev/termination-log"
	gitSyncContainer = "git-sync"
)

// gitSyncScript runs git-sync with the container's arguments and leaves commit, date, author and
// subject in the termination message, from where observe reads them. What users write never gets
// into the script: it reaches git-sync as one argument each. Author and subject are cut, because of a
// termination message only the last 4096 bytes are kept.
const gitSyncScript = `/git-sync "$@" && git -C ` + workspaceDir + "/" + sourceLink +
	` log -1 --no-show-signature --format='%H%n%aI%n%<(200,trunc)%an%n%<(200,trunc)%s' >` + terminationLog

// gitSync is the step that clones the repository. The flags are those of git-sync v4.
func gitSync(build *v1alpha1.Build, image string) corev1.Container {
	git := build.Spec.Source.Git
	container := corev1.Container{
		Name:    gitSyncContainer,
		Image:   image,
		Command: []string{"/bin/sh", "-ec", gitSyncScript, gitSyncContainer},
		Args: []string{
			"--repo=" + git.URL,
			"--root=" + workspaceDir,
			"--link=" + sourceLink,
			"--one-time",
			"--depth=1",
			fmt.Sprintf("--sync-timeout=%ds", seconds(timeout(build))), // the Job's deadline counts, not git-sync's default of 120 s
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: workspaceVolume, MountPath: workspaceDir}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser:                ptr.To[int64](gitSyncUser),
			RunAsGroup:               ptr.To[int64](gitSyncUser),
			RunAsNonRoot:             ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if git.Revision != "" {
		container.Args = append(container.Args, "--ref="+git.Revision)
	}
	if git.SecretName == "" {
		return container
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: gitVolume, MountPath: gitSecretDir, ReadOnly: true})
	if strings.HasPrefix(git.URL, "https://") {
		container.Args = append(container.Args, "--password-file="+path.Join(gitSecretDir, corev1.BasicAuthPasswordKey))
		container.Env = []corev1.EnvVar{{Name: "GITSYNC_USERNAME", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: git.SecretName}, Key: corev1.BasicAuthUsernameKey,
		}}}}
		return container
	}
	container.Args = append(container.Args,
		"--ssh-key-file="+path.Join(gitSecretDir, "ssh"),
		"--ssh-known-hosts=true",
		"--ssh-known-hosts-file="+path.Join(gitSecretDir, "known_hosts"),
	)
	return container
}
