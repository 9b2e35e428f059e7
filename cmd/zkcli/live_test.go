package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// servers returns the connect string of real servers: those of ZKD_LIVE_SERVERS, or an ensemble of three that runs as long
// as the tests.
var servers = sync.OnceValues(func() (string, error) {
	if s := os.Getenv("ZKD_LIVE_SERVERS"); s != "" {
		return s, nil
	}
	return startEnsemble()
})

// stopEnsemble ends it; TestMain calls it.
var stopEnsemble = func() {}

func startEnsemble() (string, error) {
	dir, err := os.MkdirTemp("", "zkcli-live-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "zkd")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../zkd") // golden text shows the version
	build.Dir = sourceDir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build zkd: %w\n%s", err, out)
	}
	for range 10 { // the ports may be taken meanwhile
		port, err := threePorts()
		if err != nil {
			return "", err
		}
		cmd := exec.Command(bin, "dev", "--client-port", fmt.Sprint(port), "--data-dir", filepath.Join(dir, fmt.Sprint(port)), "--tick", "500ms")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return "", err
		}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil {
			stopEnsemble = func() {
				cmd.Process.Kill()
				cmd.Wait()
				os.RemoveAll(dir)
			}
			return strings.TrimSpace(line), nil
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	return "", fmt.Errorf("zkd dev does not start")
}

// threePorts finds three free ports in a row.
func threePorts() (int, error) {
	for range 100 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := ln.Addr().(*net.TCPAddr).Port
		ln.Close()
		free := port+2 < 65536
		for i := 1; free && i < 3; i++ {
			next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
			if free = err == nil; free {
				next.Close()
			}
		}
		if free {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no three free ports in a row")
}

func liveServers(t *testing.T) string {
	t.Helper()
	s, err := servers()
	require.NoError(t, err)
	return s
}

// testPatience bounds how long a shell waits for a server.
const testPatience = 10 * time.Second

// chroot makes a node for one test and returns a connect string with it that names one server, so that each command sees
// what the one before did.
func chroot(t *testing.T) string {
	t.Helper()
	root := fmt.Sprintf("/zkcli-%s-%x", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
	first, _, _ := strings.Cut(liveServers(t), ",")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-server", first, "create", root}, nil, &out, &errs), errs.String())
	return first + root
}

// zkcli runs one command and returns what it prints.
func zkcli(t *testing.T, server, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"-server", server}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// What differs from run to run.
var varying = []struct{ from, to string }{
	{`(?m)(zxid|Zxid|ephemeralOwner)( = |":")0x[0-9a-f]{3,}`, `$1${2}0xN`},
	{`(?m)(cZxid|mZxid|pZxid)( = |":")0x[0-9a-f]+`, `$1${2}0xN`},
	{`(?m)(ctime|mtime) = .*20\d\d$`, `$1 = DATE`},
	{`"(ctime|mtime|time)":"[^"]*"`, `"$1":"DATE"`},
	{`ephemeral of 0x[0-9a-f]+`, `ephemeral of 0xN`},
	{`(?m)^(\d\d:\d\d:\d\d\.\d\d\d)`, `HH:MM:SS.mmm`},
	{`/tmp/[A-Za-z0-9/_.-]*zkcli-[0-9]+`, `TEMPFILE`},
}

func steady(text string) string {
	for _, v := range varying {
		text = regexp.MustCompile(v.from).ReplaceAllString(text, v.to)
	}
	return text
}

// The sessions in testdata/live are those that real servers give, zkd's and Apache's alike. A line that begins with "= "
// sets the standard input of the next command.
func TestLiveGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/live/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			if minor, ok := strings.CutPrefix(firstLine(want), "# needs 3."); ok {
				n, err := strconv.Atoi(minor)
				require.NoError(t, err)
				needs(t, n)
			}
			t.Chdir(t.TempDir())
			here := liveServers(t)
			if !strings.Contains(name, "rootless") {
				here = chroot(t)
			}
			got := steady(replayLive(t, here, string(want), strings.Contains(name, "json")))
			if *rewrite {
				require.NoError(t, os.WriteFile(filepath.Join(sourceDir, name), []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// needs skips a test of what came with ZooKeeper 3.minor if the servers are older.
func needs(t *testing.T, minor int) {
	t.Helper()
	first, _, _ := strings.Cut(liveServers(t), ",")
	answer, err := fourLetters(t.Context(), new(config).dialer(), first, "srvr")
	require.NoError(t, err)
	if version := parseWords(answer, ": ")["Zookeeper version"]; minorVersion(version) < minor {
		t.Skipf("ZooKeeper %s: needs 3.%d", version, minor)
	}
}

var sourceDir = func() string { dir, _ := os.Getwd(); return dir }()

func replayLive(t *testing.T, server, script string, json bool) string {
	var out, errs, all bytes.Buffer
	cfg := config{server: server, timeout: 10 * time.Second, json: json}
	stdin := new(bytes.Buffer)
	sh := newShell(t.Context(), cfg, stdin, tagged{&out, ""}, tagged{&errs, "2| "})
	require.NoError(t, sh.open(cfg.server))
	defer sh.close()
	skipping := false
	for line := range strings.Lines(script) {
		cmd, isCommand := strings.CutPrefix(line, "> ")
		input, isInput := strings.CutPrefix(line, "= ")
		switch {
		case strings.HasPrefix(line, "# "):
			all.WriteString(line)
		case isInput:
			skipping = true
			stdin.WriteString(input)
			all.WriteString(line)
		case isCommand:
			skipping = true
			out.Reset()
			errs.Reset()
			code := sh.line(strings.TrimSuffix(cmd, "\n"))
			fmt.Fprintf(&all, "> %s%s%s", cmd, out.String(), errs.String())
			if code != 0 {
				fmt.Fprintf(&all, "exit %d\n", code)
			}
		case !skipping:
			all.WriteString(line)
		}
	}
	return strings.ReplaceAll(all.String(), server, "SERVERS")
}

// secureFront puts TLS before the first server and returns its own address and a file with the certificate.
func secureFront(t *testing.T) (addr, ca string) {
	t.Helper()
	first, _, _ := strings.Cut(liveServers(t), ",")
	certified := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	certified.Close()
	ca = filepath.Join(t.TempDir(), "ca.pem")
	pemBytes := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, pemBytes, 0o600))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates})
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			outer, err := ln.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", first)
			if err != nil {
				outer.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{inner, outer}, {outer, inner}} {
				go func() {
					io.Copy(ends[0], ends[1])
					inner.Close()
					outer.Close()
				}()
			}
		}
	}()
	return ln.Addr().String(), ca
}

func TestTLS(t *testing.T) {
	addr, ca := secureFront(t)
	code, out, errs := zkcli(t, addr, "", "--tls-ca", ca, "ls", "/zookeeper")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "quota")
	code, out, errs = zkcli(t, addr, "", "--tls-ca", ca, "status")
	require.Equal(t, exitOK, code, errs)
	require.Regexp(t, "leader|follower|standalone", out)
	code, out, errs = zkcli(t, addr, "status\nls /\n", "--tls-ca", ca)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, addr)
	code, _, errs = zkcli(t, addr, "", "--timeout", "100", "--tls-ca", os.Args[0], "ls", "/")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "holds no certificate")
}

func TestBench(t *testing.T) {
	server := liveServers(t)
	code, out, errs := zkcli(t, server, "", "bench", "get", "--conns", "1", "--keys", "2", "--count", "20")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "get")
	code, out, errs = zkcli(t, server, "", "--output", "json", "bench", "get", "--conns", "1", "--keys", "2", "--count", "20", "--quiet")
	require.Equal(t, exitOK, code, errs)
	require.True(t, json.Valid([]byte(out)), out)
	code, out, _ = zkcli(t, server, "", "bench", "sideways")
	require.Equal(t, exitUsage, code)
	require.Empty(t, out)
	code, _, errs = zkcli(t, server, "", "bench", "--help")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "-write-ratio")

	// Below a chroot, and nowhere else.
	short := []string{"bench", "set", "--conns", "1", "--keys", "2", "--count", "20", "--quiet"}
	inside := chroot(t)
	code, _, errs = zkcli(t, inside, "", append(short, "--keep", "--root", "/kept")...)
	require.Equal(t, exitOK, code, errs)
	code, out, errs = zkcli(t, inside, "", "ls", "/kept")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, "[k00000000, k00000001]\n", out)
	code, _, errs = zkcli(t, inside, "", short...)
	require.Equal(t, exitOK, code, errs)
	code, out, errs = zkcli(t, inside, "", "ls", "/")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, "[kept]\n", out, "what bench made is gone")
	code, _, errs = zkcli(t, inside+"/none", "", short...)
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `/none/zkbench-[0-9a-f]+: node does not exist`, errs)

	addr, ca := secureFront(t)
	code, out, errs = zkcli(t, addr, "", append([]string{"--tls-ca", ca}, short...)...)
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, "set")
	code, _, errs = zkcli(t, addr, "", append([]string{"--tls-ca", os.Args[0]}, short...)...)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "holds no certificate")
}

func TestMinorVersion(t *testing.T) {
	for version, want := range map[string]int{
		"3.5.10-a32c7183d42325b03e44a06aade6a0f16955bf13, built on 05/29/2022 16:59 GMT": 5, "3.9.5": 9,
		"": newest, "zkd 0.1": newest, "3.x": newest, "4.1.2": newest,
	} {
		require.Equal(t, want, minorVersion(version), version)
	}
}

func TestBinarySafe(t *testing.T) {
	server := chroot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "in")
	data := []byte{0, 1, 255, '\n', 0}
	require.NoError(t, os.WriteFile(file, data, 0o600))
	f := func(stdin, stdout string, args ...string) {
		t.Helper()
		code, out, errs := zkcli(t, server, stdin, args...)
		require.Equal(t, exitOK, code, errs)
		require.Equal(t, stdout, out)
	}
	f("", "", "create", "--file", file, "/a")
	f("", string(data), "get", "--raw", "/a")
	f("", "AAH/CgA=\n", "get", "-b", "/a")
	f(string(data), "", "set", "--file", "-", "/a")
	f("", "", "get", "--out", filepath.Join(dir, "out"), "/a")
	got, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(t, err)
	require.Equal(t, data, got)
	f("", "", "set", "-b", "/a", "AAA=")
	f("", "\x00\x00", "get", "--raw", "/a")
}

func TestStatusAndTop(t *testing.T) {
	server := liveServers(t)
	n := strings.Count(server, ",") + 1
	code, out, errs := zkcli(t, server, "", "status")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, n+1, strings.Count(out, "\n"), out)
	require.Regexp(t, "leader|standalone", out)
	code, out, _ = zkcli(t, server+",127.0.0.1:1", "", "--output", "json", "status")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, `"server":"127.0.0.1:1"`)
	code, out, errs = zkcli(t, server, "", "top", "-n", "2", "--interval", "50ms")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, 2, strings.Count(out, "REQ/s"))
	code, out, errs = zkcli(t, server, "", "--output", "json", "top", "-n", "1", "--interval", "50ms")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, out, `"requestsPerSecond":`)
	session, n, ok := parseSession(" /127.0.0.1:4711[1](queued=0,recved=12,sent=12,sid=0x1000,lop=PING)\n")
	require.True(t, ok)
	require.Equal(t, "0x1000 from 127.0.0.1:4711", session)
	require.Equal(t, 12, n)
}

// watch, wait and Ctrl-C: a second shell makes the changes.
func TestWatchAndWait(t *testing.T) {
	server := chroot(t)
	type outcome struct {
		code int
		out  string
	}
	start := func(args ...string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"-server", server}, args...), nil, &out, &errs)
			done <- outcome{code, out.String() + errs.String()}
		}()
		return done
	}
	sh := newShell(t.Context(), config{server: server, timeout: 10 * time.Second}, nil, new(bytes.Buffer), new(bytes.Buffer))
	require.NoError(t, sh.open(server))
	defer sh.close()
	exists, value := start("wait", "/a"), start("wait", "--value", "ready", "/a")
	children, gone := start("wait", "--children", "2", "/b"), start("wait", "/c", "gone", "--timeout", "60s")
	for _, line := range []string{"create /c", "create /a", "set /a ready", "create /b", "create /b/1", "create /b/2", "delete /c"} {
		require.Equal(t, exitOK, sh.line(line), line)
	}
	for _, w := range []<-chan outcome{exists, value, children, gone} {
		got := <-w
		require.Equal(t, exitOK, got.code, got.out)
	}
	got := <-start("wait", "/never", "--timeout", "50ms")
	require.Equal(t, exitNo, got.code)
	require.Contains(t, got.out, "not within 50ms")
	needs(t, knowsSubtrees)
	got = <-start("watch", "/", "--timeout", "50ms")
	require.Equal(t, exitNo, got.code)
}

func TestCompletion(t *testing.T) {
	server := chroot(t)
	for _, line := range []string{"/apple", "/apricot", "/apricot/x", "/bean"} {
		code, _, errs := zkcli(t, server, "", "create", line)
		require.Equal(t, exitOK, code, errs)
	}
	f := func(want string, words ...string) {
		t.Helper()
		code, out, errs := zkcli(t, server, "", append([]string{"--complete", "--"}, words...)...)
		require.Equal(t, exitOK, code, errs)
		require.Equal(t, want, out)
	}
	f("get\ngetAcl\ngetAllChildrenNumber\ngetEphemerals\n", "get")
	f("/apple\n/apricot\n", "ls", "/ap")
	f("/apple\n/apricot\n", "ls", "-s", "/ap")
	f("/bean\n", "set", "-v", "3", "/b")
	f("", "set", "-v", "")
	f("", "set", "/bean", "/b")
	f("-R\n-s\n-v\n", "setAcl", "-")
	f("/\n", "get", "")
	f("bash\nfish\nzsh\n", "completion", "")
	f("PERSISTENT\nPERSISTENT_RECURSIVE\n", "watch", "-m", "P")
	for shell := range scripts {
		code, out, _ := zkcli(t, "", "", "completion", shell)
		require.Equal(t, exitOK, code)
		require.Contains(t, out, "--complete --")
	}
}

// The scripts do in a real shell what they should.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(dir, "zkcli")
	require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\necho \"$*\"\n"), 0o700))
	for _, c := range []struct{ shell, before, after string }{
		{"bash", "", `
COMP_LINE='zkcli --server h:1 --tls-ca f get -s /a'; COMP_POINT=${#COMP_LINE}
_zkcli
echo "${COMPREPLY[0]}"`},
		{"zsh", `
compdef() { }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- "$@"; }
`, `
words=(zkcli --server h:1 --tls-ca f get -s /a) CURRENT=8
_zkcli`},
		{"fish", "", `
complete -C 'zkcli --server h:1 --tls-ca f get -s /a'`},
	} {
		t.Run(c.shell, func(t *testing.T) {
			shell, err := exec.LookPath(c.shell)
			if err != nil {
				t.Skip("not installed")
			}
			cmd := exec.CommandContext(t.Context(), shell, "-c", c.before+script(c.shell)+c.after)
			cmd.Env = append(os.Environ(), "HOME="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, "--server h:1 --tls-ca f --complete -- get -s /a\n", string(out))
		})
	}
}

func TestProgressLine(t *testing.T) {
	require.Equal(t, "copied 1200 of 5000, 24%, 400/s, 10s left", progressLine("copied", 1200, 5000, 3*time.Second))
	require.Equal(t, "read 500, 250/s", progressLine("read", 500, 0, 2*time.Second))
}

// afterBanner is what a command says on standard error after the session was opened.
func afterBanner(errs string) string {
	_, rest, _ := strings.Cut(errs, "path:null\n")
	return rest
}

// A chroot that is not there yet is made like any node.
func TestChrootIsMade(t *testing.T) {
	inside := chroot(t) + "/app"
	code, _, errs := zkcli(t, inside, "", "ls", "/")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "The chroot itself does not exist; create -p / makes it.\n")
	code, _, errs = zkcli(t, inside, "", "create", "-p", "/")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "Created /\n")
	code, out, errs := zkcli(t, inside, "", "ls", "/")
	require.Equal(t, exitOK, code, errs)
	require.Equal(t, "[]\n", out)
}

// Without a terminal there is no editor to wait for, unless one is named.
func TestEditNeedsATerminalOrAnEditor(t *testing.T) {
	t.Setenv("EDITOR", "")
	t.Setenv("VISUAL", "")
	code, _, errs := zkcli(t, chroot(t), "", "edit", "/")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "$EDITOR names another editor")
}

// The longest request is the servers' business as soon as the user says so.
func TestLongestRequest(t *testing.T) {
	server := chroot(t)
	big := strings.Repeat("x", 100)
	code, _, errs := zkcli(t, server, big, "--jute-maxbuffer", "120", "create", "--file", "-", "/big")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "limit 120\n")
	require.Contains(t, errs, "--jute-maxbuffer")
	code, _, errs = zkcli(t, server, big, "--jute-maxbuffer", "1000", "create", "--file", "-", "/big")
	require.Equal(t, exitOK, code, errs)
}

// A path may be on other servers.
func TestCopyAndDiffBetweenServers(t *testing.T) {
	server := chroot(t)
	servers, root, _ := strings.Cut(server, "/")
	f := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := zkcli(t, server, "", args...)
		require.Equal(t, want, code, errs)
		return out
	}
	f(exitOK, "create", "-p", "/a/b", "x")
	f(exitOK, "cp", "/a", servers+"/"+root+"/copy")
	f(exitOK, "diff", servers+"/"+root+"/copy", "/a")
	f(exitOK, "set", "/copy/b", "y")
	require.Equal(t, "~ /b  data \"y\" → \"x\"\n", f(exitNo, "diff", servers+"/"+root+"/copy", "/a"))
	export := filepath.Join(t.TempDir(), "a.json")
	f(exitOK, "export", "/a", export)
	f(exitOK, "diff", "file:"+export, "/a")
	code, _, errs := zkcli(t, server, "", "diff", export, "/a")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "For the file of that name: file:"+export+"\n")
	code, _, errs = zkcli(t, server, "", "cp", servers+"/"+root+"/none", "/b")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "Node does not exist: /"+root+"/none on "+servers+"\n", afterBanner(errs), "and nothing about the nodes of ours")
	code, _, errs = zkcli(t, server, "", "cp", "/a", servers+"/"+root+"/no/b")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "Node does not exist: /"+root+"/no/b on "+servers+"\ncp -p makes the missing nodes above it.\n", afterBanner(errs))
	code, _, errs = zkcli(t, server, "", "-timeout", "200", "cp", "127.0.0.1:1/a", "/b")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "127.0.0.1:1")
}

// Each address has a line with its reason.
func TestNoServerOfManyTellsEach(t *testing.T) {
	code, _, errs := zkcli(t, "127.0.0.1:1,127.0.0.1:2", "", "-timeout", "200", "ls", "/")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "no server gave a session\n")
	require.Regexp(t, `(?m)^  127\.0\.0\.1:1 +dial tcp `, errs)
	require.Regexp(t, `(?m)^  127\.0\.0\.1:2 +dial tcp `, errs)
}

// A big subtree goes in several transactions and pipelined.
func TestBigSubtrees(t *testing.T) {
	server := chroot(t)
	var lines strings.Builder
	fmt.Fprintf(&lines, `{"format":"zkcli-export-1","root":"/","nodes":%d}`+"\n"+`{"path":"/"}`+"\n", 1501)
	for i := range 1500 {
		fmt.Fprintf(&lines, `{"path":"/n%04d","data":"%d"}`+"\n", i, i)
	}
	f := func(stdin string, args ...string) string {
		t.Helper()
		code, out, errs := zkcli(t, server, stdin, args...)
		require.Equal(t, exitOK, code, errs)
		return out
	}
	f(lines.String(), "import", "/big")
	f("", "mv", "/big", "/moved")
	require.Equal(t, "1500\n", f("", "getAllChildrenNumber", "/moved"))
	require.Equal(t, "1499\n", f("", "get", "/moved/n1499"))
	f("", "deleteall", "/moved")
	require.Equal(t, "[]\n", f("", "ls", "/"))
}
