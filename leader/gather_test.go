package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// gatherBench is a leader of three that holds requests back for a millisecond.
type gatherBench struct {
	*bench
	t *testing.T
}

func newGatherBench(t *testing.T) *gatherBench {
	b := &gatherBench{ledBench(t, 3, 3), t}
	b.local.Cfg.GatherLimit = time.Millisecond
	return b
}

// prepared counts the requests that fx hands to the state.
func prepared(fx []zab.Effect) (n int) {
	for _, p := range ofType[zab.Prepare](fx) {
		n += len(p.Requests)
	}
	return n
}

// submit brings n requests of this server's clients and returns how many were let go.
func (b *gatherBench) submit(n int) int {
	reqs := make([]txn.Request, n)
	for i := range reqs {
		reqs[i] = txn.Request{Op: proto.OpDelete, Origin: 1, Conn: 7, Session: 5}
	}
	return prepared(b.step(zab.Submit{Requests: reqs}))
}

// answer has a follower ack everything, so that the round ends, and returns how many requests were let go then.
func (b *gatherBench) answer() int {
	return prepared(b.hear(2, &zab.Ack{Kind: zab.AckPropose, Epoch: b.l.epoch, Durable: b.local.Hist.End.Zxid, Votable: true}))
}

// pass lets time go by until the leader wants to be called, and returns how many requests were let go then.
func (b *gatherBench) pass() int {
	b.now = b.l.Deadline()
	return prepared(b.step(zab.Tick{}))
}

func (b *gatherBench) held(n int) {
	b.t.Helper()
	require.Len(b.t, b.l.gather.held, n)
}

func TestALoneClientIsNeverHeld(t *testing.T) {
	b := newGatherBench(t)
	for range 100 {
		due := b.l.Deadline()
		require.Equal(t, 1, b.submit(1))
		require.Equal(t, due, b.l.Deadline(), "no timer is moved")
		require.Zero(t, b.answer())
		b.held(0)
	}
}

// Clients that come again fill one round after the other together, whatever the order in which they come.
func TestClientsThatComeAgainShareRounds(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(3), "a round is under way")
	require.Zero(t, b.answer(), "one was answered: four are expected")
	require.Equal(t, 4, b.submit(1))
	for range 10 {
		require.Zero(t, b.answer())
		require.Zero(t, b.submit(1))
		b.now = b.now.Add(100 * time.Microsecond)
		require.Zero(t, b.submit(2))
		b.held(3)
		require.Equal(t, 4, b.submit(1))
		b.held(0)
	}
}

// Who does not come again is waited for once, and then less and less often.
func TestWhoDoesNotComeAgainIsNotWaitedFor(t *testing.T) {
	b := newGatherBench(t)
	for failure, rest := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024} {
		require.Equal(t, 1, b.submit(1))
		require.Zero(t, b.submit(2))
		require.Zero(t, b.answer(), "three are expected, two are there")
		came := b.l.gather.since
		require.Equal(t, 2, b.pass())
		require.Equal(t, time.Millisecond, b.now.Sub(came))
		require.EqualValues(t, min(failure+1, gatherRestLog), b.l.gather.failure)
		for range rest / 2 { // the first one into a round that is under way
			require.Equal(t, 1, b.submit(1))
			require.Equal(t, 1, b.submit(1))
			b.answer()
		}
		b.step(zab.Tick{})
		require.Zero(t, b.l.gather.look)
		b.l.gather.expect = 1 // as after a lone write
		b.held(0)
		require.Zero(t, b.l.gather.rest)
	}
	require.Equal(t, 1, b.submit(1)) // they come again: it is worth while as before
	require.Zero(t, b.submit(1))
	require.Zero(t, b.answer())
	require.Equal(t, 2, b.submit(1))
	require.Zero(t, b.l.gather.failure)
}

// Failures without end wait no more often than the tenth did.
func TestWhoNeverComesAgainIsWaitedForSeldom(t *testing.T) {
	b := newGatherBench(t)
	for failure := range 200 {
		require.Equal(t, 1, b.submit(1))
		require.Zero(t, b.submit(2))
		require.Zero(t, b.answer())
		require.Equal(t, 2, b.pass())
		require.Equal(t, min(2<<min(failure, 20), gatherRest), b.l.gather.rest)
		b.answer()
		b.step(zab.Tick{})
		b.l.gather.rest, b.l.gather.expect = 0, 1 // as after that many rounds, and a lone write
	}
}

// A lone client between two who do not come again says nothing about these.
func TestALoneClientIsNoReasonToWaitForOthers(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(2))
	require.Zero(t, b.answer())
	require.Equal(t, 2, b.pass())
	for range 10 {
		b.answer()
		require.Equal(t, 1, b.submit(1))
		require.EqualValues(t, 1, b.l.gather.failure)
	}
}

// A slow round, or a slow disk, delays nobody for longer than the limit.
func TestRequestsAreHeldForTheLimitAtMost(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(1))
	came := b.now
	b.now = b.now.Add(300 * time.Microsecond)
	require.Zero(t, b.submit(1))
	require.Equal(t, 2, b.pass())
	require.Equal(t, time.Millisecond, b.now.Sub(came))
	require.Zero(t, b.l.gather.failure, "nobody was waited for")

	require.Zero(t, b.submit(1), "the next one has its own millisecond")
	came = b.now
	require.Equal(t, 1, b.pass())
	require.Equal(t, time.Millisecond, b.now.Sub(came))
}

// The time at which the leader looks is left where it is when the requests leave: it comes too early for the next ones at most.
func TestALookThatComesTooEarlyIsRepeated(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(1))
	look := b.l.Deadline()
	require.Zero(t, b.answer())
	require.Equal(t, 2, b.submit(1))
	b.now = b.now.Add(600 * time.Microsecond)
	require.Zero(t, b.submit(1))
	came := b.now
	require.Equal(t, look, b.l.Deadline())
	require.Zero(t, b.pass())
	require.Equal(t, 1, b.pass())
	require.Equal(t, time.Millisecond, b.now.Sub(came))
	require.Zero(t, b.pass(), "then there is nothing to look at")
	require.Greater(t, b.l.Deadline().Sub(b.now), 10*time.Millisecond)
}

func TestEnoughIsNotHeld(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(gatherCount-1))
	require.Equal(t, gatherCount, b.submit(1))
	require.Equal(t, gatherCount+5, b.submit(gatherCount+5))
	big := txn.Request{Op: proto.OpSetData, Origin: 1, Conn: 7, Session: 5, Payload: make([]byte, gatherBytes)}
	require.Equal(t, 1, prepared(b.step(zab.Submit{Requests: []txn.Request{big}})))
}

// Requests that are held count: the bound is on what is pending, wherever.
func TestHeldRequestsArePending(t *testing.T) {
	b := newGatherBench(t)
	b.local.Cfg.MaxPending = 5
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(3))
	var st zab.Status
	b.l.Status(&st)
	require.Equal(t, 4, st.Pending)
	fx := b.step(zab.Submit{Requests: make([]txn.Request, 3)})
	require.Len(t, ofType[zab.Refuse](fx)[0].Refusals, 2)
	b.held(4)
}

// A handover takes along what was let in.
func TestAHandoverLetsGo(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(3))
	require.Equal(t, 3, prepared(b.step(zab.HandOver{})))
	b.answer()
	b.hear(3, &zab.Ack{Kind: zab.AckPropose, Epoch: b.l.epoch, Durable: b.local.Hist.End.Zxid, Votable: true})
	require.NotNil(t, b.l.Leave())
	require.Equal(t, txn.MakeZxid(1, 5), b.local.Hist.Commit)
}

// A disk that fills meanwhile refuses what is held, to whom it belongs.
func TestAFullDiskRefusesWhatIsHeld(t *testing.T) {
	b := newGatherBench(t)
	require.Equal(t, 1, b.submit(1))
	require.Zero(t, b.submit(1))
	require.Zero(t, prepared(b.hear(3, &zab.Requests{Requests: []txn.Request{{Op: proto.OpDelete, Origin: 3, Conn: 9, Session: 6}}})))
	b.local.DiskFull = true
	fx := b.step(zab.Disk{Full: true})
	require.Zero(t, prepared(fx))
	b.held(0)
	own := ofType[zab.Refuse](fx)
	require.Len(t, own, 1)
	require.Equal(t, txn.RefusedDiskFull, own[0].Refusals[0].Code)
	var theirs []*zab.Refused
	for _, s := range ofType[zab.Send](fx) {
		if p, ok := s.Packet.(*zab.Refused); ok && s.Conn == 3 {
			theirs = append(theirs, p)
		}
	}
	require.Len(t, theirs, 1)
	require.EqualValues(t, 9, theirs[0].Refusals[0].Conn)
}
