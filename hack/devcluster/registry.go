package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"golang.org/x/crypto/bcrypt"
)

const registryUser = "builder"

func (c *cluster) registryPassword() (string, error) { return password(c.in("registry", "password")) }

// registry is Debian's docker-registry, open to all.
func (c *cluster) registry() (service, error) {
	return c.registryService("registry", registryAddress, "", "")
}

// authRegistry is a second one, that only knows the user "builder".
func (c *cluster) authRegistry() (service, error) {
	return c.registryWithUser("auth-registry", "http", authRegistryAddress, "")
}

// tlsRegistry is a third one, that also knows only "builder", and whose
// certificate is signed by an authority of its own.
func (c *cluster) tlsRegistry() (service, error) {
	p := pki(c.in("registry", "pki"))
	if err := p.issueServer(c.registryAuthority()); err != nil {
		return service{}, err
	}
	return c.registryWithUser("tls-registry", "https", tlsRegistryAddress,
		fmt.Sprintf(", tls: {certificate: %q, key: %q}", p.cert("server"), p.key("server")))
}

func (c *cluster) registryAuthority() string { return c.in("registry", "ca.crt") }

func (c *cluster) registryWithUser(name, scheme, address, tls string) (service, error) {
	secret, err := c.registryPassword()
	if err != nil {
		return service{}, err
	}
	users := c.in("registry", "htpasswd")
	if !exists(users) {
		hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.DefaultCost)
		if err != nil {
			return service{}, err
		}
		if err := writeFile(users, fmt.Appendf(nil, "%s:%s\n", registryUser, hash), 0o600); err != nil {
			return service{}, err
		}
	}
	s, err := c.registryService(name, address, tls,
		fmt.Sprintf("auth: {htpasswd: {realm: devcluster, path: %q}}\n", users))
	s.ready = func(ctx context.Context) error {
		return wantsPassword(ctx, scheme+"://"+address+"/v2/", registryUser, secret)
	}
	return s, err
}

func (c *cluster) registryService(name, address, tls, auth string) (service, error) {
	config := c.in("registry", name+".yaml")
	err := writeFile(config, fmt.Appendf(nil, `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
http: {addr: %q%s}
%s`, c.in("registry", name), address, tls, auth), 0o644)
	return service{
		name:  name,
		path:  "/usr/bin/docker-registry",
		args:  []string{"serve", config},
		ready: httpOK("http://" + address + "/v2/"),
	}, err
}

// wantsPassword checks that a URL is refused to the anonymous and to one with a
// wrong password, and given to the user.
func wantsPassword(ctx context.Context, url, user, secret string) error {
	for _, try := range []struct {
		user, password string
		want           int
	}{
		{"", "", http.StatusUnauthorized},
		{user, "not " + secret, http.StatusUnauthorized},
		{user, secret, http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if try.user != "" {
			request.SetBasicAuth(try.user, try.password)
		}
		response, err := healthClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != try.want {
			return fmt.Errorf("GET %s as %q: %s, want %d", url, try.user, response.Status, try.want)
		}
	}
	return nil
}

// dockerConfig writes the credentials for the second and the third registry as
// "kubectl create secret docker-registry" does: some tools read the user and
// the password, others only both in one.
func (c *cluster) dockerConfig() error {
	secret, err := c.registryPassword()
	if err != nil {
		return err
	}
	user := fmt.Sprintf(`{"username": %q, "password": %q, "auth": %q}`, registryUser, secret,
		base64.StdEncoding.EncodeToString([]byte(registryUser+":"+secret)))
	return writeFile(c.in("registry", "config.json"), fmt.Appendf(nil, `{"auths": {%q: %s, %q: %s}}`+"\n",
		authRegistryAddress, user, tlsRegistryAddress, user), 0o600)
}
