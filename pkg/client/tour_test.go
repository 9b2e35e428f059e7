package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// servers returns the ensemble to test against, from the environment: "host:port,host:port". Both zkd and the original
// will do. The tests make and remove one top-level node each.
func servers(t *testing.T) string {
	s := os.Getenv("ZKD_TEST_SERVERS")
	if s == "" {
		t.Skip("ZKD_TEST_SERVERS names no servers")
	}
	return s
}

func dial(t *testing.T, connect string, opts ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, connect, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Sync(ctx, "/")) // its server may be behind the one that another client of the test wrote to
	return c
}

// room makes a node of its own for the test and removes it afterwards.
func room(t *testing.T, c *client.Client) string {
	t.Helper()
	path, err := c.Create(t.Context(), "/zkd-tour-", nil, client.PersistentSequential, nil)
	require.NoError(t, err)
	t.Cleanup(func() { remove(t, c, path) })
	return path
}

func remove(t *testing.T, c *client.Client, path string) {
	require.NoError(t, c.Sync(context.Background(), path))
	names, _, err := c.Children(context.Background(), path)
	require.NoError(t, err)
	for _, name := range names {
		remove(t, c, path+"/"+name)
	}
	require.NoError(t, c.Delete(context.Background(), path, client.AnyVersion))
}

func TestTour(t *testing.T) {
	all := servers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	base := room(t, dial(t, all))
	c := dial(t, all+base)

	path, stat, err := c.CreateStat(ctx, "/a", []byte("one"), client.Persistent, nil)
	require.NoError(t, err)
	require.Equal(t, "/a", path)
	require.WithinDuration(t, time.Now(), stat.Ctime, time.Minute)
	require.EqualValues(t, 3, stat.DataLength)
	_, err = c.Create(ctx, "/a", nil, client.Persistent, nil)
	require.ErrorIs(t, err, client.ErrNodeExists)
	_, err = c.Create(ctx, "/no/where", nil, client.Persistent, nil)
	require.ErrorIs(t, err, client.ErrNoNode)

	data, _, w, err := c.GetW(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, "one", string(data))
	set, err := c.Set(ctx, "/a", []byte("two"), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, set.Version)
	e, err := w.Wait(ctx)
	require.NoError(t, err)
	if e.Zxid != 0 { // servers before 3.9 do not tell
		require.Equal(t, set.Mzxid, e.Zxid)
	}
	require.Equal(t, client.Event{Type: client.EventNodeDataChanged, State: client.StateConnected, Path: "/a", Zxid: e.Zxid}, e)
	_, err = c.Set(ctx, "/a", nil, 0)
	require.ErrorIs(t, err, client.ErrBadVersion)

	_, found, missing, err := c.ExistsW(ctx, "/e")
	require.NoError(t, err)
	require.False(t, found)
	_, _, kids, err := c.ChildrenW(ctx, "/")
	require.NoError(t, err)
	_, err = c.Create(ctx, "/e", nil, client.Ephemeral, nil)
	require.NoError(t, err)
	e, err = missing.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, client.EventNodeCreated, e.Type)
	e, err = kids.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, client.EventNodeChildrenChanged, e.Type)
	require.Equal(t, "/", e.Path)
	stat, found, err = c.Exists(ctx, "/e")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, c.SessionID(), stat.EphemeralOwner)
	_, err = c.Create(ctx, "/e/x", nil, client.Persistent, nil)
	require.ErrorIs(t, err, client.ErrNoChildrenForEphemerals)

	_, err = c.Create(ctx, "/a/seq-", nil, client.PersistentSequential, nil)
	require.NoError(t, err)
	require.ErrorIs(t, c.Delete(ctx, "/a", client.AnyVersion), client.ErrNotEmpty)
	require.NoError(t, c.Sync(ctx, "/"))
	names, _, err := c.Children(ctx, "/")
	require.NoError(t, err)
	slices.Sort(names)
	require.Equal(t, []string{"a", "e"}, names)

	other := dial(t, all+base)
	_, _, gone, err := other.ExistsW(ctx, "/e")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	e, err = gone.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, client.EventNodeDeleted, e.Type, "closing a session removes its ephemerals")
}

func TestTourACLs(t *testing.T) {
	all := servers(t)
	ctx := t.Context()
	open := dial(t, all)
	base := room(t, open)
	c := dial(t, all+base)
	_, err := c.Create(ctx, "/auth", nil, client.Persistent, client.AuthACL(client.PermAll))
	require.ErrorIs(t, err, client.ErrInvalidACL)
	require.NoError(t, c.AddAuth(ctx, "digest", []byte("bob:secret")))
	_, err = c.Create(ctx, "/auth", []byte("x"), client.Persistent, client.AuthACL(client.PermAll))
	require.NoError(t, err)
	acl, _, err := c.GetACL(ctx, "/auth")
	require.NoError(t, err)
	require.Equal(t, client.DigestACL("bob", "secret", client.PermAll), acl)
	require.NoError(t, open.Sync(ctx, "/"))
	_, _, err = open.Get(ctx, base+"/auth")
	require.ErrorIs(t, err, client.ErrNoAuth)
	_, err = c.SetACL(ctx, "/auth", client.WorldACL(client.PermAll), 0)
	require.NoError(t, err)
	require.NoError(t, open.Sync(ctx, "/"))
	_, _, err = open.Get(ctx, base+"/auth")
	require.NoError(t, err)
	require.ErrorIs(t, c.AddAuth(ctx, "nonsense", nil), client.ErrAuthFailed)
	_, _, err = c.Get(ctx, "/auth") // on a new connection, with bob's identity
	require.NoError(t, err)
}

func TestTourMulti(t *testing.T) {
	all := servers(t)
	ctx := t.Context()
	c := dial(t, all)
	base := room(t, c)
	var m client.Multi
	node := m.Create(base+"/n-", []byte("1"), client.PersistentSequential, nil)
	set := m.Set(base, []byte("x"), 0)
	m.Check(base, 1)
	require.NoError(t, c.Multi(ctx, &m))
	require.EqualValues(t, 1, set.Stat.Version)
	_, found, err := c.Exists(ctx, node.Path)
	require.NoError(t, err)
	require.True(t, found)

	var bad client.Multi
	bad.Delete(node.Path, client.AnyVersion)
	bad.Check(base, 7)
	bad.Delete(base, client.AnyVersion)
	err = c.Multi(ctx, &bad)
	var me *client.MultiError
	require.ErrorAs(t, err, &me)
	require.Equal(t, 1, me.Index)
	require.ErrorIs(t, err, client.ErrBadVersion)
	_, found, err = c.Exists(ctx, node.Path)
	require.NoError(t, err)
	require.True(t, found, "all or nothing")
}

// cutter is a dialer whose connections a test can cut.
type cutter struct {
	mu   sync.Mutex
	last net.Conn
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nc
	return nc, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Close()
}

// A session, its ephemeral nodes and its watches outlive connections, and nothing that happens in between is missed.
func TestTourReconnect(t *testing.T) {
	all := servers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other := dial(t, all)
	base := room(t, other)
	var cut cutter
	c := dial(t, all+base, client.WithDialer(cut.dial))
	_, err := c.Create(ctx, "/e", nil, client.Ephemeral, nil)
	require.NoError(t, err)
	id := c.SessionID()
	for round := range 20 {
		name := fmt.Sprintf("/n%d", round)
		_, found, missing, err := c.ExistsW(ctx, name)
		require.NoError(t, err)
		require.False(t, found)
		_, _, data, err := c.GetW(ctx, "/")
		require.NoError(t, err)
		_, _, kids, err := c.ChildrenW(ctx, "/")
		require.NoError(t, err)
		cut.cut()
		_, err = other.Create(ctx, base+name, nil, client.Persistent, nil)
		require.NoError(t, err)
		_, err = other.Set(ctx, base, []byte(name), client.AnyVersion)
		require.NoError(t, err)
		for w, want := range map[*client.Watch]client.EventType{
			missing: client.EventNodeCreated, data: client.EventNodeDataChanged, kids: client.EventNodeChildrenChanged,
		} {
			e, err := w.Wait(ctx)
			require.NoError(t, err)
			require.Equal(t, want, e.Type)
		}
		_, found, err = c.Exists(ctx, "/e")
		for errors.Is(err, client.ErrConnectionLoss) {
			_, found, err = c.Exists(ctx, "/e")
		}
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, id, c.SessionID())
	}
	require.NoError(t, c.Close())
}

func TestTourManyCallers(t *testing.T) {
	c := dial(t, servers(t))
	base := room(t, c)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				path, err := c.Create(t.Context(), base+"/", []byte("x"), client.PersistentSequential, nil)
				if err != nil || !strings.HasPrefix(path, base+"/") {
					t.Errorf("%q: %v", path, err)
					return
				}
				if _, _, err := c.Get(t.Context(), path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	names, _, err := c.Children(t.Context(), base)
	require.NoError(t, err)
	require.Len(t, names, 1000)
}
