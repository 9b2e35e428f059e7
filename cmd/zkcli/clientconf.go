package main

import (
	"fmt"
	"os"
	"strings"
)

// readClientConfiguration takes what zkcli knows from the properties file of zkCli.sh's -client-configuration: whether to use
// TLS, and the files for it if they are PEM. Options of the command line come first.
func (cfg *config) readClientConfiguration(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		keys[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if keys["zookeeper.client.secure"] != "true" {
		return nil
	}
	trust, own := keys["zookeeper.ssl.trustStore.location"], keys["zookeeper.ssl.keyStore.location"]
	for _, store := range []string{trust, own} {
		if store != "" && !strings.HasSuffix(store, ".pem") {
			return fmt.Errorf("%s: %s is a Java key store; give PEM files with --tls-ca, --tls-cert and --tls-key", file, store)
		}
	}
	cfg.secure = true
	if cfg.ca == "" {
		cfg.ca = trust
	}
	if cfg.cert == "" && own != "" {
		cfg.cert, cfg.key = own, own // one file has both
	}
	return nil
}
