package observe

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/buildcontroller/build-controller/pkg/apis/build/v1alpha1"
)

// aDeployment is one whose rollout is done and all of whose pods are available, changed.
func aDeployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: newReplicaSetAvailable},
			},
		},
	}
	change(deployment)
	return deployment
}

func TestRollout(t *testing.T) {
	available := func(d *appsv1.Deployment) *appsv1.DeploymentCondition { return &d.Status.Conditions[0] }
	progressing := func(d *appsv1.Deployment) *appsv1.DeploymentCondition { return &d.Status.Conditions[1] }
	updated := func(d *appsv1.Deployment) { progressing(d).Reason = "ReplicaSetUpdated" }
	lacking := func(d *appsv1.Deployment) { available(d).Status, d.Status.AvailableReplicas = "False", 1 }
	for name, c := range map[string]struct {
		change    func(*appsv1.Deployment)
		rolledOut string // the reason with which this image and spec were rolled out before; "" if they were not
		status    metav1.ConditionStatus
		reason    string
	}{
		"done and available":                     {func(*appsv1.Deployment) {}, "", "True", "Available"},
		"done with no pods at all, as asked for": {func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 0, 0 }, "", "True", "Available"},

		"nothing observed yet":                     {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, "", "Unknown", "Deploying"},
		"an older generation observed":             {func(d *appsv1.Deployment) { d.Generation = 3 }, "", "Unknown", "Deploying"},
		"an older generation that had failed":      {func(d *appsv1.Deployment) { d.Generation, progressing(d).Reason = 3, progressDeadlineExceeded }, "", "Unknown", "Deploying"},
		"a new ReplicaSet made":                    {func(d *appsv1.Deployment) { progressing(d).Reason = "NewReplicaSetCreated" }, "", "Unknown", "Deploying"},
		"pods come up":                             {updated, "", "Unknown", "Deploying"},
		"pods come up while too few are available": {func(d *appsv1.Deployment) { updated(d); available(d).Status = "False" }, "", "Unknown", "Deploying"},
		"old pods are still there":                 {func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, "", "Unknown", "Deploying"},
		"no conditions at all":                     {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, "", "Unknown", "Deploying"},
		"no progress in time": {func(d *appsv1.Deployment) {
			progressing(d).Reason, progressing(d).Status = progressDeadlineExceeded, "False"
		}, "", "False", "RolloutFailed"},
		"no progress in time, old pods still serve": {func(d *appsv1.Deployment) {
			progressing(d).Reason, d.Status.UpdatedReplicas = progressDeadlineExceeded, 1
		}, "", "False", "RolloutFailed"},
		"done, but it was never seen to be available": {lacking, "", "Unknown", "Deploying"},
		"done, and nothing said of what is available": {func(d *appsv1.Deployment) { d.Status.Conditions = d.Status.Conditions[1:] }, "", "Unknown", "Deploying"},

		"rolled out before, more pods come up":                 {updated, "Available", "True", "Available"},
		"rolled out before, more pods come up than can be had": {func(d *appsv1.Deployment) { updated(d); available(d).Status = "False" }, "Available", "Unknown", "Scaling"},
		"rolled out before, and then grown": {func(d *appsv1.Deployment) {
			available(d).Status, d.Status.Replicas, d.Status.UpdatedReplicas = "False", 5, 5
		}, "Available", "Unknown", "Scaling"},
		"rolled out before, a new generation is not seen yet":   {func(d *appsv1.Deployment) { d.Generation = 3 }, "Available", "True", "Available"},
		"rolled out before, the Deployment was made anew":       {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, "Available", "Unknown", "Deploying"},
		"rolled out before, someone rolls out something else":   {func(d *appsv1.Deployment) { updated(d); d.Status.UpdatedReplicas = 1 }, "Available", "Unknown", "Deploying"},
		"rolled out before, pods went away":                     {lacking, "Available", "False", "Unavailable"},
		"unavailable before, a new generation is not seen yet":  {func(d *appsv1.Deployment) { lacking(d); d.Generation = 3 }, "Unavailable", "False", "Unavailable"},
		"unavailable before, and well again":                    {func(*appsv1.Deployment) {}, "Unavailable", "True", "Available"},
		"scaling before, and a new generation is not seen yet":  {func(d *appsv1.Deployment) { updated(d); available(d).Status, d.Generation = "False", 3 }, "Scaling", "Unknown", "Scaling"},
		"rolled out before, and what someone began got nowhere": {func(d *appsv1.Deployment) { progressing(d).Reason = progressDeadlineExceeded }, "Available", "False", "RolloutFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			app := Application{Image: theImage, Deployment: aDeployment(c.change)}
			got, failure := rollout(app, stageOf(app, statusBefore(c.rolledOut)))
			if got.Type != "Deployed" || got.Status != c.status || got.Reason != c.reason || got.Message == "" {
				t.Errorf("got %+v, want %s with reason %s", got, c.status, c.reason)
			}
			if (failure != nil) != (c.status == metav1.ConditionFalse) {
				t.Fatalf("failure is %+v", failure)
			}
			if failure == nil {
				if !strings.Contains(got.Message, theImage) {
					t.Errorf("%q does not name the image", got.Message)
				}
			} else if string(failure.Reason) != c.reason || failure.Step != "Deploy" || failure.Message != got.Message || !strings.Contains(failure.Message, "buildcontroller.dev/app=shop") {
				t.Errorf("failure is %+v", failure)
			}
		})
	}
}

func TestRolloutWithAPodInTrouble(t *testing.T) {
	const crash = "It crashes."
	paused := func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = deploymentPaused }
	late := func(d *appsv1.Deployment) { d.Status.Conditions[1].Reason = progressDeadlineExceeded }
	sick := func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionFalse }
	gone := func(d *appsv1.Deployment) { sick(d); d.Status.AvailableReplicas = 1 }
	for name, c := range map[string]struct {
		change    func(*appsv1.Deployment)
		rolledOut bool
		trouble   bool
		certain   bool
		status    metav1.ConditionStatus
		reason    string
		message   string // what it ends with
		failure   bool
	}{
		"it may still get there":                   {rollsOut, false, true, false, "Unknown", "CrashLoopBackOff", crash, true},
		"it will not get there":                    {rollsOut, false, true, true, "False", "CrashLoopBackOff", crash, true},
		"it made no progress in time":              {late, false, true, false, "False", "CrashLoopBackOff", "no progress within its deadline. " + crash, true},
		"it made no progress, and no pod says why": {late, false, false, false, "False", "RolloutFailed", "rolls out by itself.", true},
		"it was done, but is no more":              {gone, true, true, false, "False", "Unavailable", "now too few pods are available. " + crash, true},
		"it was done, and what crashes is certain": {gone, true, true, true, "False", "Unavailable", "now too few pods are available. " + crash, true},
		"more pods come up":                        {func(d *appsv1.Deployment) { sick(d); d.Status.Replicas, d.Status.UpdatedReplicas = 5, 5 }, true, true, true, "Unknown", "Scaling", "more pods of " + theImage + ". " + crash, false},
		"someone has paused it":                    {paused, false, false, false, "Unknown", "Deploying", "kubectl rollout resume goes on.", false},
		"someone has paused it, and it crashes":    {paused, false, true, false, "Unknown", "CrashLoopBackOff", crash, true},
		"all that are needed are available":        {func(*appsv1.Deployment) {}, false, true, true, "True", "Available", theImage + ".", false},
		"nobody has looked at it yet":              {func(d *appsv1.Deployment) { d.Generation++ }, false, true, true, "Unknown", "Deploying", theImage + ".", false},
	} {
		t.Run(name, func(t *testing.T) {
			app := Application{Image: theImage, Deployment: aDeployment(c.change), Trouble: Trouble{Certain: c.certain}}
			if c.trouble {
				app.Trouble.Failure = &v1alpha1.Failure{Step: v1alpha1.StepDeploy, Reason: v1alpha1.FailureCrashLoopBackOff, Message: crash, ExitCode: ptr.To[int32](1), LogTail: "panic"}
			}
			before := ""
			if c.rolledOut {
				before = v1alpha1.ReasonAvailable
			}
			got, failure := rollout(app, stageOf(app, statusBefore(before)))
			if got.Status != c.status || got.Reason != c.reason || !strings.HasSuffix(got.Message, c.message) {
				t.Errorf("got %+v, want %s with reason %s and %q", got, c.status, c.reason, c.message)
			}
			if (failure != nil) != c.failure {
				t.Fatalf("failure is %+v", failure)
			}
			if failure == nil {
				return
			}
			if string(failure.Reason) != c.reason || failure.Step != v1alpha1.StepDeploy || failure.Message != got.Message {
				t.Errorf("failure is %+v", failure)
			}
			if c.trouble && (failure.LogTail != "panic" || ptr.Deref(failure.ExitCode, 0) != 1) {
				t.Errorf("failure is %+v: what the container said is lost", failure)
			}
			if c.trouble && app.Trouble.Failure.Message != crash {
				t.Errorf("the trouble that it was given now says %q", app.Trouble.Failure.Message)
			}
		})
	}
}

func TestTheURL(t *testing.T) {
	balancer := func(at ...corev1.LoadBalancerIngress) *corev1.Service {
		return &corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: at}}}
	}
	ports := func(ports ...v1alpha1.Port) v1alpha1.Deployment { return v1alpha1.Deployment{Ports: ports} }
	http := v1alpha1.Port{Name: "http", ContainerPort: 8080}
	host := func(tls string) v1alpha1.Deployment {
		return v1alpha1.Deployment{Ports: []v1alpha1.Port{http}, Ingress: &v1alpha1.Ingress{Host: "shop.example.com", TLSSecretName: tls}}
	}
	udp := v1alpha1.Port{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}
	for name, c := range map[string]struct {
		spec    v1alpha1.Deployment
		service *corev1.Service
		ingress bool // it is there
		want    string
	}{
		"an ingress":                                 {host(""), balancer(), true, "http://shop.example.com"},
		"an ingress with TLS":                        {host("shop-tls"), balancer(), true, "https://shop.example.com"},
		"an ingress goes before a load balancer":     {host(""), balancer(corev1.LoadBalancerIngress{IP: "192.0.2.1"}), true, "http://shop.example.com"},
		"an ingress that is not there yet":           {host(""), balancer(), false, "http://shop.team.svc:8080"},
		"an ingress that is on its way out":          {ports(http), balancer(), true, "http://shop.team.svc:8080"},
		"a load balancer's host":                     {ports(http), balancer(corev1.LoadBalancerIngress{Hostname: "lb.example.com", IP: "192.0.2.1"}), false, "http://lb.example.com:8080"},
		"a load balancer's address":                  {ports(http), balancer(corev1.LoadBalancerIngress{IP: "192.0.2.1"}), false, "http://192.0.2.1:8080"},
		"a load balancer's IPv6 address":             {ports(http), balancer(corev1.LoadBalancerIngress{IP: "2001:db8::1"}), false, "http://[2001:db8::1]:8080"},
		"a load balancer's IPv6 address, on port 80": {ports(v1alpha1.Port{Name: "http", ContainerPort: 80}), balancer(corev1.LoadBalancerIngress{IP: "2001:db8::80"}), false, "http://[2001:db8::80]"},
		"a load balancer's second entry":             {ports(http), balancer(corev1.LoadBalancerIngress{}, corev1.LoadBalancerIngress{IP: "192.0.2.1"}), false, "http://192.0.2.1:8080"},
		"a Service inside the cluster":               {ports(http), balancer(), false, "http://shop.team.svc:8080"},
		"the Service's own number of the port":       {ports(v1alpha1.Port{Name: "http", ContainerPort: 8080, ServicePort: 9000}), balancer(), false, "http://shop.team.svc:9000"},
		"port 80":                                    {ports(v1alpha1.Port{Name: "web", ContainerPort: 8080, ServicePort: 80}), balancer(), false, "http://shop.team.svc"},
		"port 443":                                   {ports(v1alpha1.Port{Name: "web", ContainerPort: 8443, ServicePort: 443}), balancer(), false, "https://shop.team.svc"},
		"a port of the name https":                   {ports(v1alpha1.Port{Name: "https", ContainerPort: 8443}), balancer(), false, "https://shop.team.svc:8443"},
		"a port of the name https on port 80":        {ports(v1alpha1.Port{Name: "https", ContainerPort: 80}), balancer(), false, "https://shop.team.svc:80"},
		"the first port that speaks TCP":             {ports(udp, http), balancer(), false, "http://shop.team.svc:8080"},
		"no port that speaks TCP":                    {ports(udp), balancer(), false, ""},
		"no port":                                    {ports(), balancer(), false, ""},
		"no Service":                                 {ports(http), nil, false, ""},
	} {
		build := &v1alpha1.Build{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}, Spec: v1alpha1.BuildSpec{Deployment: &c.spec}}
		app := Application{Service: c.service}
		if c.ingress {
			app.Ingress = &networkingv1.Ingress{}
		}
		if got := address(build, app); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// statusBefore is of a Build whose three pods of theImage were available, and that said this since; of one that was never deployed if
// it said nothing.
func statusBefore(reason string) v1alpha1.BuildStatus {
	if reason == "" {
		return v1alpha1.BuildStatus{}
	}
	return v1alpha1.BuildStatus{DeployedImage: theImage, Replicas: 3, Conditions: []metav1.Condition{conditionBefore(reason)}}
}

// conditionBefore is what an earlier sync said of theImage with that reason.
func conditionBefore(reason string) metav1.Condition {
	before := metav1.Condition{Type: v1alpha1.ConditionDeployed, Reason: reason, Message: "It was " + theImage + " of buildcontroller.dev/app=shop."}
	switch reason {
	case v1alpha1.ReasonAvailable:
		before.Status = metav1.ConditionTrue
	case v1alpha1.ReasonScaling:
		before.Status = metav1.ConditionUnknown
	default:
		before.Status = metav1.ConditionFalse
	}
	return before
}

func TestARolloutCountsOnlyForThePodsAndTheImageItWasOf(t *testing.T) {
	for name, c := range map[string]struct {
		reason, rollout, image string
		want                   bool
	}{
		"available":              {"Available", "hash", theImage, true},
		"scaling":                {"Scaling", "hash", theImage, true},
		"unavailable since then": {"Unavailable", "hash", theImage, true},
		"of other pods":          {"Available", "other", theImage, false},
		"of another image":       {"Available", "hash", "other", false},
		"under way":              {"Deploying", "hash", theImage, false},
		"failed":                 {"RolloutFailed", "hash", theImage, false},
		"never":                  {"", "", theImage, false},
	} {
		before := v1alpha1.BuildStatus{DeployedImage: theImage, DeployedRollout: "hash", Conditions: []metav1.Condition{conditionBefore(c.reason)}}
		deployment := aDeployment(func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations = map[string]string{v1alpha1.RolloutAnnotation: c.rollout}
		})
		if got := wasRolledOut(before, Application{Image: c.image, Deployment: deployment}); got != c.want {
			t.Errorf("%s: rolled out is %v", name, got)
		}
	}
}
