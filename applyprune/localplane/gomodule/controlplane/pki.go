package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity outlives any plane: its data is disposable.
const validity = 365 * 24 * time.Hour

// identity is a certificate with its key, as a signer and as what is written down.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// pki writes what a plane's clients and servers prove themselves with into the folder given:
// NAME.crt and NAME.key for each identity, and the key that service account tokens are signed with.
func pki() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: controlplane pki FOLDER")
		os.Exit(2)
	}
	if err := writePKI(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pki:", err)
		os.Exit(1)
	}
}

func writePKI(folder string) error {
	authority, err := issue(folder, "ca", authorityTemplate("applyprune-local"), nil)
	if err != nil {
		return err
	}
	// Aggregated API servers trust whoever this second CA vouches for to speak for any user: with
	// one CA for both, every client certificate could.
	frontProxyAuthority, err := issue(folder, "front-proxy-ca", authorityTemplate("applyprune-local-front-proxy"), nil)
	if err != nil {
		return err
	}
	server := leafTemplate("kube-apiserver", x509.ExtKeyUsageServerAuth)
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, leaf := range []struct {
		name     string
		template *x509.Certificate
		signer   *identity
	}{
		{"server", server, authority},
		{"admin", clientTemplate("admin", "system:masters"), authority},
		{"kube-controller-manager", clientTemplate("system:kube-controller-manager"), authority},
		{"kube-scheduler", clientTemplate("system:kube-scheduler"), authority},
		{"kwok", clientTemplate("kwok", "system:masters"), authority},
		{"front-proxy-client", clientTemplate("front-proxy-client"), frontProxyAuthority},
	} {
		if _, err := issue(folder, leaf.name, leaf.template, leaf.signer); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := write(folder, "service-accounts.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(folder, "service-accounts", key)
}

// issue makes a key, has the signer (nil: the key itself) certify it, and writes both.
func issue(folder, name string, template *x509.Certificate, signer *identity) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if signer == nil {
		signer = &identity{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := write(folder, name+".crt", "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return &identity{certificate, key}, writeKey(folder, name, key)
}

func authorityTemplate(name string) *x509.Certificate {
	template := certificateTemplate(name)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	return template
}

func clientTemplate(user string, groups ...string) *x509.Certificate {
	template := leafTemplate(user, x509.ExtKeyUsageClientAuth)
	template.Subject.Organization = groups
	return template
}

func leafTemplate(name string, usage x509.ExtKeyUsage) *x509.Certificate {
	template := certificateTemplate(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	return template
}

func certificateTemplate(name string) *x509.Certificate {
	// A nil serial number makes CreateCertificate draw one at random. The hour covers a clock that
	// is set back a little.
	start := time.Now().Add(-time.Hour)
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             start,
		NotAfter:              start.Add(validity),
		BasicConstraintsValid: true,
	}
}

func writeKey(folder, name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return write(folder, name+".key", "PRIVATE KEY", der)
}

func write(folder, name, kind string, der []byte) error {
	content := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(folder, name), content, 0o600)
}
