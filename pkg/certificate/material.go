package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The keys of the Secret. cert-manager has the same ones, but for the authority's key.
const (
	authoritiesKey  = "ca.crt"
	authorityKeyKey = "ca.key"
)

// authorityLives is how many lifetimes of a certificate the authority that signs it lives.
const authorityLives = 4

// backdated is how far clocks may be behind ours.
const backdated = time.Hour

// material is the content of the Secret, as PEM.
type material struct {
	// authorities that clients are to trust, newest first. Only the newest has its key.
	authorities, authorityKey []byte
	// The certificate that is served, and its key.
	cert, key []byte
}

func materialOf(secret *corev1.Secret) material {
	data := secret.Data
	return material{data[authoritiesKey], data[authorityKeyKey], data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]}
}

func (m material) data() map[string][]byte {
	return map[string][]byte{
		authoritiesKey: m.authorities, authorityKeyKey: m.authorityKey,
		corev1.TLSCertKey: m.cert, corev1.TLSPrivateKeyKey: m.key,
	}
}

func (m material) equal(other material) bool {
	return bytes.Equal(m.authorities, other.authorities) && bytes.Equal(m.authorityKey, other.authorityKey) &&
		bytes.Equal(m.cert, other.cert) && bytes.Equal(m.key, other.key)
}

// serving returns the certificate to serve with.
func (m material) serving() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(m.cert, m.key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// next returns the material as it should be now, which is the same when nothing is due, and when to ask again.
//
// No step breaks what works: a new authority is only trusted at first, beside the old one. When all clients trust it, which
// trusted says of the authorities as they are, the served certificate is signed by it. The old one stays trusted until it expires.
func (m material) next(hosts []string, lifetime time.Duration, trusted bool, now time.Time) (material, time.Time, error) {
	authorities, _ := certutil.ParseCertsPEM(m.authorities)
	authorities = slices.DeleteFunc(authorities, func(c *x509.Certificate) bool { return now.Before(c.NotBefore) || !now.Before(c.NotAfter) })
	signer := signerOf(authorities, m.authorityKey)
	if signer == nil {
		authorities = nil // without a key it is of no use, and whatever is served goes with it
	}
	if signer == nil || !now.Before(renewal(authorities[0], authorityLives*lifetime)) {
		created, key, err := newAuthority(now, authorityLives*lifetime)
		if err != nil {
			return m, now, err
		}
		authorities, signer, trusted = append([]*x509.Certificate{created}, authorities...), key, false
		if m.authorityKey, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return m, now, err
		}
	}
	var err error
	if m.authorities, err = certutil.EncodeCertificates(authorities...); err != nil {
		return m, now, err
	}

	served, problem := m.verified(authorities, hosts, now)
	signed := problem == nil && served.CheckSignatureFrom(authorities[0]) == nil
	due := problem == nil && !now.Before(renewal(served, lifetime))
	if problem != nil || !signed && trusted || signed && due {
		if m.cert, m.key, err = newCertificate(authorities[0], signer, hosts, now, lifetime); err != nil {
			return m, now, err
		}
		if served, problem = m.verified(authorities, hosts, now); problem != nil {
			return m, now, fmt.Errorf("a certificate that was just made cannot be used: %w", problem)
		}
	}
	again := renewal(authorities[0], authorityLives*lifetime)
	if at := renewal(served, lifetime); at.Before(again) && at.After(now) {
		again = at
	}
	for _, authority := range authorities {
		if authority.NotAfter.Before(again) {
			again = authority.NotAfter
		}
	}
	return m, again, nil
}

// renewal is when a certificate is to be renewed: when a third of its life is left.
func renewal(c *x509.Certificate, lifetime time.Duration) time.Time {
	return c.NotAfter.Add(-lifetime / 3)
}

// signerOf returns the key of the newest authority, and nil if there is none that fits.
func signerOf(authorities []*x509.Certificate, encoded []byte) *ecdsa.PrivateKey {
	if len(authorities) == 0 {
		return nil
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(encoded)
	if err != nil {
		return nil
	}
	if key, ok := parsed.(*ecdsa.PrivateKey); ok && key.PublicKey.Equal(authorities[0].PublicKey) {
		return key
	}
	return nil
}

// verified returns the served certificate, if clients accept it.
func (m material) verified(authorities []*x509.Certificate, hosts []string, now time.Time) (*x509.Certificate, error) {
	pair, err := m.serving()
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return nil, err
		}
	}
	return pair.Leaf, nil
}

func newAuthority(now time.Time, lifetime time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial := serialNumber()
	created, err := sign(&x509.Certificate{
		SerialNumber: serial,
		// Each has a name of its own: of two with the same name a client would try the wrong one.
		Subject:   pkix.Name{CommonName: "build-controller " + hex.EncodeToString(serial.Bytes()[:4])},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil, key, key)
	return created, key, err
}

// newCertificate returns a certificate and its key as PEM. It does not outlive its authority.
func newCertificate(authority *x509.Certificate, signer *ecdsa.PrivateKey, hosts []string, now time.Time, lifetime time.Duration) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serialNumber(),
		Subject:      pkix.Name{CommonName: "build-controller"},
		NotBefore:    now.Add(-backdated), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if authority.NotAfter.Before(template.NotAfter) {
		template.NotAfter = authority.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	created, err := sign(template, authority, private, signer)
	if err != nil {
		return nil, nil, err
	}
	if cert, err = certutil.EncodeCertificates(created); err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return cert, key, err
}

// sign signs a certificate of a key; without an authority by itself.
func sign(template, authority *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	if authority == nil {
		authority = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func serialNumber() *big.Int {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	return serial.SetBit(serial, 119, 1)
}
