package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/pkg/client"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitNo     = 3 // the answer is no: diff found differences, wait gave up
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cfg, err := parseArgs(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		if _, err := fmt.Fprint(stdout, longHelp()); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFailed
		}
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "zkcli: %v\n%s\n(zkcli --help tells more)\n", err, synopsis)
		return exitUsage
	}
	if len(cfg.command) > 0 && !cfg.complete {
		if err := checkCommand(cfg.command[0]); err != nil { // before it takes a connection to find out
			fmt.Fprint(stderr, helpText())
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
	}
	sh := newShell(ctx, cfg, stdin, stdout, stderr)
	defer sh.close()
	if cfg.complete {
		sh.openQuietly()
		sh.screen.stdout(completeWords(ctx, sh, cfg.command))
		return exitOK
	}
	if !cfg.offline() {
		if err := sh.open(cfg.server); err != nil {
			return sh.openFailed(err)
		}
	}
	if len(cfg.command) == 0 {
		return sh.written(sh.interact())
	}
	return sh.written(sh.execute(cfg.command))
}

// written is the exit code of a run that would end with code, but for what standard output did not take: an export that stands only
// in part on a full disk must not look like a success.
func (sh *shell) written(code int) int {
	err := sh.screen.outputLost()
	if err == nil {
		return code
	}
	sh.screen.fault(err.Error() + "\n")
	return cmp.Or(code, exitFailed)
}

// offline reports whether a one-shot command takes no session: it needs none, or only its help or its usage will be shown.
func (cfg *config) offline() bool {
	if len(cfg.command) == 0 {
		return false
	}
	c := findCommand(cfg.command[0])
	if c.offline || c.wantsHelp(cfg.command[1:]) {
		return true
	}
	_, err := c.parse(cfg.command[1:])
	return err != nil
}

// config is what the command line says.
type config struct {
	server  string
	timeout time.Duration // of the session, of the first connect, and for how long to wait for a lost server
	json    bool
	color   colorMode
	command []string // none: interactive

	readOnly  bool
	maxFrame  int  // bytes, 0 for the default
	complete  bool // print completions of command
	secure    bool // TLS even without files
	ca        string
	cert, key string
	dial      func(ctx context.Context, network, addr string) (net.Conn, error) // nil for the network
	history   string                                                            // file, "" for none
}

// options returns how to dial. Faults are those of the TLS files.
func (cfg *config) options() ([]client.Option, error) {
	opts := []client.Option{client.WithSessionTimeout(cfg.timeout)}
	if cfg.readOnly {
		opts = append(opts, client.WithReadOnly())
	}
	if cfg.maxFrame > 0 {
		opts = append(opts, client.WithMaxFrame(cfg.maxFrame))
	}
	if cfg.dial != nil {
		opts = append(opts, client.WithDialer(cfg.dial))
	}
	if !cfg.usesTLS() {
		return opts, nil
	}
	t, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	return append(opts, client.WithTLS(t)), nil
}

// tlsConfig reads the TLS files.
func (cfg *config) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.ca != "" {
		pem, err := os.ReadFile(cfg.ca)
		if err != nil {
			return nil, err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", cfg.ca)
		}
	}
	if cfg.cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.cert, cfg.key)
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// dialer connects as sessions do, for the four-letter words.
func (cfg *config) dialer() dialer {
	d := cfg.dial
	if d == nil {
		d = new(net.Dialer).DialContext
	}
	if !cfg.usesTLS() {
		return d
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		t, err := cfg.tlsConfig()
		if err != nil {
			return nil, err
		}
		nc, err := d(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t.ServerName, _, _ = net.SplitHostPort(addr)
		secure := tls.Client(nc, t)
		if err := secure.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		return secure, nil
	}
}

func (cfg *config) usesTLS() bool { return cfg.ca != "" || cfg.cert != "" || cfg.secure }

func parseArgs(args []string) (config, error) {
	cfg := config{server: "127.0.0.1:2181", timeout: 30 * time.Second, history: defaultHistory()}
	fs := newOptions(&cfg)
	if err := fs.Parse(oldSpelling(args)); err != nil {
		return cfg, err
	}
	cfg.command = fs.Args()
	if file, _ := fs.GetString("client-configuration"); file != "" {
		if err := cfg.readClientConfiguration(file); err != nil {
			return cfg, err
		}
	}
	if cfg.timeout <= 0 {
		return cfg, fmt.Errorf("timeout %v is not positive", cfg.timeout)
	}
	if cfg.maxFrame < 0 || fs.Changed("jute-maxbuffer") && cfg.maxFrame == 0 {
		return cfg, fmt.Errorf("jute-maxbuffer %d is not positive", cfg.maxFrame)
	}
	return cfg, nil
}

func newOptions(cfg *config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("zkcli", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SetInterspersed(false) // what follows the command is the command's
	fs.SortFlags = false
	fs.StringVar(&cfg.server, "server", cfg.server, "servers and, after them, the chroot: `host:port,…[/chroot]`; 127.0.0.1:2181 unless given")
	fs.Var((*millis)(&cfg.timeout), "timeout", "session timeout, and how long to wait for a server; a plain number is milliseconds; 30s unless given")
	fs.Var((*format)(&cfg.json), "output", "text, or json: one object per command")
	fs.Var(&cfg.color, "color", "`when` to use colours: auto, always or never")
	fs.BoolVarP(&cfg.readOnly, "readonly", "r", false, "accept a server that only reads, if there is no other")
	fs.StringVar(&cfg.ca, "tls-ca", "", "connect with TLS, to servers that this `file` of certificates vouches for")
	fs.StringVar(&cfg.cert, "tls-cert", "", "connect with TLS, showing this certificate `file`")
	fs.StringVar(&cfg.key, "tls-key", "", "`file` with the key of the certificate")
	fs.IntVar(&cfg.maxFrame, "jute-maxbuffer", 0, "longest request in `bytes`, if it is not the default on the servers either")
	fs.String("client-configuration", "", "zkCli.sh's properties `file`: its TLS settings, if they name PEM files")
	fs.Bool("waitforconnection", false, "accepted for old scripts; zkcli always waits for the connection")
	fs.BoolVar(&cfg.complete, "complete", false, "print what the last word of the command may become, for completion scripts")
	return fs
}

// oldOptions are those of zkCli.sh, which begin with one dash.
var oldOptions = map[string]bool{"server": true, "timeout": true, "waitforconnection": true, "client-configuration": true}

// oldSpelling turns the options of zkCli.sh into ours.
func oldSpelling(args []string) []string {
	out := append([]string(nil), args...)
	known := newOptions(new(config))
	for i := 0; i < len(out); i++ {
		if name, ok := strings.CutPrefix(out[i], "-"); ok && oldOptions[name] {
			out[i] = "-" + out[i]
		}
		name, long := strings.CutPrefix(out[i], "--")
		switch o := known.Lookup(name); {
		case long && o != nil && o.NoOptDefVal == "":
			i++ // its value
		case !strings.HasPrefix(out[i], "-"):
			return out
		}
	}
	return out
}

// millis is a duration that may be a plain number of milliseconds.
type millis time.Duration

func (m *millis) String() string { return time.Duration(*m).String() }
func (m *millis) Type() string   { return "duration" }
func (m *millis) Set(s string) error {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		*m = millis(time.Duration(n) * time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	*m = millis(d)
	return err
}

// format is the value of --output: true for json.
type format bool

func (f *format) Type() string { return "format" }
func (f *format) String() string {
	if *f {
		return "json"
	}
	return "text"
}
func (f *format) Set(s string) error {
	if s != "text" && s != "json" {
		return errors.New("neither text nor json")
	}
	*f = s == "json"
	return nil
}
