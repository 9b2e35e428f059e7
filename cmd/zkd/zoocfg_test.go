package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

func TestAUsualFileIsRead(t *testing.T) {
	c, err := parseZooConfig(strings.NewReader(`
# The number of milliseconds of each tick
tickTime=2000
initLimit = 10
syncLimit=5
dataDir=/var/lib/zookeeper
clientPort=2182
zookeeper.4lw.commands.whitelist=ruok, mntr
maxClientCnxns=0
zkd.hbTimeout=700
admin.enableServer=false
server.3=c:2888:3888:observer
server.1=a.example:2888:3888;2181
server.2=[::1]:2888:3888:participant;127.0.0.1:2182
`))
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, c.TickTime)
	require.Equal(t, 2182, c.ClientPort)
	require.Equal(t, "/var/lib/zookeeper", c.LogDir)
	require.Equal(t, []string{"ruok", "mntr"}, c.Words)
	require.Equal(t, map[string]string{"hbTimeout": "700"}, c.ZKD)
	require.Equal(t, []zab.Server{
		{ID: 1, PeerAddr: "a.example:2888", ElectionAddr: "a.example:3888", ClientAddr: "0.0.0.0:2181"},
		{ID: 2, PeerAddr: "[::1]:2888", ElectionAddr: "[::1]:3888", ClientAddr: "127.0.0.1:2182"},
		{ID: 3, Observer: true, PeerAddr: "c:2888", ElectionAddr: "c:3888"},
	}, c.Servers)
	require.Len(t, c.Warnings, 2)
	require.Contains(t, c.Warnings[0], "admin.enableServer")
	require.Contains(t, c.Warnings[1], "two voters")
}

// A zoo.cfg of 3.9.5 is read, whatever stands in it: a key that does nothing here warns. Some names of each group, as its manual or its
// code has them.
func TestKeysOfTheOriginalAreNoFaults(t *testing.T) {
	for _, key := range strings.Fields(`admin.enableServer admin.rateLimiterIntervalInMS allowSaslFailedClients audit.enable audit.impl.class
		authProvider.1 bitHashCacheSize client.certReload clientTcpKeepAlive connectToLearnerMasterLimit connection_throttle_tokens connectionMaxTokens
		connectionTokenFillTime connectionTokenFillCount connectionFreezeTime connectionDropIncrease connectionDropDecrease connectionDecreaseRatio
		datadir.autocreate db.autocreate DigestAuthenticationProvider.digestAlg DigestAuthenticationProvider.enabled electionPortBindRetry
		emulate353TTLNodes enableEagerACLCheck enforce.auth.enabled enforce.auth.schemes ensembleAuthName fastleader.maxNotificationInterval fips-mode
		flushDelay follower.nodelay forceSnapshotSync forward_learner_requests_to_commit_processor_disabled intBufferStartingSizeBytes
		jute.maxbuffer.extrasize jvm.pause.monitor jvm.pause.warn-threshold.ms leader.closeSocketAsync leader.nodelay leader.maxTimeToWaitForEpoch
		leaderConnectDelayDuringRetryMs letAnySaslUserDoX maxConcurrentDiffSyncs maxConcurrentSnapSyncs maxInProcessingDeadWatchers
		maxTimeToWaitForEpoch maxWriteQueuePollTime messageTracker.BufferSize observerMaster.sizeLimit observerMasterPort oraclePath
		outstandingHandshake.limit pathStats.enabled quorum.auth.enableSasl quorum.cnxn.threads.size request_stale_latency_check
		request_throttler.shutdownTimeout request_throttle_max_requests requestStaleConnectionCheck requestThrottleLimit requestThrottleStallTime
		requireKerberosConfig security.auth_to_local serializeLastProcessedZxid.enabled snapshot.compression.method snapshotSizeFactor
		sslQuorumReloadCertFiles superUser throttled_op_wait_time txnLogSizeLimitInKb watcherCleanThreadsNum watcherCleanIntervalInSeconds
		X509AuthenticationProvider.superUser`) {
		for _, prefix := range []string{"", "zookeeper."} {
			c, err := parseZooConfig(strings.NewReader("dataDir=/d\n" + prefix + key + "=1"))
			require.NoError(t, err)
			require.Len(t, c.Warnings, 1, key)
			require.Contains(t, c.Warnings[0], key+" is known to Apache ZooKeeper and does nothing here")
		}
	}
	for pattern := range notHonoured {
		require.Contains(t, ignoredKeys, pattern)
	}
}

func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"dataDir=/d\ntickTme=2000", "line 2: tickTme: unknown key; did you mean tickTime?"},
		{"dataDir=/d\nzkd.hbTimout=1", "line 2: zkd.hbTimout: unknown key; did you mean zkd.hbTimeout?"},
		{"dataDir=/d\ncompletelyElse=1", "line 2: completelyElse: unknown key"},
		{"tickTime=2000", "dataDir is missing"},
		{"dataDir=/d\ntickTime=fast", `line 2: tickTime: "fast": want milliseconds`},
		{"dataDir=/d\nclientPort=70000", "line 2: clientPort: "},
		{"dataDir=/d\ndataDir=/e", "line 2: dataDir was already set in line 1"},
		{"dataDir=/d\nzookeeper.tickTime=2000\ntickTime=3000", "line 3: tickTime was already set in line 2"},
		{"dataDir=/d\nserver.1=a:1:2\nserver.01=b:1:2", "line 3: server.01: there is a server 1 already"},
		{"dataDir=/d\nnonsense", `line 2: "nonsense" has no =`},
		{"dataDir=/d\nserver.0=a:1:2", "a server's number is from 1 to 254"},
		{"dataDir=/d\nserver.1=a", "no port behind a host; want host:peerPort:electionPort"},
		{"dataDir=/d\nserver.1=a:1", "want host:peerPort:electionPort"},
		{"dataDir=/d\nserver.1=a:1:2:boss", `role "boss"`},
		{"dataDir=/d\nserver.1=a:1:99999", `port "99999"`},
		{"dataDir=/d\nserver.1=a:1:2|b:1:2", "one address per server"},
		{"dataDir=/d\nserver.1=a:1:2\nserver.2=a:1:3", "server.2: address a:1 is also used by server.1"},
		{"dataDir=/d\nserver.1=a:1:2:observer", "no server is a participant"},
		{"dataDir=/d\nforceSync=no", "forceSync: cannot be turned off"},
		{"dataDir=/d\nweight.1=3", "every voter has one vote"},
	} {
		_, err := parseZooConfig(strings.NewReader(c.file))
		require.ErrorContains(t, err, c.want, c.file)
	}
	_, err := parseZooConfig(strings.NewReader("tickTme=1\ninitLimit=0\nx"))
	require.ErrorContains(t, err, "line 1")
	require.ErrorContains(t, err, "line 2")
	require.ErrorContains(t, err, "line 3")
	require.ErrorContains(t, err, "dataDir is missing")
}

// file writes a zoo.cfg and, unless id is empty, a myid beside its data.
func file(t *testing.T, id, content string) string {
	dir := t.TempDir()
	if id != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "myid"), []byte(id), 0o600))
	}
	path := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(path, []byte("dataDir="+dir+"\n"+content), 0o600))
	return path
}

func TestMyidSaysWhichServerThisIs(t *testing.T) {
	three := "server.1=a:1:2;2181\nserver.2=b:1:2;0.0.0.0:2199\nserver.3=c:1:2\n"
	c, err := loadZooConfig(file(t, "2\n", three))
	require.NoError(t, err)
	require.Equal(t, zab.ServerID(2), c.Self)
	require.Equal(t, ":2199", c.clientAddr())

	_, err = loadZooConfig(file(t, "", three))
	require.ErrorContains(t, err, "write the N of its server.N line into it")
	_, err = loadZooConfig(file(t, "7", three))
	require.ErrorContains(t, err, "there is no server.7 line")
	path := file(t, "2", three+"colour=blue\n")
	_, err = loadZooConfig(path)
	require.ErrorContains(t, err, path+": line 5: colour: ")
	_, err = loadZooConfig(file(t, "one", three))
	require.ErrorContains(t, err, "want a number from 1 to 254")

	c, err = loadZooConfig(file(t, "", ""))
	require.NoError(t, err)
	require.Equal(t, []zab.Server{{ID: 1}}, c.Servers, "no list: a standalone server")
	c, err = loadZooConfig(file(t, "5", ""))
	require.NoError(t, err)
	require.Equal(t, []zab.Server{{ID: 5}}, c.Servers, "which keeps the number it will have in an ensemble")
}

func TestSomethingIsKnownOfTheBuild(t *testing.T) {
	require.Greater(t, buildTime().Year(), 2020, "without a stamp the program's file tells")
}

func TestExitCodesAndWords(t *testing.T) {
	good := file(t, "1", "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nzkd.hbTimeout=600\n")
	slow := file(t, "1", "zkd.hbInterval=500\nzkd.hbTimeout=600\n")
	words := file(t, "", "4lw.commands.whitelist=srvr,rouk,*\nDigestAuthenticationProvider.superDigest=super:xyz\n")
	folder := t.TempDir()
	notALog := filepath.Join(folder, "log.1")
	require.NoError(t, os.WriteFile(notALog, []byte("no log"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"version"}, 0, "zkd ", ""},
		{[]string{"version", "x"}, 2, "", "takes no arguments"},
		{[]string{"--help"}, 0, "zkd log dump", ""},
		{[]string{"frobnicate"}, 2, "", `unknown command "frobnicate"`},
		{[]string{"--frobnicate"}, 2, "", "unknown flag"},
		{[]string{"import"}, 2, "", "unknown command"},
		{[]string{"--config", "/nowhere/zoo.cfg"}, 3, "", "no such file"},
		{[]string{"config", "check", good}, 0, "used     zkd.hbTimeout=600", ""},
		{[]string{"config", "check", slow}, 3, "", "at least five times hbInterval"},
		{[]string{"config", "check", file(t, "1", "zkd.gatherLimit=0\n")}, 0, "used     zkd.gatherLimit=0", ""},
		{[]string{"config", "check", file(t, "1", "zkd.gatherLimit=-1\n")}, 3, "", "want 0 or a positive whole number"},
		{[]string{"config", "check"}, 2, "", "takes one file"},
		{[]string{"--config", folder}, 3, "", "zkd: configuration: " + folder + ": read " + folder + ": is a directory\n"},
		{[]string{"--config", file(t, "", "clientPort=0\nclientPortAddress=192.0.2.1\n")}, 3, "", "cannot assign requested address; clientPortAddress"},
		{[]string{"dev", "--nodes", "0"}, 2, "", "from 1 to 9"},
		{[]string{"dev", "--client-port", "65535"}, 2, "", "out of range"},
		{[]string{"dev", "--set", "extendedTypesEnabled=perhaps"}, 2, "", "extendedTypesEnabled: \"perhaps\": want true or false"},
		{[]string{"dev", "--set", "clientPort=1"}, 2, "", "clientPort is decided here"},
		{[]string{"dev", "--set", "tickTime"}, 2, "", "has no ="},
		{[]string{"log", "dump"}, 2, "", "at least one file"},
		{[]string{"log", "dump", notALog}, 5, "", "zkd: corrupt log " + notALog},
		{[]string{"snapshot", "dump", notALog}, 1, "", "zkd: open " + notALog + ": not a snapshot's name\n"},
		{[]string{"--log-level", "loud"}, 2, "", "--log-level loud: want debug, info, warn or error"},
		{[]string{"--help"}, 0, "SIGUSR1", ""},
		{[]string{"config", "check", "--help"}, 0, "Usage: zkd config check FILE", ""},
		{[]string{"snapshot", "dump", "--help"}, 0, "Usage: zkd snapshot dump FILE", ""},
		{[]string{"dev", "--help"}, 0, "--set", ""},
		{[]string{"version", "--help"}, 0, "Usage: zkd version\n", ""},
		{[]string{"config", "chek"}, 2, "", "did you mean zkd config check FILE?"},
		{[]string{good}, 2, "", "did you mean zkd --config " + good},
		{[]string{"config", "check", words}, 0, `there is no word "rouk"`, ""},
		{[]string{"config", "check", words}, 0, "used     4lw.commands.whitelist=srvr,rouk,*", ""},
		{[]string{"config", "check", words}, 0, "superDigest=(not shown)", ""},
	} {
		var out, errOut bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), c.args, &out, &errOut), "%v: %s", c.args, errOut.String())
		require.Contains(t, out.String(), c.out, "%v", c.args)
		require.Contains(t, errOut.String(), c.err, "%v", c.args)
	}
}

func FuzzParseZooConfig(f *testing.F) {
	f.Add("dataDir=/d\nserver.1=a:1:2:observer;[::]:3\nzkd.hbTimeout=1\n4lw.commands.whitelist=*")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseZooConfig(strings.NewReader(s))
		if err == nil {
			require.NotEmpty(t, c.DataDir)
		}
	})
}

func TestARefusedKeyIsNotShownAsUsed(t *testing.T) {
	c, err := parseZooConfig(strings.NewReader("dataDir=/d\nforceSync=no\nenforceQuota=true\n"))
	require.Error(t, err)
	var out strings.Builder
	printConfig(&out, c)
	require.NotContains(t, out.String(), "forceSync")
	require.Contains(t, out.String(), "used     enforceQuota=true\n")
}
