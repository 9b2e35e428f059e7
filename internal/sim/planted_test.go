package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// running is an ensemble that has been at work for a while, without trouble.
func running(t *testing.T) *World {
	t.Helper()
	w := New(&Scenario{Seed: 7, Nodes: 3, Clients: 2, Rate: 20 * time.Millisecond, Length: 3 * time.Second})
	w.begin()
	for w.now < 2*time.Second {
		h := w.queue.pop()
		w.now = h.at
		h.do()
		require.Nil(t, w.fail)
	}
	require.Greater(t, len(w.checks.ledger), 10)
	return w
}

// follower is a server that does not lead.
func (w *World) follower() *node {
	for _, n := range w.nodes {
		if n != w.leader() {
			return n
		}
	}
	return nil
}

// between finds an open data connection's end at n.
func (w *World) dataEnd(n *node) *end {
	for _, c := range w.net.conns {
		for _, e := range c.ends {
			if c.purpose == zab.ForData && e.n == n && e.open {
				return e
			}
		}
	}
	return nil
}

// forge makes a record behind a position.
func forge(prev zab.Position, z txn.Zxid, data string) txn.Record {
	d := txn.NewDraft(&txn.Txn{Header: txn.Header{Op: proto.OpSetData}, Body: &txn.SetData{Path: "/", Data: []byte(data)}}, &txn.Request{})
	return d.Seal(z, prev.Zxid, prev.Chain)
}

// TestPlantedViolationsAreSeen breaks each rule by hand in the books of a healthy ensemble: a checker that stays silent is no checker.
func TestPlantedViolationsAreSeen(t *testing.T) {
	plants := []struct {
		want string
		name string
		do   func(w *World, l, f *node, b *book)
	}{
		{"I-1", "a record that nobody proposed is applied", func(w *World, l, f *node, b *book) {
			b.applied = w.checks.lastCommitted().Zxid
			r := forge(w.checks.lastCommitted(), w.checks.lastCommitted().Zxid+1, "x")
			b.log = append(b.log, positionOf(&r))
			w.checks.onApply(f, []txn.Record{r})
		}},
		{"I-2", "two servers apply different records", func(w *World, l, f *node, b *book) {
			at := len(w.checks.ledger) - 2
			prev := w.checks.ledger[at].at
			b.applied, b.log = prev.Zxid, cutLog(b.log, prev.Zxid)
			r := forge(prev, prev.Zxid+1, "other")
			b.log = append(b.log, positionOf(&r))
			w.checks.onApply(f, []txn.Record{r})
		}},
		{"I-3", "a record is applied twice", func(w *World, l, f *node, b *book) {
			last := w.checks.ledger[len(w.checks.ledger)-1].at
			b.applied = last.Zxid
			w.checks.commit(f, &txn.Record{Zxid: last.Zxid, Prev: last.Zxid - 1, Chain: last.Chain})
		}},
		{"I-16", "a record is left out", func(w *World, l, f *node, b *book) {
			last := w.checks.lastCommitted()
			b.applied = last.Zxid
			w.checks.commit(f, &txn.Record{Zxid: last.Zxid + 2, Prev: last.Zxid + 1})
		}},
		{"I-7", "an epoch has two leaders", func(w *World, l, f *node, b *book) { w.checks.onEstablished(f, l.core.Status().Epoch) }},
		{"I-7", "an epoch is promised to two", func(w *World, l, f *node, b *book) {
			h := b.hard
			h.AcceptedLeader = f.id
			w.checks.onHard(f, h)
		}},
		{"I-7", "two would-be leaders have a quorum", func(w *World, l, f *node, b *book) {
			for _, to := range []zab.ServerID{1, 2} {
				for from := zab.ServerID(1); from <= 2; from++ {
					w.checks.promise(99, to, from, true)
				}
			}
		}},
		{"I-8", "an epoch shrinks", func(w *World, l, f *node, b *book) { w.checks.onHard(f, zab.HardState{}) }},
		{"I-9", "the log has a gap", func(w *World, l, f *node, b *book) {
			z := tip(b.mem).Zxid
			w.checks.onProposed(f, []txn.Record{{Zxid: z + 2, Prev: z + 1}})
		}},
		{"I-10", "two records have one zxid", func(w *World, l, f *node, b *book) {
			at := w.checks.ledger[len(w.checks.ledger)-2].at
			b.mem = cutLog(b.mem, at.Zxid)
			w.checks.onProposed(f, []txn.Record{forge(at, at.Zxid+1, "other")})
		}},
		{"I-11", "a leader lacks what was committed", func(w *World, l, f *node, b *book) {
			b.mem = cutLog(b.mem, w.checks.ledger[3].at.Zxid)
			w.checks.onEstablished(f, 99)
		}},
		{"I-12", "an ack of what is not on disk", func(w *World, l, f *node, b *book) {
			w.checks.onFrame(w.dataEnd(f), b.hard.Current, &zab.Ack{Kind: zab.AckPropose, Epoch: b.hard.Current, Durable: tip(b.log).Zxid + 1})
		}},
		{"I-12", "an ack before the epoch is on disk", func(w *World, l, f *node, b *book) {
			w.checks.onFrame(w.dataEnd(f), 99, &zab.Ack{Kind: zab.AckPropose, Epoch: 99, Durable: tip(b.log).Zxid})
		}},
		{"I-12", "a promise that is not on disk", func(w *World, l, f *node, b *book) {
			w.checks.onFrame(w.dataEnd(f), 99, &zab.AckEpoch{Epoch: 99, Vote: true, Current: b.hard.Current, Last: tip(b.log)})
		}},
		{"I-12", "a vote for more than is on disk", func(w *World, l, f *node, b *book) {
			w.checks.onNotify(f, b, &zab.Notification{State: zab.Looking, Vote: zab.Vote{Leader: f.id, Epoch: b.hard.Current, Zxid: tip(b.log).Zxid + 5}})
		}},
		{"I-12", "the disk lost what was durable", func(w *World, l, f *node, b *book) {
			b.log = append(b.log, zab.Position{Zxid: tip(b.log).Zxid + 1})
			w.checks.deep(f)
		}},
		{"I-13", "NEWLEADER is acked that was not asked", func(w *World, l, f *node, b *book) {
			e := w.dataEnd(f)
			delete(b.newLead, e.c.id)
			w.checks.onFrame(e, b.hard.Current, &zab.Ack{Kind: zab.AckNewLeader, Epoch: b.hard.Current, Durable: tip(b.log).Zxid})
		}},
		{"I-14", "a commit without a quorum of disks", func(w *World, l, f *node, b *book) {
			for _, o := range w.nodes {
				if o != l {
					w.checks.books[o.id].log = w.checks.books[o.id].log[:2]
				}
			}
			e := l.core.Status().Epoch
			w.checks.told[l.id] = 0
			w.checks.announced(l, e, tip(w.checks.books[l.id].mem).Zxid)
		}},
		{"I-15", "applied before it is on disk", func(w *World, l, f *node, b *book) {
			b.log = b.log[:1]
			w.checks.onApply(f, []txn.Record{{Zxid: 77}})
		}},
		{"I-17", "two digests at one zxid", func(w *World, l, f *node, b *book) {
			w.checks.onDigest(f, w.checks.lastCommitted().Zxid, 1)
		}},
		{"I-19", "a cut below what is applied", func(w *World, l, f *node, b *book) { w.checks.onCut(f, zab.Position{}) }},
		{"I-20", "a leader cuts its log", func(w *World, l, f *node, b *book) { w.checks.onCut(l, tip(w.checks.books[l.id].mem)) }},
		{"I-21", "a follower proposes", func(w *World, l, f *node, b *book) {
			w.checks.onProposed(f, []txn.Record{forge(tip(b.mem), txn.MakeZxid(50, 1), "mine")})
		}},
		{"I-24", "a server that is recovering votes", func(w *World, l, f *node, b *book) {
			b.hard.Recovering = true
			w.checks.onNotify(f, b, &zab.Notification{Vote: zab.Vote{Leader: 1}})
		}},
		{"I-25", "a server that is recovering counts", func(w *World, l, f *node, b *book) {
			b.hard.Recovering = true
			w.checks.onFrame(w.dataEnd(f), b.hard.Current, &zab.Ack{Kind: zab.AckPropose, Epoch: b.hard.Current, Durable: tip(b.log).Zxid, Votable: true})
		}},
		{"I-27", "the stream has a gap", func(w *World, l, f *node, b *book) {
			w.checks.onFrame(w.dataEnd(l), 0, &zab.Propose{Records: []txn.Record{{Zxid: txn.MakeZxid(70, 5), Prev: txn.MakeZxid(70, 4)}}})
		}},
		{"I-29", "a write before one that was over when it began", func(w *World, l, f *node, b *book) {
			o := &op{session: 5, xid: 1, kind: proto.OpSetData, floor: txn.MakeZxid(90, 1)}
			w.history.invoked(o)
			w.history.committed(&txn.Record{Zxid: txn.MakeZxid(80, 1)}, &txn.Txn{Header: txn.Header{Session: 5, Cxid: 1, Conn: 1, Op: proto.OpSetData}})
		}},
		{"I-31", "a session goes back in time", func(w *World, l, f *node, b *book) {
			c := w.clients[0]
			c.seen = txn.MakeZxid(90, 1)
			w.history.returned(c, &op{kind: proto.OpGetData, path: "/"}, outcome{zxid: 1})
		}},
		{"I-32", "a read does not see what the sync had to", func(w *World, l, f *node, b *book) {
			c := w.clients[0]
			c.synced, c.seen = w.history.model.zxid, 0
			w.history.returned(c, &op{kind: proto.OpGetData, path: "/"}, outcome{zxid: w.history.model.zxid - 1})
		}},
		{"I-33", "a read answers what never was", func(w *World, l, f *node, b *book) {
			w.history.returned(w.clients[0], &op{kind: proto.OpGetData, path: "/"}, outcome{zxid: w.history.model.zxid, err: proto.ErrNoNode})
		}},
		{"I-34", "a refused write is carried out", func(w *World, l, f *node, b *book) {
			w.history.invoked(&op{session: 5, xid: 1, kind: proto.OpSetData})
			w.history.refused(zab.Refusal{Session: 5, Cxid: 1, Conn: 1, Code: txn.RefusedPendingFull})
			w.history.committed(&txn.Record{Zxid: txn.MakeZxid(80, 1)}, &txn.Txn{Header: txn.Header{Session: 5, Cxid: 1, Conn: 1, Op: proto.OpSetData}})
		}},
		{"I-35", "a request is carried out twice", func(w *World, l, f *node, b *book) {
			for k := range w.history.ran {
				w.history.committed(&txn.Record{Zxid: txn.MakeZxid(80, 1)}, &txn.Txn{Header: txn.Header{Session: k.session, Cxid: k.xid, Conn: 1, Op: proto.OpSetData}})
				return
			}
		}},
		{"I-36", "a session is called expired and is open", func(w *World, l, f *node, b *book) {
			w.history.expired(w.clients[0], w.clients[0].session)
		}},
		{"I-36", "a session expires too early", func(w *World, l, f *node, b *book) {
			w.checks.book(l).alive[w.clients[0].session] = w.now
			d := txn.NewDraft(&txn.Txn{Header: txn.Header{Session: w.clients[0].session, Op: proto.OpCloseSession}, Body: &txn.CloseSession{}}, &txn.Request{})
			r := d.Seal(txn.MakeZxid(80, 1), 0, 0)
			sealed, _ := r.Txn()
			w.checks.checkExpiry(l, r.Zxid, sealed)
		}},
		{"I-41", "a session id is used again", func(w *World, l, f *node, b *book) {
			w.history.committed(&txn.Record{Zxid: txn.MakeZxid(80, 1)}, &txn.Txn{Header: txn.Header{Session: w.clients[0].session, Op: proto.OpCreateSession}})
		}},
		{"I-45", "a start comes up without what was durable", func(w *World, l, f *node, b *book) {
			b.log = append(b.log, zab.Position{Zxid: tip(b.log).Zxid + 1})
			w.checks.onRecovered(f)
		}},
		{"I-4", "a counter is left out", func(w *World, l, f *node, b *book) {
			last := w.checks.lastCommitted()
			r := forge(last, last.Zxid+2, "x")
			b.applied = last.Zxid
			w.checks.commit(f, &r)
		}},
		{"I-4", "an epoch does not begin with 1", func(w *World, l, f *node, b *book) {
			last := w.checks.lastCommitted()
			r := forge(last, txn.MakeZxid(last.Zxid.Epoch()+1, 2), "x")
			b.applied = last.Zxid
			w.checks.commit(f, &r)
		}},
		{"I-5", "an epoch comes back", func(w *World, l, f *node, b *book) {
			last := w.checks.lastCommitted()
			r := forge(last, txn.MakeZxid(last.Zxid.Epoch()-1, 1), "x")
			b.applied = last.Zxid
			w.checks.commit(f, &r)
		}},
		{"I-22", "a frame of a dead connection makes the leader write", func(w *World, l, f *node, b *book) {
			st := l.core.Status()
			w.checks.onStray(l, false, &st, &st, []zab.Effect{zab.Append{}})
		}},
		{"I-22", "a frame of a dead connection moves what a learner has acked", func(w *World, l, f *node, b *book) {
			before, after := l.core.Status(), l.core.Status()
			after.Learners[0].Match++
			w.checks.onStray(l, false, &before, &after, nil)
		}},
		{"I-22", "a frame of another epoch moves the commit", func(w *World, l, f *node, b *book) {
			before, after := f.core.Status(), f.core.Status()
			after.Commit++
			w.checks.onStray(f, true, &before, &after, nil)
		}},
		{"I-38", "a change is shown before its event", func(w *World, l, f *node, b *book) {
			m := w.history.model
			w.clients[0].armed = []armed{{watch: watch{path: "/k0"}, absent: true}}
			m.node("/k0").set(mstate{exists: true, stat: proto.Stat{Mzxid: int64(m.zxid)}}, m.zxid)
			w.history.returned(w.clients[0], &op{kind: proto.OpSync}, outcome{zxid: m.zxid})
		}},
		{"I-38", "an event for somebody who does not watch", func(w *World, l, f *node, b *book) {
			w.clients[0].armed = nil
			w.clients[0].notified(proto.EventNodeCreated, "/k0")
		}},
		{"I-38", "an event comes twice", func(w *World, l, f *node, b *book) {
			m, c := w.history.model, w.clients[0]
			c.armed = []armed{{watch: watch{path: "/k0"}, absent: true}}
			m.node("/k0").set(mstate{exists: true, stat: proto.Stat{Mzxid: int64(m.zxid)}}, m.zxid)
			c.notified(proto.EventNodeCreated, "/k0")
			if w.fail != nil {
				w.fail.Invariant = "the first already"
			}
			c.notified(proto.EventNodeCreated, "/k0")
		}},
		{"I-38", "what happened during a move is not told", func(w *World, l, f *node, b *book) {
			m, wt := w.history.model, watch{path: "/k0", child: true}
			w.clients[0].armed = []armed{{watch: wt}}
			m.node("/k0").set(mstate{exists: true, stat: proto.Stat{Pzxid: int64(m.zxid)}}, m.zxid)
			w.history.returned(w.clients[0], &op{kind: proto.OpSetWatches, rearms: []rearm{{watch: wt}}, seen: m.zxid - 1}, outcome{zxid: m.zxid})
		}},
		{"I-39", "a number comes twice", func(w *World, l, f *node, b *book) {
			z := w.history.model.zxid
			w.history.numbered(z-1, "/z-", "/z-0000000900")
			w.history.numbered(z, "/z-", "/z-0000000900")
		}},
		{"I-39", "a later number is smaller", func(w *World, l, f *node, b *book) {
			z := w.history.model.zxid
			w.history.numbered(z, "/z-", "/z-0000000900")
			w.history.numbered(z-1, "/z-", "/z-0000000901")
		}},
		{"I-42", "a write through a server that the session has left", func(w *World, l, f *node, b *book) {
			last := w.checks.lastCommitted()
			t := &txn.Txn{Header: txn.Header{Session: w.clients[0].session, Op: proto.OpSetData, Conn: 1, Origin: 2}}
			r := forge(last, last.Zxid+1, "x")
			w.history.moved(t.Session, 1, r.Zxid.Epoch())
			b.applied, w.checks.proposed[r.Zxid] = last.Zxid, proposal{l.id, r.Chain, w.history.abroad(t, r.Zxid.Epoch())}
			w.checks.commit(f, &r)
		}},
		{"I-43", "an ack leaves after a failed disk", func(w *World, l, f *node, b *book) {
			b.doing = zab.Append{}
			w.checks.onDiskFailed(f, "log", errors.New("for no reason"))
			w.checks.onFrame(w.dataEnd(f), b.hard.Current, &zab.Ack{Kind: zab.AckPropose, Epoch: b.hard.Current, Durable: tip(b.log).Zxid})
		}},
		{"I-43", "a reply leaves after a failed disk", func(w *World, l, f *node, b *book) {
			b.doing = zab.Append{}
			w.checks.onDiskFailed(f, "log", errors.New("for no reason"))
			(&clientConn{e: f.edge, c: w.clients[0]}).reply(&op{}, outcome{})
		}},
		{"I-48", "a leader gives up for a minority's sake", func(w *World, l, f *node, b *book) {
			w.checks.onCalm(true)
			w.checks.watchCalm(l, &zab.Status{Role: zab.Looking})
		}},
		{"I-50", "a role begins before the disk is done with the last", func(w *World, l, f *node, b *book) {
			w.checks.onQueued(f, 1<<40)
			w.checks.onRole(f, zab.Looking)
			w.checks.onRole(f, zab.Leading)
		}},
		{"I-50", "a vote before the disk is done with the last role", func(w *World, l, f *node, b *book) {
			w.checks.onQueued(f, 1<<40)
			w.checks.onRole(f, zab.Looking)
			w.checks.onVote(f, &zab.Notification{State: zab.Looking, Vote: zab.Vote{Leader: f.id}})
		}},
		{"FATAL-8", "a process ends and nobody hurt it", func(w *World, l, f *node, b *book) { w.checks.onFatal(f, 8, errors.New("for no reason")) }},
	}
	for _, p := range plants {
		t.Run(p.want+" "+p.name, func(t *testing.T) {
			w := running(t)
			f := w.follower()
			p.do(w, w.leader(), f, w.checks.book(f))
			require.NotNil(t, w.fail, "nothing was seen")
			require.Equal(t, p.want, w.fail.Invariant, w.fail.Text)
		})
	}
}

func TestATreeThatDiffersFromTheModelIsSeen(t *testing.T) {
	w := running(t)
	n := w.leader()
	for n.edge.machine.LastZxid() != w.history.model.zxid {
		h := w.queue.pop()
		w.now = h.at
		h.do()
	}
	w.history.compare(n)
	require.Nil(t, w.fail)
	w.history.model.node("/never").set(mstate{exists: true}, w.history.model.zxid)
	w.history.compare(n)
	require.NotNil(t, w.fail)
	require.Equal(t, "I-17", w.fail.Invariant)
}

func TestALeaderWithoutAQuorumIsSeen(t *testing.T) {
	w := running(t)
	l := w.leader()
	for _, o := range w.nodes {
		w.net.link(l.id, o.id).blocked = true
	}
	w.checks.onTurn(l)
	w.now += time.Minute
	w.checks.onTurn(l)
	require.NotNil(t, w.fail)
	require.Equal(t, "I-23", w.fail.Invariant)
}
