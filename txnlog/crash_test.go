package txnlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

// world is one server's log under a random workload, and what the log owes.
type world struct {
	t     *testing.T
	d     *simdisk.Disk
	rng   *rand.Rand // of the workload, the same in every run of a seed
	l     *txnlog.Log
	h     history      // everything that an Append or Truncate that returned nil has left
	may   []txn.Record // what the log holds instead if the call that failed happened after all
	base  txn.Record   // of the snapshot
	mark  txn.Zxid     // the watermark in the hard state
	epoch txn.Epoch
	story []string
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, d: newDisk(), rng: newRand(seed), epoch: 1}
}

func (w *world) start() txnlog.Start {
	return txnlog.Start{Generation: 1, Base: w.base.Zxid, BaseChain: w.base.Chain, Watermark: w.mark, Unclean: true}
}

func (w *world) open() error {
	l, _, _, err := reopen(w.d, w.start())
	w.l = l
	return err
}

// work does n operations or fewer, up to the first error.
func (w *world) work(n int) error {
	for range n {
		var err error
		switch p := w.rng.IntN(100); {
		case p < 12 && len(w.h.recs) > 0:
			err = w.truncate()
		case p < 22:
			w.say("confirm")
			err = w.l.Confirm(w.base.Zxid)
		case p < 30 && len(w.h.recs) > 3:
			err = w.purge()
		case p < 40:
			w.mark, _ = w.h.end()
			w.say("watermark %v", w.mark)
		default:
			err = w.append()
		}
		if err != nil {
			return err
		}
		w.may = nil
	}
	return nil
}

func (w *world) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) append() error {
	next := w.h
	next.recs = slices.Clone(w.h.recs)
	recs := next.make(1+w.rng.IntN(3), w.rng.IntN(5000), w.epoch)
	w.say("append %v..%v", recs[0].Zxid, recs[len(recs)-1].Zxid)
	w.may = next.recs
	err := w.l.Append(recs, w.base.Zxid)
	if err == nil {
		w.h = next
	}
	return err
}

func (w *world) truncate() error {
	i := max(0, len(w.h.recs)-1-w.rng.IntN(12))
	to := w.h.recs[i]
	if to.Zxid < w.base.Zxid {
		to = w.base
	}
	if w.base.Zxid == 0 && w.rng.IntN(6) == 0 {
		to = txn.Record{}
	}
	w.say("truncate %v", to.Zxid)
	next := w.h
	next.cut(to.Zxid)
	w.may = next.recs
	w.mark = min(w.mark, to.Zxid) // O4
	w.epoch++
	err := w.l.Truncate(to.Zxid, to.Chain)
	if err == nil {
		w.h = next
	}
	return err
}

func (w *world) purge() error {
	if next := w.h.recs[len(w.h.recs)-1-w.rng.IntN(3)]; w.rng.IntN(2) == 0 && next.Zxid > w.base.Zxid {
		w.base = next
	}
	w.say("purge %v", w.base.Zxid)
	if _, err := w.l.Purge(w.base.Zxid, 0); err != nil {
		return err
	}
	return w.sweep(w.rng.IntN(4))
}

// sweep deletes n files at most; the rest waits beside whatever comes next.
func (w *world) sweep(n int) error {
	for ; n > 0; n-- {
		if more, err := w.l.Sweep(); !more || err != nil {
			return err
		}
	}
	return nil
}

// check demands that the log that was just opened is one of those it may be, and takes that one for what it is.
func (w *world) check(hint string) {
	w.t.Helper()
	oldest, _ := w.l.Oldest()
	require.LessOrEqual(w.t, oldest, w.base.Zxid, hint)
	end, _ := w.l.End()
	if want, _ := w.h.end(); end != want && w.may != nil {
		w.h.recs = w.may
	}
	w.may = nil
	if e, _ := w.h.end(); e != end {
		require.Equal(w.t, e, end, "%s\n%v", hint, w.story)
	}
	requireHolds(w.t, w.l, &w.h, oldest)
	w.mark = end
	w.epoch++
}

// survive opens the log, now and then through a second power cut on the way, and checks it.
func (w *world) survive(hint string, luck *rand.Rand) {
	w.t.Helper()
	if luck.IntN(2) == 0 {
		w.d.CrashAt(w.d.Steps() + 1 + luck.IntN(8))
		err := w.open()
		w.d.CrashAt(0)
		if err != nil {
			require.ErrorIs(w.t, err, simdisk.ErrPowerCut, "%s\n%v", hint, w.story)
		} else {
			w.check(hint) // it has stated its end: from now on that is owed
		}
		w.d.Crash(luck)
		w.d.Reboot()
	}
	require.NoError(w.t, w.open(), "%s\n%v", hint, w.story)
	w.check(hint)
}

const workload = 45

// seeds is few for every day; ZKD_LOG_SEEDS=from-to hunts.
func seeds() []uint64 {
	from, to := uint64(0), uint64(2)
	if s := os.Getenv("ZKD_LOG_SEEDS"); s != "" {
		if _, err := fmt.Sscanf(s, "%d-%d", &from, &to); err != nil {
			panic(err)
		}
	}
	var out []uint64
	for s := from; s <= to; s++ {
		out = append(out, s)
	}
	return out
}

// stepsOf counts the steps of the workload of one seed.
func stepsOf(t *testing.T, seed uint64) int {
	w := newWorld(t, seed)
	require.NoError(t, w.open())
	require.NoError(t, w.work(workload))
	return w.d.Steps()
}

// K23, K39, K43, K44, K71: whatever Append or Truncate returned nil for is so after a power cut at any step, and work goes on.
func TestPowerCutAtEveryStep(t *testing.T) {
	for _, seed := range seeds() {
		for step := 1; step <= stepsOf(t, seed); step++ {
			for fate := range uint64(4) {
				hint := fmt.Sprintf("seed %d step %d fate %d", seed, step, fate)
				luck := rand.New(rand.NewPCG(fate, uint64(step)))
				w := newWorld(t, seed)
				w.d.CrashAt(step)
				err := w.open()
				if err == nil {
					err = w.work(workload)
				}
				require.ErrorIs(t, err, simdisk.ErrPowerCut, hint)
				w.d.Crash(luck)
				w.d.Reboot()
				w.survive(hint, luck)
				require.NoError(t, w.work(8), hint)
				w.d.Crash(luck)
				w.d.Reboot()
				w.survive(hint, luck)
			}
		}
	}
}

// A failed call ends the log. What it did is readable and maybe not durable; after the next start it must be one of the two.
func TestFailureAtEveryStep(t *testing.T) {
	for _, seed := range seeds() {
		for step := 1; step <= stepsOf(t, seed); step++ {
			for fate := range uint64(4) {
				hint := fmt.Sprintf("seed %d step %d fate %d", seed, step, fate)
				luck := rand.New(rand.NewPCG(fate, uint64(step)))
				w := newWorld(t, seed)
				w.d.FailAt(step, syscall.EIO)
				if err := w.open(); err == nil {
					err = w.work(workload)
					require.ErrorIs(t, err, syscall.EIO, hint)
					require.ErrorIs(t, err, txnlog.ErrBroken, hint)
					w.requireBroken(hint)
				}
				w.d.Kill()
				if fate == 0 {
					w.d.Crash(luck)
					w.d.Reboot()
				}
				require.NoError(t, w.open(), "%s\n%v", hint, w.story)
				w.check(hint)
				require.NoError(t, w.work(4), hint)
				w.d.Crash(luck)
				w.d.Reboot()
				w.survive(hint, luck)
			}
		}
	}
}

func (w *world) requireBroken(hint string) {
	steps := w.d.Steps()
	end, chain := w.l.End()
	_, purged := w.l.Purge(0, 0)
	_, swept := w.l.Sweep()
	_, read := w.l.ReadAfter(0, 1)
	_, at := w.l.ChainAt(end)
	for _, err := range []error{
		w.l.Append(nil, 0), w.l.Confirm(0), w.l.Truncate(end, chain), w.l.Reset(2, 0, 0), w.l.RemoveOldGenerations(), purged, swept, read, at,
	} {
		require.ErrorIs(w.t, err, txnlog.ErrBroken, hint)
		require.ErrorIs(w.t, err, syscall.EIO, hint)
	}
	require.Equal(w.t, steps, w.d.Steps(), "nothing is tried again")
}

// K16: an install of a snapshot that the power ends leaves the old log or the new one, as the manifest says.
func TestPowerCutAtEveryStepOfAnInstall(t *testing.T) {
	base := history{base: txn.MakeZxid(5, 3), baseChain: 99}
	for step := 1; ; step++ {
		finished := false
		for fate := range uint64(6) {
			hint := fmt.Sprintf("step %d fate %d", step, fate)
			luck := rand.New(rand.NewPCG(fate, uint64(step)))
			w := newWorld(t, 1)
			require.NoError(t, w.open())
			require.NoError(t, w.work(workload))
			s, owed := w.start(), w.h
			w.d.CrashAt(w.d.Steps() + step)
			err := w.l.Reset(2, base.base, base.baseChain)
			if err == nil { // here the manifest becomes durable
				s = txnlog.Start{Generation: 2, Base: base.base, BaseChain: base.baseChain, Unclean: true}
				owed = history{base: base.base, baseChain: base.baseChain}
				err = w.l.RemoveOldGenerations()
			}
			if err == nil {
				next := owed
				recs := next.make(2, 100, 5)
				if err = w.l.Append(recs, 0); err == nil {
					owed = next
					finished = true
				}
			}
			w.d.Crash(luck)
			w.d.Reboot()
			l, _, _, openErr := reopen(w.d, s)
			require.NoError(t, openErr, hint)
			if end, _ := l.End(); err != nil && s.Generation == 2 && end != owed.base {
				owed.make(2, 100, 5) // the append under which the power went has survived
			}
			oldest, _ := l.Oldest()
			requireHolds(t, l, &owed, oldest)
			if s.Generation == 1 {
				require.NoError(t, l.Reset(2, base.base, base.baseChain), hint)
			}
			require.NoError(t, l.RemoveOldGenerations(), hint)
			for _, name := range names(t, w.d) {
				require.Contains(t, name, "log.0000000000000002.", hint)
			}
		}
		if finished {
			return
		}
	}
}

func names(t *testing.T, d *simdisk.Disk) (out []string) {
	entries, err := d.List(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}
