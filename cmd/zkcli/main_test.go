package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

func TestParseArgs(t *testing.T) {
	f := func(args string, want config) {
		t.Helper()
		got, err := parseArgs(strings.Fields(args))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	def := config{server: "127.0.0.1:2181", timeout: 30 * time.Second, command: []string{}}
	with := func(change func(*config)) config { c := def; change(&c); return c }
	f("", def)
	f("--server a:1,b:2/x --timeout 5s", with(func(c *config) { c.server, c.timeout = "a:1,b:2/x", 5*time.Second }))
	f("-server a:1 -timeout 5000 -r -waitforconnection ls /", with(func(c *config) {
		c.server, c.timeout, c.readOnly, c.command = "a:1", 5*time.Second, true, []string{"ls", "/"}
	}))
	f("--output json get -s /a", with(func(c *config) { c.json, c.command = true, []string{"get", "-s", "/a"} }))
	f("--output=text create /a -server", with(func(c *config) { c.command = []string{"create", "/a", "-server"} }))
	for _, bad := range []string{"--nope", "-nope", "--timeout x", "--timeout 0", "--timeout -5s", "--output xml", "-server"} {
		_, err := parseArgs(strings.Fields(bad))
		require.Error(t, err, bad)
	}
}

func TestSplit(t *testing.T) {
	f := func(line string, want ...string) {
		t.Helper()
		got, err := split(line)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f("")
	f(" \t ")
	f("ls /", "ls", "/")
	f("  create  /a  'x y' ", "create", "/a", "x y")
	f(`set "/a b" "it's" ""`, "set", "/a b", "it's", "")
	f(`set /a say"hi"`, "set", "/a", `say"hi"`)
	for _, bad := range []string{`"`, `a 'b`, `'a"`} {
		_, err := split(bad)
		require.Error(t, err)
	}
}

// listen serves f on a loopback port until the test ends.
func listen(t *testing.T, f *fake) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			if f.isAway() {
				nc.Close()
				continue
			}
			conns.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		conns.Wait()
	})
	return ln.Addr().String()
}

func TestOneShot(t *testing.T) {
	addr := listen(t, newFake())
	f := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"-server", addr}, args...), nil, &out, &errs)
		require.Equal(t, stdout, out.String())
		require.Contains(t, errs.String(), stderr)
		require.Equal(t, code, got)
	}
	banner := "Connecting to " + addr + "\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
	f(exitOK, "", banner+"Created /a\n", "create", "/a", "two words")
	f(exitOK, "two words\n", banner, "get", "/a")
	f(exitOK, "", "", "quit")
	f(exitFailed, "", "Node does not exist: /x", "get", "/x")
	f(exitUsage, "", "get [-s] [-w] [-b] [-x] path", "get")
	f(exitUsage, "", "Command not found: Command not found bogus", "bogus", "x")
	f(exitUsage, "", "neither text nor json", "--output", "yaml")
	f(exitUsage, "", "bad arguments", "--server", "host:nope", "ls", "/")
	f(exitUsage, "", "jute-maxbuffer -1 is not positive", "--jute-maxbuffer", "-1", "ls", "/")
	f(exitUsage, "", "jute-maxbuffer 0 is not positive", "--jute-maxbuffer", "0", "ls", "/")
	f(exitUsage, "", "Command not found: Command not found bogus", "help", "bogus")
	f(exitOK, longHelp(), "", "--help")
	f(exitOK, `{"children":["a","zookeeper"],"command":"ls","path":"/","stat":`+jsonRoot+"}\n", "", "--output", "json", "ls", "/")
}

const jsonRoot = `{"aclVersion":0,"cZxid":"0x0","ctime":"2020-01-01T00:00:00Z","cversion":1,"dataLength":0,"dataVersion":0,` +
	`"ephemeralOwner":"0x0","mZxid":"0x0","mtime":"2020-01-01T00:00:00Z","numChildren":2,"pZxid":"0x1"}`

func TestPipedCommands(t *testing.T) {
	addr := listen(t, newFake())
	f := func(code int, in, stdout string) {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, code, run(t.Context(), []string{"--server", addr}, strings.NewReader(in), &out, &errs), errs.String())
		require.Equal(t, stdout, out.String())
	}
	f(exitOK, "", "")
	f(exitOK, "create /a x\n\n get /a\r\nls /", "x\n[a, zookeeper]\n")
	f(exitFailed, "get /nope\nget /a\n", "x\n")
	f(exitUsage, "get\nget /a\n", "x\n")
	f(exitOK, "quit\nget /a\n", "")
}

func TestNoServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	ln.Close()
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-server", addr, "-timeout", "100", "ls", "/"}, nil, &out, &errs))
	require.Contains(t, errs.String(), "no server gave a session: "+addr+": dial tcp "+addr)
	require.Empty(t, out.String())
}

// A server without a majority takes connections and closes them after the handshake.
func TestAServerThatServesNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096)) // what is not read would make the close a reset
			c.Close()
		}
	}()
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-server", ln.Addr().String(), "-timeout", "300", "ls", "/"}, nil, &out, &errs))
	ln.Close()
	<-done
	require.Contains(t, errs.String(), "serves nobody now")
	require.NotContains(t, errs.String(), "Does a server run there?")
}

// The help and the usage of a command are shown at once, server or not.
func TestHelpNeedsNoServer(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"export", "--help"}, exitOK, findCommand("export").explain(), ""},
		{[]string{"export", "-a", "/"}, exitUsage, "", "Unrecognized option: -a\nexport path [file]\n"},
		{[]string{"get"}, exitUsage, "", "get [-s] [-w] [-b] [-x] path\n"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"--server", "192.0.2.1:2181"}, c.args...)
		require.Equal(t, c.code, run(t.Context(), args, nil, &out, &errs), c.args)
		require.Equal(t, c.stdout, out.String())
		require.Equal(t, c.stderr, errs.String())
	}
}

// bubble opens a shell on a fake in virtual time; what it prints goes into one buffer.
func bubble(t *testing.T, test func(t *testing.T, f *fake, sh *shell, out *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var out bytes.Buffer
		cfg := config{server: "fake", timeout: 30 * time.Second, dial: f.dial}
		sh := newShell(t.Context(), cfg, strings.NewReader(""), &out, &out)
		require.NoError(t, sh.open(cfg.server))
		out.Reset()
		test(t, f, sh, &out)
		sh.close()
	})
}

func TestCommandDoesNotWaitForeverForALostServer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, sh *shell, out *bytes.Buffer) {
		require.Contains(t, sh.prompt(0), "(CONNECTED) 0] ")
		f.leave()
		synctest.Wait()
		require.Contains(t, sh.prompt(0), "(CONNECTING) 0] ")
		begin := time.Now()
		require.Equal(t, exitFailed, sh.line("set /a x"))
		require.Equal(t, 30*time.Second, time.Since(begin))
		require.Equal(t, "\nWATCHER::\n\nWatchedEvent state:Disconnected type:None path:null\n"+
			"KeeperErrorCode = ConnectionLoss for /a\n", out.String())
	})
}

func TestInterruptedCommand(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, sh *shell, out *bytes.Buffer) {
		f.leave()
		synctest.Wait()
		out.Reset()
		ctx, cancel := context.WithCancel(sh.ctx)
		sh.ctx = ctx
		time.AfterFunc(time.Second, cancel)
		require.Equal(t, exitFailed, sh.line("get /a"))
		require.Equal(t, "interrupted\n", out.String())
	})
}

func TestEventAsJSON(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake, sh *shell, out *bytes.Buffer) {
		sh.json = true
		sh.line("get -w /zookeeper")
		out.Reset()
		sh.line("set -v 9 /zookeeper x")
		synctest.Wait()
		require.NotContains(t, out.String(), "event")
		sh.line("set /zookeeper x")
		synctest.Wait()
		require.Contains(t, strings.Split(out.String(), "\n"), `{"event":"NodeDataChanged","path":"/zookeeper","zxid":"0x2"}`)
	})
}

func TestBinaryDataAsJSON(t *testing.T) {
	var res result
	res.field("data", []byte{0xFF, 0})
	require.Equal(t, `{"dataBase64":"/wA="}`+"\n", jsonLine(res.fields))
}

// What goroutines print while a line is edited has to go through the terminal, which draws the line again.
func TestScreenGivesWayToTheLineBeingEdited(t *testing.T) {
	var out, edited bytes.Buffer
	s := &screen{out: &out, err: &out}
	s.stdout("a\n")
	s.edit(term.NewTerminal(&edited, "> "), nil)
	s.stdout("b\n")
	s.stderr("c\n")
	s.edit(nil, nil)
	s.stderr("d\n")
	require.Equal(t, "a\nd\n", out.String())
	require.Equal(t, "b\r\nc\r\n", edited.String())
}

func TestCommandsThatAreGone(t *testing.T) {
	require.EqualError(t, checkCommand("rmr"), "Command not found: Command not found rmr\nIt left zkCli.sh with version 3.6; deleteall is what it did.")
	require.EqualError(t, checkCommand("frob"), "Command not found: Command not found frob")
	for _, instead := range gone {
		name, _, _ := strings.Cut(instead, " ")
		require.NoError(t, checkCommand(name))
	}
}

func TestManyFaultsAreToldOnceAndBriefly(t *testing.T) {
	var errs []error
	for i := range 500 {
		errs = append(errs, &client.OpError{Op: proto.OpCreate, Path: fmt.Sprint("/", i), Err: context.Canceled, MaybeApplied: true})
	}
	require.Equal(t, "interrupted\nIt may have been carried out nevertheless.", errorText(errors.Join(errs...)))
	for i := range 20 {
		errs = append(errs, &client.OpError{Op: proto.OpCreate, Path: fmt.Sprint("/", i), Err: client.ErrNoNode})
	}
	text := errorText(partly(errors.Join(errs...), "were written", 3, 2000))
	require.Contains(t, text, "Node does not exist: /0\n")
	require.Contains(t, text, "\n… and 11 more like these")
	require.Contains(t, text, "\n3 of 2000 nodes were written before that.")
	require.LessOrEqual(t, strings.Count(text, "\n"), 13)
}

func TestUncertainWriteSaysSo(t *testing.T) {
	err := &client.OpError{Path: "/a", Err: client.ErrConnectionLoss, MaybeApplied: true}
	require.Equal(t, "KeeperErrorCode = ConnectionLoss for /a\nIt may have been carried out nevertheless.", errorText(err))
}

func TestHistoryForgetsOldLinesButKeepsTheirNumbers(t *testing.T) {
	sh := newShell(t.Context(), config{}, nil, new(bytes.Buffer), new(bytes.Buffer))
	for range maxPast + 5 {
		sh.line("bogus")
	}
	require.Equal(t, maxPast+5, sh.past.count())
	require.Empty(t, sh.past.lines[4])
	require.Equal(t, "bogus", sh.past.lines[5])
}

func TestClientConfiguration(t *testing.T) {
	f := func(text string, want config) {
		t.Helper()
		file := t.TempDir() + "/client.properties"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := parseArgs([]string{"-client-configuration", file, "--tls-ca", "mine.pem", "ls", "/"})
		if want.ca == "" {
			require.ErrorContains(t, err, "Java key store")
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, config{secure: got.secure, ca: got.ca, cert: got.cert, key: got.key})
	}
	f("# nothing\n", config{ca: "mine.pem"})
	f("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/t.pem\nzookeeper.ssl.keyStore.location = /k.pem\n",
		config{secure: true, ca: "mine.pem", cert: "/k.pem", key: "/k.pem"})
	f("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/t.jks\n", config{})
	_, err := parseArgs([]string{"-client-configuration", "/does/not/exist"})
	require.Error(t, err)
}

func TestShellsShareTheHistory(t *testing.T) {
	file := t.TempDir() + "/history"
	one, other := loadHistory(file), loadHistory(file)
	one.read()
	other.read()
	one.add("ls /")
	one.add("addauth digest a:secret")
	require.NoError(t, one.write())
	other.add("get /a")
	require.NoError(t, other.write())
	third := loadHistory(file)
	third.read()
	require.Equal(t, []string{"ls /", "get /a"}, third.earlier)
	require.Equal(t, "get /a", third.At(0))
	found, ok := third.search("/", 1)
	require.True(t, ok)
	require.Equal(t, "ls /", found)
	_, ok = third.search("/", 2)
	require.False(t, ok)
	require.NoError(t, loadHistory("").write())
	require.Error(t, loadHistory("/does/not/exist").write())
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWhatStandardOutputDoesNotTakeIsAFailure(t *testing.T) {
	f := newFake()
	addr := listen(t, f)
	for _, args := range [][]string{{"get", "/"}, {"ls", "/"}, {"export", "/"}, {"--output", "json", "stat", "/"}, {"help"}, {"--help"}} {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), append([]string{"-server", addr}, args...), nil, full{}, &errs), args)
		require.Contains(t, errs.String(), "no space left", args)
	}
	var errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-server", addr}, strings.NewReader("ls /\ncreate /late x\n"), full{}, &errs))
	require.Contains(t, errs.String(), "Created /late", "a write is done all the same")
	require.Equal(t, exitOK, run(t.Context(), []string{"-server", addr, "delete", "/late"}, nil, full{}, io.Discard), "nothing to write")
}
