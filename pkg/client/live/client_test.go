package live

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

func create(ctx context.Context, t *testing.T, c *client.Client, path, data string) {
	t.Helper()
	_, err := c.Create(ctx, path, []byte(data), client.Persistent, nil)
	require.NoError(t, err)
}

// next wants the next event of s, past those of the session's connection.
func next(ctx context.Context, t *testing.T, s *client.Stream, typ client.EventType, path string) {
	t.Helper()
	e, err := s.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, typ, e.Type)
	require.Equal(t, path, e.Path)
}

func TestStreams(t *testing.T) {
	needs(t, 6)
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/a", "")
	tree, err := c.AddWatch(ctx, "/a", client.WatchTree)
	require.NoError(t, err)
	create(ctx, t, c, "/a/b", "")
	create(ctx, t, c, "/a/b/c", "")
	_, err = c.Set(ctx, "/a/b", []byte("x"), client.AnyVersion)
	require.NoError(t, err)
	require.NoError(t, c.Delete(ctx, "/a/b/c", client.AnyVersion))
	next(ctx, t, tree, client.EventNodeCreated, "/a/b")
	next(ctx, t, tree, client.EventNodeCreated, "/a/b/c")
	next(ctx, t, tree, client.EventNodeDataChanged, "/a/b")
	next(ctx, t, tree, client.EventNodeDeleted, "/a/b/c")
	require.Equal(t, client.Watched{Tree: []string{"/a"}}, c.Watched())
	tree.Stop()
	_, err = tree.Next(ctx)
	require.ErrorIs(t, err, client.ErrClosed)

	node, err := c.AddWatch(ctx, "/n", client.WatchNode)
	require.NoError(t, err)
	create(ctx, t, c, "/n", "")
	create(ctx, t, c, "/n/x", "")
	create(ctx, t, c, "/n/x/y", "")
	_, err = c.Set(ctx, "/n", nil, client.AnyVersion)
	require.NoError(t, err)
	next(ctx, t, node, client.EventNodeCreated, "/n")
	next(ctx, t, node, client.EventNodeChildrenChanged, "/n")
	next(ctx, t, node, client.EventNodeDataChanged, "/n")
	require.NoError(t, c.RemoveWatches(ctx, "/n", client.AnyWatches, false))
	next(ctx, t, node, client.EventPersistentWatchRemoved, "/n")
	require.ErrorIs(t, c.RemoveWatches(ctx, "/n", client.AnyWatches, false), client.ErrNoWatcher)
	_, err = c.Set(ctx, "/n", nil, client.AnyVersion)
	require.NoError(t, err)
	require.Zero(t, c.Watched())
}

// A session goes from one client to another, with its ephemeral nodes; whoever closes it ends it for both.
func TestSessionIsTakenOver(t *testing.T) {
	ctx := guard(t)
	var w wire
	one := dial(ctx, t, client.WithDialer(w.dial))
	_, err := one.Create(ctx, "/mine", nil, client.Ephemeral, nil)
	require.NoError(t, err)
	w.set(true) // or it would take the session back
	id, password := one.SessionID(), one.SessionPassword()
	_, err = client.Dial(ctx, servers(), client.WithSession(id, make([]byte, len(password))))
	require.ErrorIs(t, err, client.ErrSessionExpired)
	two, err := client.Dial(ctx, servers()+root(t), client.WithSession(id, password))
	require.NoError(t, err)
	require.Equal(t, id, two.SessionID())
	st, found, err := two.Exists(ctx, "/mine")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, id, st.EphemeralOwner)
	require.NoError(t, two.Close())
	w.set(false)
	<-one.Done()
	require.ErrorIs(t, one.Err(), client.ErrSessionExpired)
	_, err = client.Dial(ctx, servers(), client.WithSession(id, password))
	require.ErrorIs(t, err, client.ErrSessionExpired)
}

// An event names the transaction that it is about, if the server tells.
func TestEventsHaveTheirZxid(t *testing.T) {
	needs(t, 9)
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/a", "")
	tree, err := c.AddWatch(ctx, "/", client.WatchTree)
	require.NoError(t, err)
	_, _, w, err := c.GetW(ctx, "/a")
	require.NoError(t, err)
	stat, err := c.Set(ctx, "/a", nil, client.AnyVersion)
	require.NoError(t, err)
	want := client.Event{Type: client.EventNodeDataChanged, State: client.StateConnected, Path: "/a", Zxid: stat.Mzxid}
	got, err := w.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = tree.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// What happened while the connection was away is announced as missed, and what happens afterwards is reported.
func TestStreamsSurviveTheConnection(t *testing.T) {
	needs(t, 6)
	ctx := guard(t)
	var w wire
	c, other := dial(ctx, t, client.WithDialer(w.dial)), dial(ctx, t)
	tree, err := c.AddWatch(ctx, "/", client.WatchTree)
	require.NoError(t, err)
	w.set(true)
	create(ctx, t, other, "/unseen", "")
	w.set(false)
	next(ctx, t, tree, client.EventMissed, "/")
	require.NoError(t, c.Sync(ctx, "/"))
	_, found, err := c.Exists(ctx, "/unseen")
	require.NoError(t, err)
	require.True(t, found)
	create(ctx, t, other, "/seen", "")
	next(ctx, t, tree, client.EventNodeCreated, "/seen")
	require.EqualValues(t, 2, c.Stats().Connects)
	require.EqualValues(t, 1, c.Stats().Losses)
}

func TestMultiReadEphemeralsCountsIdentities(t *testing.T) {
	needs(t, 6)
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/a", "1")
	create(ctx, t, c, "/a/b", "2")
	_, err := c.Create(ctx, "/a/e", nil, client.Ephemeral, nil)
	require.NoError(t, err)

	var r client.Reads
	a, list, none := r.Get("/a"), r.Children("/a"), r.Get("/none")
	require.NoError(t, c.MultiRead(ctx, &r))
	require.Equal(t, "1", string(a.Data))
	require.ElementsMatch(t, []string{"b", "e"}, list.Children)
	require.ErrorIs(t, none.Err, client.ErrNoNode)

	paths, err := c.Ephemerals(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, []string{"/a/e"}, paths)
	n, err := c.CountDescendants(ctx, "/a")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	needs(t, 7)
	require.NoError(t, c.AddAuth(ctx, "digest", []byte("bob:secret")))
	ids, err := c.WhoAmI(ctx)
	require.NoError(t, err)
	require.Contains(t, ids, client.Identity{Scheme: "digest", User: "bob"})
	config, _, err := c.Config(ctx)
	require.NoError(t, err)
	_, _, err = client.ParseConfig(config)
	require.NoError(t, err)
}

func TestContainersAndTTL(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	_, err := c.Create(ctx, "/box", nil, client.Container, nil)
	require.NoError(t, err)
	_, _, err = c.CreateTTL(ctx, "/ttl", nil, client.PersistentTTL, time.Hour, nil)
	if foreign != "" && errors.Is(err, client.ErrUnimplemented) {
		return // a stock server
	}
	require.NoError(t, err)
	var m client.Multi
	made := m.CreateTTL("/ttl-", nil, client.PersistentSequentialTTL, time.Hour, nil)
	require.NoError(t, c.Multi(ctx, &m))
	require.Regexp(t, "^/ttl-[0-9]{10}$", made.Path)
	_, _, err = c.CreateTTL(ctx, "/bad", nil, client.Persistent, time.Hour, nil)
	require.ErrorIs(t, err, client.ErrBadArguments)
}

func TestQuota(t *testing.T) {
	ctx := guard(t)
	c, err := client.Dial(ctx, servers())
	require.NoError(t, err)
	defer c.Close()
	root := "/quota-" + time.Now().Format("150405.000000")
	create(ctx, t, c, root, "12345")
	create(ctx, t, c, root+"/kid", "")
	defer c.Delete(ctx, root, client.AnyVersion)
	defer c.Delete(ctx, root+"/kid", client.AnyVersion)
	limits := client.Quota{Count: 5, Bytes: client.NoLimit, CountHard: 10, BytesHard: client.NoLimit}
	require.NoError(t, c.SetQuota(ctx, root, limits))
	got, used, err := c.GetQuota(ctx, root)
	require.NoError(t, err)
	require.Equal(t, limits, got)
	require.EqualValues(t, 2, used.Count)
	require.EqualValues(t, 5, used.Bytes)
	limits.Bytes = 100
	require.NoError(t, c.SetQuota(ctx, root, limits))
	require.ErrorIs(t, c.SetQuota(ctx, root+"/kid", limits), client.ErrBadArguments, "a quota above")
	require.NoError(t, c.DeleteQuota(ctx, root))
	_, _, err = c.GetQuota(ctx, root)
	require.ErrorIs(t, err, client.ErrNoNode)
	require.ErrorIs(t, c.DeleteQuota(ctx, root), client.ErrNoNode)
}

func TestBatchOfMultis(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/a", "")
	b := c.Batch(ctx)
	var good, bad, later client.Multi
	made, set := good.Create("/b", []byte("1"), client.Persistent, nil), good.Set("/a", []byte("x"), 0)
	lost := bad.Create("/c", nil, client.Persistent, nil)
	bad.Check("/a", 0) // good has changed it
	later.Delete("/b", 0)
	for _, m := range []*client.Multi{&good, &bad, &later} {
		b.Multi(m)
	}
	var wrong client.Multi
	wrong.Delete("no path", client.AnyVersion)
	b.Multi(&wrong)
	err := b.Wait()
	var me *client.MultiError
	require.ErrorAs(t, err, &me)
	require.ErrorIs(t, err, client.ErrBadVersion)
	require.ErrorIs(t, err, client.ErrBadArguments)
	require.Equal(t, "/b", made.Path)
	require.EqualValues(t, 1, set.Stat.Version)
	require.Empty(t, lost.Path)
	names, _, err := c.Children(ctx, "/")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
}

func TestBatch(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	b := c.Batch(ctx)
	var made []*client.Created
	for i := range 3000 {
		made = append(made, b.Create(fmt.Sprintf("/n%d", i), []byte("x"), client.Persistent, nil))
	}
	require.NoError(t, b.Wait())
	require.Equal(t, "/n2999", made[2999].Path)
	up := b.Set("/n1", []byte("y"), 0)
	got, none := b.Get("/n1"), b.Get("/none")
	b.Delete("/none", client.AnyVersion)
	b.Delete("bad", client.AnyVersion)
	err := b.Wait()
	require.ErrorIs(t, err, client.ErrNoNode)
	require.ErrorIs(t, err, client.ErrBadArguments)
	require.EqualValues(t, 1, up.Stat.Version)
	require.Equal(t, "y", string(got.Data))
	require.ErrorIs(t, none.Err, client.ErrNoNode)
	for i := range 3000 {
		b.Delete(fmt.Sprintf("/n%d", i), client.AnyVersion)
	}
	require.NoError(t, b.Wait())
}

func TestFollow(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	seen := 0
	for node, err := range c.FollowNode(ctx, "/f") {
		require.NoError(t, err)
		seen++
		switch seen {
		case 1:
			require.False(t, node.Exists)
			create(ctx, t, c, "/f", "1")
		case 2:
			require.Equal(t, "1", string(node.Data))
			_, err := c.Set(ctx, "/f", []byte("2"), client.AnyVersion)
			require.NoError(t, err)
		case 3:
			require.Equal(t, "2", string(node.Data))
			require.NoError(t, c.Delete(ctx, "/f", client.AnyVersion))
		}
		if seen == 4 {
			require.False(t, node.Exists)
			break
		}
	}
	require.Zero(t, c.Watched(), "a loop that was left watches nothing")
	for _, err := range c.FollowChildren(ctx, "/none") {
		require.ErrorIs(t, err, client.ErrNoNode)
	}
}
