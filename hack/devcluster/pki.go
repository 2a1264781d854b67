package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A pki is a directory with a certificate authority and what it has signed, as
// NAME.crt and NAME.key. What is there already is kept: a certificate lives as
// long as the cluster.
type pki string

func (p pki) cert(name string) string { return filepath.Join(string(p), name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(string(p), name+".key") }

const ca = "ca"

// A certRequest says what a certificate is for: client certificates name a user
// and its groups, serving certificates have hosts.
type certRequest struct {
	name   string
	user   string
	groups []string
	hosts  []string
}

// issue makes the certificates, and the authority if there is none yet.
func (p pki) issue(requests ...certRequest) error {
	// Each authority has a name of its own: a client that trusts another of ours
	// would say that the signature is wrong, not that the signer is unknown.
	dir, name := filepath.Split(string(p))
	if err := p.create(ca, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster " + filepath.Base(dir) + " " + name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}); err != nil {
		return err
	}
	for _, r := range requests {
		template := &x509.Certificate{
			Subject:     pkix.Name{CommonName: r.user, Organization: r.groups},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if len(r.hosts) > 0 {
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		}
		for _, host := range r.hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
		if err := p.create(r.name, template); err != nil {
			return err
		}
	}
	return nil
}

// issueServer makes the certificate of a server of ours, and writes the
// authority that signs it to a file for the server's clients.
func (p pki) issueServer(authority string) error {
	if err := p.issue(certRequest{name: "server", user: "devcluster", hosts: []string{hostIP}}); err != nil {
		return err
	}
	content, err := os.ReadFile(p.cert(ca))
	if err != nil {
		return err
	}
	return writeFile(authority, content, 0o644)
}

func (p pki) create(name string, template *x509.Certificate) error {
	if exists(p.cert(name)) {
		return nil
	}
	key, err := p.newKey(name)
	if err != nil {
		return err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(10, 0, 0)

	parent, signer := template, key // the authority signs itself
	if !template.IsCA {
		authority, err := tls.LoadX509KeyPair(p.cert(ca), p.key(ca))
		if err != nil {
			return err
		}
		parent, signer = authority.Leaf, authority.PrivateKey.(*ecdsa.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	return writeFile(p.cert(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

// newKey writes NAME.key.
func (p pki) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(p.key(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// writeKubeconfig writes a kubeconfig with everything in it, for the user of a
// client certificate.
func (p pki) writeKubeconfig(path, server, certificate string) error {
	var encoded [3]any
	for i, file := range []string{p.cert(ca), p.cert(certificate), p.key(certificate)} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		encoded[i] = base64.StdEncoding.EncodeToString(content)
	}
	return writeFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: devcluster
contexts:
- name: devcluster
  context: {cluster: devcluster, user: devcluster}
clusters:
- name: devcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: devcluster
  user:
    client-certificate-data: %s
    client-key-data: %s
`, append([]any{server}, encoded[:]...)...), 0o600)
}

// password returns the secret in a file, made up when there is none yet.
func password(path string) (string, error) {
	if content, err := os.ReadFile(path); err == nil {
		return string(content), nil
	}
	secret := rand.Text()
	return secret, writeFile(path, []byte(secret), 0o600)
}
