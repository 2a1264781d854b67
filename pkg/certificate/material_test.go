package certificate

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
)

const life = 90 * 24 * time.Hour

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"127.0.0.1", "build-controller-webhook.build-controller.svc"}
)

// made returns what an empty Secret becomes.
func made(t testing.TB, now time.Time) material {
	t.Helper()
	m, _, err := material{}.next(names, life, false, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// accepts is what a client does that trusts a bundle.
func accepts(bundle []byte, m material, host string, now time.Time) error {
	served, err := m.serving()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestAnEmptySecretBecomesAnAuthorityAndACertificateOfAllHosts(t *testing.T) {
	m := made(t, start)
	for _, host := range names {
		if err := accepts(m.authorities, m, host, start); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	served, _ := m.serving()
	if got := served.Leaf.NotAfter.Sub(start); got != life {
		t.Errorf("it lives %s", got)
	}
	if served.Leaf.IsCA || len(served.Leaf.ExtKeyUsage) != 1 {
		t.Error("the certificate may do more than serve")
	}
	authorities, _ := certutil.ParseCertsPEM(m.authorities)
	if got := authorities[0].NotAfter.Sub(start); got != authorityLives*life || !authorities[0].MaxPathLenZero {
		t.Errorf("the authority lives %s", got)
	}
}

func TestNothingChangesUntilSomethingIsDue(t *testing.T) {
	m := made(t, start)
	_, again, _ := m.next(names, life, true, start)
	for _, now := range []time.Time{start, start.Add(time.Hour), again.Add(-time.Second)} {
		if after, _, err := m.next(names, life, true, now); err != nil || !after.equal(m) {
			t.Errorf("at %s it changes (%v)", now, err)
		}
	}
	if after, _, _ := m.next(names, life, true, again); after.equal(m) {
		t.Errorf("nothing happens at %s, when it was to be asked again", again)
	}
}

// For ten years, two kinds of clients: those that learn of new authorities at once, and those that do long after.
func TestClientsNeverMeetACertificateThatTheyDoNotTrust(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Minute, 20 * 24 * time.Hour} {
		t.Run(fmt.Sprintf("clients learn after %s", lag), func(t *testing.T) {
			m, now := made(t, start), start
			known, changed := m.authorities, now // by clients, and when what they should know changed last
			certificates, authorities := map[string]bool{}, map[string]bool{}
			for now.Before(start.AddDate(10, 0, 0)) {
				if !bytes.Equal(known, m.authorities) && now.Sub(changed) >= lag {
					known = m.authorities
				}
				next, again, err := m.next(names, life, bytes.Equal(known, m.authorities), now)
				if err != nil {
					t.Fatal(err)
				}
				if !again.After(now) {
					t.Fatalf("at %s it wants to be asked again at %s", now, again)
				}
				if !bytes.Equal(next.authorities, m.authorities) {
					changed = now
				}
				m = next
				if err := accepts(known, m, names[1], now); err != nil {
					t.Fatalf("at %s: %v", now, err)
				}
				served, _ := m.serving()
				certificates[served.Leaf.SerialNumber.String()] = true
				all, _ := certutil.ParseCertsPEM(m.authorities)
				for _, authority := range all {
					authorities[authority.Subject.CommonName] = true
				}
				if len(all) > 2 {
					t.Fatalf("at %s there are %d authorities", now, len(all))
				}
				if left := served.Leaf.NotAfter.Sub(now); left < life/3-lag-48*time.Hour {
					t.Fatalf("at %s the certificate has only %s left", now, left)
				}
				step := 24 * time.Hour
				if until := again.Sub(now); until < step {
					step = until
				}
				now = now.Add(step)
			}
			// A certificate lives 60 of its 90 days, an authority 240 of its 360.
			if len(certificates) < 55 || len(authorities) < 15 {
				t.Errorf("in ten years there were %d certificates and %d authorities", len(certificates), len(authorities))
			}
		})
	}
}

func TestACertificateThatNobodyAcceptsIsReplacedAtOnce(t *testing.T) {
	good := made(t, start)
	other := made(t, start)
	for name, c := range map[string]struct {
		m     material
		hosts []string
		now   time.Time
	}{
		"it has expired":                        {good, names, start.Add(life + time.Second)},
		"everything has expired":                {good, names, start.Add(5 * life)},
		"a clock was wrong by years":            {good, names, start.AddDate(-3, 0, 0)},
		"a host has come":                       {good, append([]string{"10.0.0.1"}, names...), start},
		"the key is another one's":              {material{good.authorities, good.authorityKey, good.cert, other.key}, names, start},
		"another authority signed it":           {material{good.authorities, good.authorityKey, other.cert, other.key}, names, start},
		"the authority's key is another one's":  {material{good.authorities, other.authorityKey, good.cert, good.key}, names, start},
		"the authority's key is gone":           {material{authorities: good.authorities, cert: good.cert, key: good.key}, names, start},
		"the authorities are gone":              {material{authorityKey: good.authorityKey, cert: good.cert, key: good.key}, names, start},
		"the certificate is gone":               {material{authorities: good.authorities, authorityKey: good.authorityKey}, names, start},
		"the certificate is garbage":            {material{good.authorities, good.authorityKey, []byte("garbage"), good.key}, names, start},
		"the authorities are a certificate":     {material{good.cert, good.key, good.cert, good.key}, names, start},
		"the authorities are somebody's key":    {material{good.authorityKey, good.authorityKey, good.cert, good.key}, names, start},
		"the authorities have rubbish in front": {material{append([]byte("rubbish\n"), good.authorities...), []byte("rubbish"), good.cert, good.key}, names, start},
	} {
		t.Run(name, func(t *testing.T) {
			after, again, err := c.m.next(c.hosts, life, false, c.now)
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range c.hosts {
				if err := accepts(after.authorities, after, host, c.now); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
			if !again.After(c.now) {
				t.Errorf("it wants to be asked again at once")
			}
		})
	}
}

func TestWhatSomebodyElseFillsIsForeign(t *testing.T) {
	ours := made(t, start)
	byOthers := map[string]string{"cert-manager.io/certificate-name": "build-controller"}
	for name, c := range map[string]struct {
		m           material
		annotations map[string]string
		want        bool
	}{
		"an empty Secret":                        {material{}, nil, false},
		"ours":                                   {ours, nil, false},
		"one without a key":                      {material{authorities: ours.authorities, cert: ours.cert, key: ours.key}, nil, true},
		"one that cert-manager has taken over":   {ours, byOthers, true},
		"one that cert-manager is about to fill": {material{}, byOthers, true},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Data: c.m.data()}
		if got := foreign(secret); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzMaterial: whatever is in the Secret, what it becomes can be served with, and is left alone from then on.
func FuzzMaterial(f *testing.F) {
	m := made(f, start)
	f.Add([]byte(nil), []byte(nil), []byte(nil), []byte(nil))
	f.Add(m.authorities, m.authorityKey, m.cert, m.key)
	f.Add(append(bytes.Clone(m.authorities), m.cert...), m.authorityKey, m.cert, m.authorityKey)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n"), m.key, m.authorities, m.authorityKey)
	f.Fuzz(func(t *testing.T, authorities, authorityKey, cert, key []byte) {
		after, _, err := material{authorities, authorityKey, cert, key}.next(names, life, true, start)
		if err != nil {
			t.Fatal(err)
		}
		if err := accepts(after.authorities, after, names[1], start); err != nil {
			t.Fatal(err)
		}
		if again, _, err := after.next(names, life, true, start); err != nil || !again.equal(after) {
			t.Fatalf("it changes once more (%v)", err)
		}
	})
}
