package statemachine

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

type requests struct {
	*rand.Rand
	next txn.SessionID
	open []txn.SessionID
}

var bobID = proto.ID{Scheme: "digest", ID: "bob:x"}

func (g *requests) path() string {
	p := ""
	for range 1 + g.Intn(3) {
		p += fmt.Sprintf("/%c", 'a'+g.Intn(4))
	}
	switch g.Intn(40) {
	case 0:
		return "/zookeeper/config"
	case 1:
		return "/"
	case 2:
		return "rel"
	case 3:
		return p + "/"
	}
	return p
}

func (g *requests) acl() []proto.ACL {
	switch g.Intn(12) {
	case 0:
		return nil
	case 1:
		return []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "auth"}}}
	case 2:
		return []proto.ACL{{Perms: proto.PermAll &^ proto.Perm(1<<g.Intn(5)), ID: proto.AnyoneID}}
	}
	return proto.OpenACL()
}

func (g *requests) version() int32 { return int32(g.Intn(4)) - 1 }

// op is one operation that may be in a multi.
func (g *requests) op(within bool) (proto.Op, proto.Record) {
	data := bytes.Repeat([]byte{'d'}, g.Intn(5))
	switch n := g.Intn(10); {
	case n < 4:
		op := []proto.Op{proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer}[g.Intn(3)]
		flags := proto.CreateFlags(g.Intn(4))
		if !within && g.Intn(20) == 0 {
			flags = proto.CreateFlags(4 + g.Intn(4))
		}
		return op, &proto.CreateRequest{Path: g.path(), Data: data, ACL: g.acl(), Flags: flags}
	case n < 6:
		return proto.OpDelete, &proto.DeleteRequest{Path: g.path(), Version: g.version()}
	case n < 9 || !within:
		return proto.OpSetData, &proto.SetDataRequest{Path: g.path(), Data: data, Version: g.version()}
	}
	return proto.OpCheck, &proto.CheckVersionRequest{Path: g.path(), Version: g.version()}
}

func (g *requests) request() mreq {
	r := mreq{auth: []proto.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
	if g.Intn(3) > 0 {
		r.auth = append(r.auth, bobID)
	}
	if len(g.open) < 3 {
		g.next++
		g.open = append(g.open, g.next)
		r.session, r.op = g.next, proto.OpCreateSession
		return r
	}
	i := g.Intn(len(g.open))
	r.session = g.open[i]
	switch g.Intn(20) {
	case 0:
		r.session = max(1, g.open[i]-txn.SessionID(g.Intn(4))) // often one that is closed or closing
		r.op = proto.OpCloseSession
		for i, id := range g.open {
			if id == r.session {
				g.open = append(g.open[:i], g.open[i+1:]...)
				break
			}
		}
	case 1, 2:
		r.op, r.q = proto.OpSetACL, &proto.SetACLRequest{Path: g.path(), ACL: g.acl(), Version: g.version()}
	case 3, 4, 5, 6:
		r.op = proto.OpMulti
		for range g.Intn(5) {
			op, q := g.op(true)
			r.ops = append(r.ops, proto.MultiOp{Op: op, Request: q})
		}
	case 7:
		r.session = max(1, g.open[i]-txn.SessionID(g.Intn(3)))
		r.op, r.q = g.op(false)
	default:
		r.op, r.q = g.op(false)
	}
	return r
}

// Three machines and the twin get the same random requests. One prepares many before it applies any, one goes one by one, one
// only applies what comes in bytes. Answers, records and states must agree, and now and then the first must forget everything
// outstanding without a trace.
func TestRandomRequestsAgainstTwin(t *testing.T) {
	for seed := range int64(8) {
		g := &requests{Rand: rand.New(rand.NewSource(seed))}
		batch, single, follower, twin := New(Config{}), New(Config{}), New(Config{}), newModel()
		var prev txn.Record
		codes := map[proto.ErrCode]int{}
		for round := range 300 {
			twin.millis = int64(1000 + round)
			abandoned := g.Intn(5) == 0
			saved := *g
			saved.open = append([]txn.SessionID(nil), g.open...)
			asked := make([]mreq, 1+g.Intn(30))
			reqs := make([]txn.Request, len(asked))
			for i := range asked {
				asked[i] = g.request()
				reqs[i] = asked[i].encode()
				reqs[i].Cxid = int32(i)
			}
			cut := g.Intn(len(reqs) + 1)
			drafts := append(batch.Prepare(reqs[:cut], twin.millis), batch.Prepare(reqs[cut:], twin.millis)...)
			if abandoned {
				batch.Abandon()
				g.next, g.open = saved.next+100, saved.open
				require.Empty(t, batch.pending.changes)
				continue
			}
			for i := range drafts {
				where := fmt.Sprintf("seed %d round %d request %d: %+v", seed, round, i, asked[i])
				one := single.Prepare(reqs[i:i+1], twin.millis)
				if drafts[i].Refused != txn.NotRefused { // bytes that are no request
					require.Equal(t, txn.RefusedMalformed, one[0].Refused, where)
					continue
				}
				zxid := prev.Zxid + 1
				if prev.Zxid == 0 {
					zxid = txn.MakeZxid(1, 1)
					twin.zxid = int64(zxid) - 1
				}
				rec := drafts[i].Seal(zxid, prev.Zxid, prev.Chain)
				recOne := one[0].Seal(zxid, prev.Zxid, prev.Chain)
				require.Equal(t, recOne.Bytes, rec.Bytes, where)
				prev = rec

				res, err := batch.Apply(&rec)
				require.NoError(t, err, where)
				_, err = single.Apply(&recOne)
				require.NoError(t, err, where)
				parsed, _, err := txn.ParseRecord(rec.Bytes)
				require.NoError(t, err)
				resF, err := follower.Apply(&parsed)
				require.NoError(t, err, where)

				code, reply := twin.do(&asked[i])
				require.Equal(t, code, res.HeaderErr(), where)
				require.Equal(t, reply, res.AppendReply(nil), where)
				require.Equal(t, reply, resF.AppendReply(nil), where)
				require.Equal(t, res.Events, resF.Events)
				codes[res.Err]++
			}
			require.Empty(t, batch.pending.changes)
			require.Empty(t, batch.pending.created)
			require.Empty(t, batch.pending.closing)
			require.Empty(t, batch.pending.opening)
			require.Zero(t, batch.pending.touched.len()+batch.pending.queue.len())
		}
		require.Equal(t, len(twin.nodes), batch.NodeCount())
		for path, n := range twin.nodes {
			stat, ok := batch.Stat(path)
			require.True(t, ok)
			require.Equal(t, twin.stat(path), stat, path)
			require.Equal(t, n.acl, batch.tree.Get(path).ACL())
			data, _ := batch.tree.Get(path).Data()
			require.Equal(t, n.data, data)
		}
		require.Equal(t, len(twin.sessions), batch.SessionCount())
		for _, m := range []*Machine{single, follower} {
			require.Equal(t, batch.Digest(), m.Digest())
			require.Equal(t, snapshotBytes(t, batch), snapshotBytes(t, m))
		}
		for _, c := range []proto.ErrCode{proto.OK, proto.ErrNoNode, proto.ErrNoAuth, proto.ErrBadVersion, proto.ErrNodeExists, proto.ErrNotEmpty,
			proto.ErrNoChildrenForEphemerals, proto.ErrInvalidACL, proto.ErrBadArguments, proto.ErrSessionExpired, proto.ErrUnimplemented} {
			require.NotZero(t, codes[c], "the requests never led to %v", c)
		}
	}
}

func snapshotBytes(tb testing.TB, m *Machine) []byte {
	tb.Helper()
	var b bytes.Buffer
	n, err := m.Snapshot().WriteTo(&b)
	require.NoError(tb, err)
	require.EqualValues(tb, b.Len(), n)
	return b.Bytes()
}
