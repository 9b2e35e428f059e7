package live

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client/recipes/barrier"
	"github.com/zkd-project/zkd/pkg/client/recipes/counter"
	"github.com/zkd-project/zkd/pkg/client/recipes/election"
	"github.com/zkd-project/zkd/pkg/client/recipes/lock"
	"github.com/zkd-project/zkd/pkg/client/recipes/queue"
)

// foreignCache is where test/foreign/install.sh puts other people's clients.
func foreignCache() string {
	if cache := os.Getenv("ZKD_FOREIGN_CACHE"); cache != "" {
		return cache
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "zkd-foreign")
}

// python is an interpreter that has kazoo, "" if there is none: that of ZKD_KAZOO_PYTHON, or of the virtual environment that
// test/foreign/install.sh makes.
func python() string {
	for _, bin := range []string{os.Getenv("ZKD_KAZOO_PYTHON"), filepath.Join(foreignCache(), "venv/bin/python")} {
		if bin != "" && exec.Command(bin, "-c", "import kazoo").Run() == nil {
			return bin
		}
	}
	return ""
}

// other carries out lines of Python with a kazoo client in c and prints what each is worth.
const other = `
import sys
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock
from kazoo.recipe.queue import Queue
from kazoo.recipe.counter import Counter
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.election import Election
c = KazooClient(hosts=sys.argv[1])
c.start(30)
print("ready", flush=True)
names = {**globals()}
for line in sys.stdin:
    name, _, code = line.strip().partition(" := ")
    if not code:
        name, code = "_", name
    names[name] = eval(code, names)
    print(repr(names[name]), flush=True)
c.stop()
`

// peer is a client of another language that carries out one line at a time.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func startKazoo(ctx context.Context, t *testing.T, server string) *peer {
	bin := python()
	if bin == "" {
		t.Skip("no Python with kazoo here")
	}
	cmd := exec.CommandContext(ctx, bin, "-c", other, server)
	cmd.Stderr = os.Stderr
	return startPeer(t, cmd)
}

func startCurator(ctx context.Context, t *testing.T, server string) *peer {
	jars := filepath.Join(foreignCache(), "java")
	if found, _ := filepath.Glob(filepath.Join(jars, "curator-recipes-*.jar")); len(found) == 0 {
		t.Skip("no Curator here")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("no Java here")
	}
	return startPeer(t, exec.CommandContext(ctx, "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", jars+"/*", "testdata/Together.java", server))
}

func startPeer(t *testing.T, cmd *exec.Cmd) *peer {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	k := &peer{t, in, bufio.NewReader(out)}
	require.Equal(t, "ready", k.line())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return k
}

func (k *peer) line() string {
	k.t.Helper()
	s, err := k.out.ReadString('\n')
	require.NoError(k.t, err)
	return strings.TrimSuffix(s, "\n")
}

func (k *peer) start(code string) {
	k.t.Helper()
	_, err := io.WriteString(k.in, code+"\n")
	require.NoError(k.t, err)
}

// is wants code to be worth want.
func (k *peer) is(want, code string) {
	k.t.Helper()
	k.start(code)
	require.Equal(k.t, want, k.line(), code)
}

func (k *peer) do(code string) {
	k.t.Helper()
	k.start(code)
	k.line()
}

// A Go lock and a kazoo lock exclude each other, and so on through the recipes that both have.
func TestTogetherWithKazoo(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	k := startKazoo(ctx, t, servers()+root(t))

	held, err := lock.New(c, "/lock").Acquire(ctx)
	require.NoError(t, err)
	k.do(`lock := Lock(c, "/lock", "kazoo")`)
	k.is("False", `lock.acquire(blocking=False)`)
	k.start(`lock.acquire(timeout=30)`)
	require.Eventually(t, func() bool {
		who, err := lock.New(c, "/lock").Contenders(ctx)
		return err == nil && len(who) == 2
	}, patience, time.Millisecond)
	require.NoError(t, held.Release(ctx))
	require.Equal(t, "True", k.line())
	require.NoError(t, c.Sync(ctx, "/"))
	_, err = lock.New(c, "/lock").TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	k.do(`lock.release()`)
	held, err = lock.New(c, "/lock").Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release(ctx))

	read, write := lock.NewReadWrite(c, "/rw")
	k.do(`reader := ReadLock(c, "/rw", "r")`)
	k.do(`writer := WriteLock(c, "/rw", "w")`)
	k.is("True", `reader.acquire(timeout=30)`)
	held, err = read.Acquire(ctx)
	require.NoError(t, err, "readers of both share")
	k.is("False", `writer.acquire(blocking=False)`)
	k.do(`reader.release()`)
	require.NoError(t, held.Release(ctx))
	held, err = write.Acquire(ctx)
	require.NoError(t, err)
	k.is("False", `reader.acquire(blocking=False)`)
	require.NoError(t, held.Release(ctx))

	k.do(`Queue(c, "/queue").put(b"from kazoo", 5)`)
	q := queue.New(c, "/queue")
	item, err := q.Take(ctx)
	require.NoError(t, err)
	require.Equal(t, "from kazoo", string(item))
	require.NoError(t, q.Put(ctx, []byte("from Go")))
	k.do(`c.sync("/")`)
	k.is("b'from Go'", `Queue(c, "/queue").get()`)

	k.do(`n := Counter(c, "/counter")`)
	k.do(`n + 5`)
	v, err := counter.New(c, "/counter").Add(ctx, 2)
	require.NoError(t, err)
	require.EqualValues(t, 7, v)
	k.do(`c.sync("/")`)
	k.is("7", `n.value`)

	k.do(`Barrier(c, "/barrier").create()`)
	passed := make(chan error, 1)
	go func() { passed <- barrier.New(c, "/barrier").Wait(ctx) }()
	k.do(`Barrier(c, "/barrier").remove()`)
	require.NoError(t, <-passed)

	d := barrier.NewDouble(c, "/double", 2)
	k.do(`d := DoubleBarrier(c, "/double", 2, "kazoo")`)
	k.start(`d.enter()`)
	require.NoError(t, d.Enter(ctx))
	k.line()
	k.start(`d.leave()`)
	require.NoError(t, d.Leave(ctx))
	k.line()

	term, err := election.New(c, "/election").Campaign(ctx, "go")
	require.NoError(t, err)
	k.do(`c.sync("/")`)
	k.is("['go']", `Election(c, "/election", "kazoo").contenders()`)
	require.NoError(t, term.Resign(ctx))
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// With Curator's names a lock also excludes that of go-zookeeper, which has the same.
func TestTogetherWithGoZookeeper(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	conn, _, err := zk.Connect(strings.Split(servers(), ","), 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	theirs := zk.NewLock(conn, root(t)+"/lock", zk.WorldACL(zk.PermAll))
	ours := lock.New(c, "/lock", lock.WithCurator())
	held, err := ours.Acquire(ctx)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() { got <- theirs.Lock() }()
	require.Eventually(t, func() bool {
		who, err := ours.Contenders(ctx)
		return err == nil && len(who) == 2
	}, patience, time.Millisecond)
	require.Empty(t, got)
	require.NoError(t, held.Release(ctx))
	require.NoError(t, <-got)
	_, err = ours.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	require.NoError(t, theirs.Unlock())
	held, err = ours.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release(ctx))
	conn.Close()
	require.Eventually(t, func() bool { return conn.State() == zk.StateDisconnected }, patience, time.Millisecond)
}

// The same with Java's Curator, whose names WithCurator uses.
func TestTogetherWithCurator(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	k := startCurator(ctx, t, servers()+root(t))
	ours := lock.New(c, "/lock", lock.WithCurator())
	held, err := ours.Acquire(ctx)
	require.NoError(t, err)
	k.is("false", "trylock")
	k.start("lock")
	require.Eventually(t, func() bool {
		who, err := ours.Contenders(ctx)
		return err == nil && len(who) == 2
	}, patience, time.Millisecond)
	require.NoError(t, held.Release(ctx))
	require.Equal(t, "true", k.line())
	require.NoError(t, c.Sync(ctx, "/"))
	_, err = ours.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	k.is("ok", "unlock")
	held, err = ours.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Release(ctx))

	read, write := lock.NewReadWrite(c, "/rw", lock.WithCurator())
	k.is("true", "read")
	held, err = read.Acquire(ctx)
	require.NoError(t, err, "readers of both share")
	k.is("ok", "unread")
	k.is("false", "write")
	require.NoError(t, held.Release(ctx))
	k.is("true", "write")
	require.NoError(t, c.Sync(ctx, "/"))
	_, err = read.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	k.is("ok", "unwrite")
	held, err = write.Acquire(ctx)
	require.NoError(t, err)
	k.is("false", "read")
	require.NoError(t, held.Release(ctx))

	k.is("ok", "close")
	require.NoError(t, c.Sync(ctx, "/"))
	passed := make(chan error, 1)
	go func() { passed <- barrier.New(c, "/barrier").Wait(ctx) }()
	k.is("ok", "open")
	require.NoError(t, <-passed)

	d := barrier.NewDouble(c, "/double", 2)
	k.start("enter")
	require.NoError(t, d.Enter(ctx))
	require.Equal(t, "true", k.line())
	k.start("leave")
	require.NoError(t, d.Leave(ctx))
	require.Equal(t, "true", k.line())
}
