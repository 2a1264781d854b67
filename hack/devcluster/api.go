package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// An api reads from the Kubernetes API as the administrator. It is all of a
// client that this program needs; client-go would be most of its compile time.
type api struct {
	server string
	client *http.Client
}

func newAPI(server string, p pki) (*api, error) {
	pair, err := tls.LoadX509KeyPair(p.cert("admin"), p.key("admin"))
	if err != nil {
		return nil, err
	}
	roots, err := p.pool()
	if err != nil {
		return nil, err
	}
	return &api{server, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // a new one is made for every check
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
	}}}, nil
}

func (p pki) pool() (*x509.CertPool, error) {
	pem, err := os.ReadFile(p.cert(ca))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool, nil
}

// get reads what is at a path into an object, unless that is nil.
func (a *api) get(ctx context.Context, path string, object any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return err
	}
	body, err := send(a.client, request)
	if err != nil || object == nil {
		return err
	}
	return json.Unmarshal(body, object)
}

// send returns the body of an answer of 200 and an error for any other.
func send(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.500s", request.URL, response.Status, body)
	}
	return body, err
}

// The health endpoints of the components that serve https have certificates
// that they made themselves, for nobody to check.
var healthClient = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
}}

// httpOK checks that a URL answers 200.
func httpOK(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		_, err = send(healthClient, request)
		return err
	}
}

// accepts checks that somebody listens at an address.
func accepts(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
