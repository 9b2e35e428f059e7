package follower

import (
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// answer is SYNCED or REVALIDATED, one of the two, waiting until this server has applied what it names (§13.1, R-48).
type answer struct {
	synced      *zab.Synced
	revalidated *zab.Revalidated
}

func (a answer) zxid() txn.Zxid {
	if a.synced != nil {
		return a.synced.Zxid
	}
	return a.revalidated.Zxid
}

// onSubmit forwards writes in the order in which they came. A request that never left this server is refused: it is certainly not in
// the history.
func (f *Follower) onSubmit(ev zab.Submit) {
	if f.stage == stageServing {
		for reqs := ev.Requests; len(reqs) > 0; {
			n := f.frameful(reqs)
			f.send(&zab.Requests{Requests: reqs[:n:n]})
			reqs = reqs[n:]
		}
		return
	}
	list := make([]zab.Refusal, len(ev.Requests))
	for i := range ev.Requests {
		list[i] = zab.RefusalOf(&ev.Requests[i], txn.RefusedNotLeader)
	}
	f.fx.Add(zab.Refuse{Refusals: list})
}

// frameful is how many of the requests go into one frame: at least one.
func (f *Follower) frameful(reqs []txn.Request) int {
	n, bytes := 1, reqs[0].Size()
	for n < len(reqs) && n < f.cfg.BatchCount {
		if bytes += reqs[n].Size(); bytes > f.cfg.BatchBytes {
			break
		}
		n++
	}
	return n
}

func (f *Follower) onSyncAsked(ev zab.SyncAsked) {
	if f.stage != stageServing {
		f.fx.Add(zab.SyncAnswer{Synced: zab.Synced{ID: ev.ID}})
		return
	}
	f.send(&zab.Sync{ID: ev.ID})
}

func (f *Follower) onRevalidateAsked(ev zab.RevalidateAsked) {
	if f.stage != stageServing {
		f.fx.Add(zab.RevalidateAnswer{Revalidated: zab.Revalidated{ID: ev.Revalidate.ID}})
		return
	}
	r := ev.Revalidate
	f.send(&r)
}

func (f *Follower) onAnswer(a answer) {
	if f.stage < stageServing {
		f.protocol("an answer to a question that was not asked")
		return
	}
	f.answers = append(f.answers, a)
}

// answer gives the own edge what it may have.
func (f *Follower) answer() {
	if f.stage == stageFenced {
		f.answers = nil // the edge has forgotten its questions
		return
	}
	keep := f.answers[:0]
	for _, a := range f.answers {
		switch {
		case a.zxid() > f.local.Hist.Applied:
			keep = append(keep, a)
		case a.synced != nil:
			f.fx.Add(zab.SyncAnswer{Synced: *a.synced})
		default:
			f.fx.Add(zab.RevalidateAnswer{Revalidated: *a.revalidated})
		}
	}
	f.answers = keep
}
