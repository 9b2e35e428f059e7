package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/zab"
)

// zooConfig is what a zoo.cfg says, after defaults. Durations are in the units that ZooKeeper documents; the fields keep Go's.
type zooConfig struct {
	File string // "" for a standalone server without a file

	ClientPort        int
	ClientPortAddress string
	DataDir, LogDir   string
	TickTime          time.Duration
	InitLimit         int
	SyncLimit         int
	SnapCount         int
	SnapSizeKiB       int // of log, after which a snapshot is due however few the transactions; 0 or less: never
	MaxClientCnxns    int // 0: no bound
	MaxCnxns          int
	MinTimeout        time.Duration // 0: 2 ticks
	MaxTimeout        time.Duration // 0: 20 ticks
	JuteMaxBuffer     int
	Words             []string // nil: the defaults
	GlobalOutstanding int
	RetainSnaps       int
	SkipACL           bool
	SuperDigest       string
	ExtendedTypes     bool
	EnforceQuota      bool
	LocalSessions     bool
	UpgradeSessions   bool
	ReadOnlyMode      bool
	FadeEvery         time.Duration // how often containers and TTL nodes are looked at
	FadePerMinute     int
	NeverUsed         time.Duration // 0: unused containers stay
	Servers           []zab.Server
	Self              zab.ServerID
	Observer          bool
	ZKD               map[string]string // zkd.<name>: our own timers and limits, applied by apply

	Given    map[string]string // each key of setters that was set and taken, and how the file has its value
	Warnings []string          // keys that do nothing here, and what is better done in another way
}

// juteMaxBuffer is ZooKeeper's default: 0xfffff.
const juteMaxBuffer = 0xfffff

func defaultZooConfig() *zooConfig {
	return &zooConfig{ClientPort: 2181, TickTime: 3 * time.Second, InitLimit: 10, SyncLimit: 5, SnapCount: 100_000, SnapSizeKiB: 4 << 20,
		MaxClientCnxns: 60, JuteMaxBuffer: juteMaxBuffer, FadeEvery: time.Minute, FadePerMinute: 10_000, GlobalOutstanding: 400, RetainSnaps: 3, ZKD: map[string]string{}, Given: map[string]string{}}
}

// ignoredKeys are keys that Apache ZooKeeper knows and zkd does not need; each warns once. A trailing * stands for any rest.
var ignoredKeys = []string{"admin.*", "advancedFlowControlEnabled", "allowSaslFailedClients", "audit.*", "authProvider.*", "autopurge.purgeInterval",
	"bitHashCacheSize", "client.certReload", "client.portUnification", "clientPortListenBacklog", "clientTcpKeepAlive", "closeSessionTxn.enabled",
	"cnxTimeout", "commitLogCount", "commitProcessor.*", "connectToLearnerMasterLimit", "connection_throttle_*", "connectionDecreaseRatio",
	"connectionDrop*", "connectionFreezeTime", "connectionMaxTokens", "connectionTokenFill*", "datadir.autocreate", "db.autocreate",
	"digest.enabled", "DigestAuthenticationProvider.digestAlg", "DigestAuthenticationProvider.enabled", "dynamicConfigFile", "electionAlg",
	"electionPortBindRetry", "emulate353TTLNodes", "enableEagerACLCheck", "enforce.auth.*", "ensembleAuthName", "fastleader.*", "fips-mode",
	"flushDelay", "follower.*", "forceSnapshotSync", "forward_learner_requests_to_commit_processor_disabled", "fsync.warningthresholdms",
	"initialConfig", "intBufferStartingSizeBytes", "jmx.*", "jute.maxbuffer.extrasize", "jvm.pause.*", "kerberos.*", "largeRequestMaxBytes",
	"largeRequestThreshold", "leader.*", "leaderConnectDelayDuringRetryMs", "leaderServes", "learner.*", "letAnySaslUserDoX", "maxBatchSize",
	"maxConcurrentDiffSyncs", "maxConcurrentSnapSyncs", "maxGetChildrenResponseCacheSize", "maxInProcessingDeadWatchers",
	"maxResponseCacheSize", "maxTimeToWaitForEpoch", "maxWriteQueuePollTime", "messageTracker.*", "metricsProvider.*", "multiAddress.*",
	"netty.*", "nio.*", "observer.*", "observerMaster.*", "observerMasterPort", "oraclePath", "outstandingHandshake.limit", "pathStats.*",
	"peerType", "portUnification", "preAllocSize", "quorum.auth.*", "quorum.cnxn.threads.size", "quorumCnxnTimeoutMs", "quorumListenOnAllIPs",
	"reconfigEnabled", "request_*", "requestStale*", "requestThrottle*", "requireKerberosConfig", "sasl.serverconfig", "secureClientPort",
	"secureClientPortAddress", "security.auth_to_local", "serializeLastProcessedZxid.enabled", "serverCnxnFactory",
	"sessionRequireClientSASLAuth", "snapshot.*", "snapshotSizeFactor", "ssl.*", "sslQuorum", "sslQuorumReloadCertFiles", "standaloneEnabled",
	"superUser", "syncEnabled", "tcpKeepAlive", "throttled_op_wait_time", "throttledOpWaitTime", "traceFile", "txnLogSizeLimitInKb",
	"watcherClean*", "watchManagerName", "X509AuthenticationProvider.superUser"}

// notHonoured are ignored keys whose absence an operator would notice: the warning says so more loudly.
var notHonoured = map[string]string{
	"ssl.*": "TLS is not there yet", "secureClientPort": "TLS is not there yet", "sslQuorum": "TLS is not there yet",
	"authProvider.*": "no further authentication provider is there yet", "peerType": "the role comes from the server.N line",
	"dynamicConfigFile":            "put the server.N lines into this file",
	"sessionRequireClientSASLAuth": "SASL is not there yet", "superUser": "SASL is not there yet", "quorum.auth.*": "peers do not authenticate each other yet",
	"X509AuthenticationProvider.superUser":   "TLS is not there yet",
	"enforce.auth.*":                         "no client has to authenticate",
	"ensembleAuthName":                       "the scheme ensemble is not there",
	"audit.*":                                "no audit log is written",
	"admin.*":                                "there is no admin server",
	"metricsProvider.*":                      "mntr has the figures",
	"DigestAuthenticationProvider.digestAlg": "digests are those of SHA-1", "DigestAuthenticationProvider.enabled": "digest is always there",
}

// setters read one value each.
var setters = map[string]func(*zooConfig, string) error{
	"clientPort":                    intTo(func(c *zooConfig) *int { return &c.ClientPort }, 0, 65535),
	"clientPortAddress":             func(c *zooConfig, v string) error { c.ClientPortAddress = v; return nil },
	"dataDir":                       func(c *zooConfig, v string) error { c.DataDir = v; return nil },
	"dataLogDir":                    func(c *zooConfig, v string) error { c.LogDir = v; return nil },
	"tickTime":                      millisTo(func(c *zooConfig) *time.Duration { return &c.TickTime }, 10),
	"initLimit":                     intTo(func(c *zooConfig) *int { return &c.InitLimit }, 1, 1<<30),
	"syncLimit":                     intTo(func(c *zooConfig) *int { return &c.SyncLimit }, 1, 1<<30),
	"snapCount":                     intTo(func(c *zooConfig) *int { return &c.SnapCount }, 2, 1<<31-1),
	"snapSizeLimitInKb":             intTo(func(c *zooConfig) *int { return &c.SnapSizeKiB }, -1, 1<<31-1),
	"maxClientCnxns":                intTo(func(c *zooConfig) *int { return &c.MaxClientCnxns }, 0, 1<<31-1),
	"maxCnxns":                      intTo(func(c *zooConfig) *int { return &c.MaxCnxns }, 0, 1<<31-1),
	"minSessionTimeout":             millisTo(func(c *zooConfig) *time.Duration { return &c.MinTimeout }, -1),
	"maxSessionTimeout":             millisTo(func(c *zooConfig) *time.Duration { return &c.MaxTimeout }, -1),
	"jute.maxbuffer":                intTo(func(c *zooConfig) *int { return &c.JuteMaxBuffer }, 1024, 256<<20),
	"globalOutstandingLimit":        intTo(func(c *zooConfig) *int { return &c.GlobalOutstanding }, 1, 1<<31-1),
	"autopurge.snapRetainCount":     intTo(func(c *zooConfig) *int { return &c.RetainSnaps }, 1, 1<<20),
	"4lw.commands.whitelist":        func(c *zooConfig, v string) error { c.Words = splitList(v); return nil },
	"skipACL":                       boolTo(func(c *zooConfig) *bool { return &c.SkipACL }),
	"enforceQuota":                  boolTo(func(c *zooConfig) *bool { return &c.EnforceQuota }),
	"readonlymode.enabled":          boolTo(func(c *zooConfig) *bool { return &c.ReadOnlyMode }),
	"localSessionsEnabled":          boolTo(func(c *zooConfig) *bool { return &c.LocalSessions }),
	"localSessionsUpgradingEnabled": boolTo(func(c *zooConfig) *bool { return &c.UpgradeSessions }),
	"extendedTypesEnabled":          boolTo(func(c *zooConfig) *bool { return &c.ExtendedTypes }),
	"DigestAuthenticationProvider.superDigest": func(c *zooConfig, v string) error { c.SuperDigest = v; return nil },
	"znode.container.checkIntervalMs":          millisTo(func(c *zooConfig) *time.Duration { return &c.FadeEvery }, 1),
	"znode.container.maxPerMinute":             intTo(func(c *zooConfig) *int { return &c.FadePerMinute }, 1, 1<<31-1),
	"znode.container.maxNeverUsedIntervalMs":   millisTo(func(c *zooConfig) *time.Duration { return &c.NeverUsed }, 0),
	"forceSync": func(_ *zooConfig, v string) error {
		if on, err := parseBool(v); err != nil || on {
			return err
		}
		return errors.New("cannot be turned off: nothing is acknowledged before it is on disk")
	},
}

func intTo(field func(*zooConfig) *int, low, high int) func(*zooConfig, string) error {
	return func(c *zooConfig, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q: want a whole number from %d to %d", v, low, high)
		}
		*field(c) = n
		return nil
	}
}

func millisTo(field func(*zooConfig) *time.Duration, low int) func(*zooConfig, string) error {
	return func(c *zooConfig, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > 1<<31-1 {
			return fmt.Errorf("%q: want milliseconds, at least %d", v, low)
		}
		*field(c) = time.Duration(n) * time.Millisecond
		return nil
	}
}

func boolTo(field func(*zooConfig) *bool) func(*zooConfig, string) error {
	return func(c *zooConfig, v string) error {
		on, err := parseBool(v)
		*field(c) = on
		return err
	}
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q: want true or false", v)
}

func splitList(v string) []string {
	out := []string{}
	for _, w := range strings.Split(v, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// loadZooConfig reads a zoo.cfg and, where it lists servers, dataDir/myid. Every fault is reported, joined, each with its line.
func loadZooConfig(path string) (*zooConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := parseZooConfig(f)
	c.File = path
	if err == nil {
		err = c.findSelf()
	}
	return c, c.inFile(err)
}

// inFile says in which file a fault is, if there is a file.
func (c *zooConfig) inFile(err error) error {
	if err == nil || c.File == "" {
		return err
	}
	return fmt.Errorf("%s: %w", c.File, err)
}

func parseZooConfig(r io.Reader) (*zooConfig, error) {
	c := defaultZooConfig()
	var errs []error
	seen := map[string]int{}
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimPrefix(strings.TrimSpace(key), "zookeeper."), strings.TrimSpace(value)
		if !ok {
			errs = append(errs, fmt.Errorf("line %d: %q has no =", n, line))
			continue
		}
		if at, twice := seen[key]; twice {
			errs = append(errs, fmt.Errorf("line %d: %s was already set in line %d", n, key, at))
			continue
		}
		seen[key] = n
		if err := c.set(key, value); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", n, key, err))
		}
	}
	if err := sc.Err(); err != nil { // what was not read may be there
		return c, errors.Join(append(errs, err)...)
	}
	return c, errors.Join(append(errs, c.check())...)
}

func (c *zooConfig) set(key, value string) error {
	if set := setters[key]; set != nil {
		if err := set(c, value); err != nil {
			return err
		}
		c.Given[key] = value
		return nil
	}
	if id, ok := strings.CutPrefix(key, "server."); ok {
		return c.addServer(id, value)
	}
	if name, ok := strings.CutPrefix(key, "zkd."); ok {
		if _, known := tuning[name]; !known {
			return unknownKey("zkd."+name, tuningKeys())
		}
		c.ZKD[name] = value
		return nil
	}
	if strings.HasPrefix(key, "group.") || strings.HasPrefix(key, "weight.") {
		return errors.New("groups and weights are not there: every voter has one vote")
	}
	for _, pattern := range ignoredKeys {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if key == pattern || wild && strings.HasPrefix(key, prefix) {
			w := key + " is known to Apache ZooKeeper and does nothing here"
			if why := notHonoured[pattern]; why != "" {
				w += ": " + why
			}
			c.Warnings = append(c.Warnings, w)
			return nil
		}
	}
	return unknownKey(key, nil)
}

func unknownKey(key string, among []string) error {
	if among == nil {
		for k := range setters {
			among = append(among, k)
		}
		for _, k := range ignoredKeys {
			among = append(among, strings.TrimSuffix(k, "*"))
		}
		slices.Sort(among)
	}
	best, bestAt := "", len(key)
	for _, k := range among {
		if d := distance(strings.ToLower(key), strings.ToLower(k)); d < bestAt {
			best, bestAt = k, d
		}
	}
	if best == "" || bestAt > 1+len(key)/3 {
		return errors.New("unknown key")
	}
	return fmt.Errorf("unknown key; did you mean %s?", best)
}

// distance is Levenshtein's: how many letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// anyHost is how ZooKeeper writes that a server listens on all of its addresses.
const anyHost = "0.0.0.0"

// addServer reads host:peerPort:electionPort[:role][;[host:]clientPort].
func (c *zooConfig) addServer(id, value string) error {
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > 254 {
		return errors.New("a server's number is from 1 to 254")
	}
	s := zab.Server{ID: zab.ServerID(n)}
	if slices.ContainsFunc(c.Servers, func(o zab.Server) bool { return o.ID == s.ID }) {
		return fmt.Errorf("there is a server %d already", n) // as server.1 and server.01
	}
	addrs, client, hasClient := strings.Cut(value, ";")
	if strings.Contains(addrs, "|") {
		return errors.New("one address per server, please: several (with |) are not there")
	}
	host, rest, err := cutHost(addrs)
	if err != nil {
		return fmt.Errorf("%w; want host:peerPort:electionPort[:role][;clientPort]", err)
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("%q: want host:peerPort:electionPort[:role][;clientPort]", value)
	}
	for _, p := range parts[:2] {
		if err := checkPort(p); err != nil {
			return err
		}
	}
	s.PeerAddr, s.ElectionAddr = net.JoinHostPort(host, parts[0]), net.JoinHostPort(host, parts[1])
	if len(parts) == 3 {
		switch parts[2] {
		case "participant":
		case "observer":
			s.Observer = true
		default:
			return fmt.Errorf("role %q: want participant or observer", parts[2])
		}
	}
	if hasClient {
		chost, cport := anyHost, client // as for ZooKeeper, not the host that the peers use
		if strings.Contains(client, ":") {
			if chost, cport, err = cutHost(client); err != nil {
				return err
			}
		}
		if err := checkPort(cport); err != nil {
			return err
		}
		s.ClientAddr = net.JoinHostPort(chost, cport)
	}
	c.Servers = append(c.Servers, s)
	return nil
}

func cutHost(s string) (host, rest string, err error) {
	if strings.HasPrefix(s, "[") {
		host, rest, ok := strings.Cut(s[1:], "]:")
		if !ok {
			return "", "", fmt.Errorf("%q: want [address]:port", s)
		}
		return host, rest, nil
	}
	host, rest, ok := strings.Cut(s, ":")
	if !ok || host == "" {
		return "", "", fmt.Errorf("%q: there is no port behind a host", s)
	}
	return host, rest, nil
}

func checkPort(p string) error {
	if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q: want 1 to 65535", p)
	}
	return nil
}

// check looks at what belongs together.
func (c *zooConfig) check() error {
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("dataDir is missing"))
	}
	if c.LogDir == "" {
		c.LogDir = c.DataDir
	}
	slices.SortFunc(c.Servers, func(a, b zab.Server) int { return int(a.ID) - int(b.ID) })
	voters := 0
	ports := map[string]zab.ServerID{}
	for _, s := range c.Servers {
		if !s.Observer {
			voters++
		}
		for _, a := range []string{s.PeerAddr, s.ElectionAddr} {
			if other, twice := ports[a]; twice {
				errs = append(errs, fmt.Errorf("server.%d: address %s is also used by server.%d", s.ID, a, other))
			}
			ports[a] = s.ID
		}
	}
	if len(c.Servers) > 0 && voters == 0 {
		errs = append(errs, errors.New("no server is a participant"))
	}
	if voters == 2 {
		c.Warnings = append(c.Warnings, "with two voters the loss of either stops the ensemble: three are better")
	} else if voters > 0 && voters%2 == 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d voters survive no more losses than %d", voters, voters-1))
	}
	for _, w := range c.Words {
		if !server.IsWord(w) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("4lw.commands.whitelist: there is no word %q", w))
		}
	}
	return errors.Join(errs...)
}

// findSelf reads myid. A server without a list of servers is the only one, number 1 unless there is a myid that says another.
func (c *zooConfig) findSelf() error {
	if len(c.Servers) == 0 {
		c.Self = 1
		if b, err := os.ReadFile(filepath.Join(c.DataDir, "myid")); err == nil {
			id, err := parseMyID(b)
			if err != nil {
				return err
			}
			c.Self = id
		}
		c.Servers = []zab.Server{{ID: c.Self}}
		return nil
	}
	path := filepath.Join(c.DataDir, "myid")
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s says which of the servers this is, and cannot be read: %w; write the N of its server.N line into it", path, err)
	}
	if c.Self, err = parseMyID(b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range c.Servers {
		if s.ID == c.Self {
			c.Observer = s.Observer
			if s.ClientAddr != "" {
				host, port, _ := net.SplitHostPort(s.ClientAddr)
				n, _ := strconv.Atoi(port)
				if c.ClientPortAddress == "" && host != anyHost {
					c.ClientPortAddress = host
				}
				c.ClientPort = n
			}
			return nil
		}
	}
	return fmt.Errorf("%s says server %d, and there is no server.%d line", path, c.Self, c.Self)
}

func parseMyID(b []byte) (zab.ServerID, error) {
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 || n > 254 {
		return 0, fmt.Errorf("myid %q: want a number from 1 to 254", strings.TrimSpace(string(b)))
	}
	return zab.ServerID(n), nil
}
