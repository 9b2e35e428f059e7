package peer_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// life is a server's life in disk operations; the first is the start.
func life(in sent) []func(w *world) error {
	hard := func(accepted, current int) func(w *world) error {
		return func(w *world) error {
			return w.save(zab.HardState{ClusterID: 5, Accepted: txn.Epoch(accepted), AcceptedLeader: 2, Current: txn.Epoch(current)})
		}
	}
	write := func(epoch, count int, commit txn.Zxid) func(w *world) error {
		return func(w *world) error { return w.write(epoch, count, commit) }
	}
	snap := func(at txn.Zxid) func(w *world) error { return func(w *world) error { return w.snapshot(at) } }
	later := func(at txn.Zxid) func(w *world) error { // what this lets go of is deleted by the next sweep
		return func(w *world) error {
			sw, err := w.begin(at)
			if err == nil {
				_, err = w.s.FinishSnapshot(sw)
			}
			return err
		}
	}
	sweep := func(n int) func(w *world) error {
		return func(w *world) error {
			for ; n > 0; n-- {
				if _, err := w.s.Sweep(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	cut := func(to txn.Zxid) func(w *world) error { return func(w *world) error { return w.truncate(to) } }
	return []func(w *world) error{
		(*world).open,
		hard(1, 0), write(1, 3, 0), hard(1, 1),
		func(w *world) error { return w.s.Initialize(5) },
		write(1, 6, z(1, 3)), snap(z(1, 6)), write(1, 5, z(1, 9)),
		func(w *world) error { return w.s.Confirm(z(1, 12)) },
		snap(z(1, 12)), write(1, 6, z(1, 12)), later(z(1, 14)),
		cut(z(1, 16)), sweep(1), write(2, 3, 0), hard(2, 2), cut(z(1, 13)), sweep(9), write(3, 20, 0), later(z(3, 5)), sweep(1),
		func(w *world) error { return w.install(in) },
		hard(5, 5), write(5, 2, z(5, 5)), snap(z(5, 5)), write(5, 9, z(5, 6)), later(z(5, 9)), write(5, 2, 0), sweep(9),
		func(w *world) error { return w.s.Close(true) },
	}
}

// memory is what a restart has to find: as it was before the operation under which the power went, or after it.
type memory struct {
	hist []txn.Zxid
	hard zab.HardState
}

func (w *world) memory() memory { return memory{hist: w.zxids(), hard: w.hard} }

func (w *world) check(t *testing.T, allowed ...memory) {
	t.Helper()
	rec := w.rec
	require.False(t, rec.Hard.Recovering, "a power cut is taken for corruption: %s", rec.Recovering)
	found := memory{hist: w.found(), hard: rec.Hard}
	require.True(t, slices.ContainsFunc(allowed, func(m memory) bool { return slices.Equal(m.hist, found.hist) }),
		"found %v, allowed %v", found.hist, allowed)
	require.True(t, slices.ContainsFunc(allowed, func(m memory) bool { return m.hard == found.hard }),
		"found %+v, allowed %+v", found.hard, allowed)
	table := zab.EpochTable{Whole: true}
	for _, z := range w.state.zxids {
		table.Extend(z, 0)
	}
	require.Len(t, rec.Table.Ends, len(table.Ends))
	for i := range table.Ends {
		require.Equal(t, table.Ends[i].Last, rec.Table.Ends[i].Last)
	}
	last := rec.Applied.Zxid
	for _, r := range rec.Tail {
		require.Equal(t, last, r.Prev)
		last = r.Zxid
	}
	require.Equal(t, last, rec.End.Zxid)
	require.LessOrEqual(t, rec.Base.Zxid, rec.Applied.Zxid)
	require.LessOrEqual(t, rec.SnapshotAt.Zxid, rec.Applied.Zxid)
	require.GreaterOrEqual(t, rec.Commit, rec.Applied.Zxid)
}

// live runs the operations until one fails. It returns what may be found, and whether all went well.
func (w *world) live(ops []func(w *world) error) ([]memory, bool) {
	for _, op := range ops {
		before := w.memory()
		if err := op(w); err != nil {
			return []memory{before, w.memory()}, false
		}
	}
	return []memory{w.memory()}, true
}

// The power goes in every step of a whole life, then once more in some step of the restart; what was durable is there, nothing
// is half there, and the server goes on.
func TestPowerCutAtEveryStepOfALife(t *testing.T) {
	in := leaderSnapshot(t)
	ops := life(in)
	for step := 1; ; step++ {
		whole := false
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, uint64(step)))
			w := newWorld()
			w.d.CrashAt(step)
			var allowed []memory
			allowed, whole = w.live(ops)
			w.d.Crash(rng)
			w.d.Reboot()

			w.d.CrashAt(w.d.Steps() + 1 + rng.IntN(40))
			_ = w.open() // it may come to its end before the power goes
			w.d.Crash(rng)
			w.d.Reboot()

			w.mustOpen(t)
			w.check(t, allowed...)
			boot := w.rec.Boot
			m, err := peer.ReadManifest(w.d, folder())
			require.NoError(t, err)
			require.Len(t, w.snapshotNames(t), len(m.Snapshots), "what the manifest does not name is gone")

			w.adopt()
			epoch := int(w.end().Zxid.Epoch()) + 1
			require.NoError(t, w.write(epoch, 3, 0))
			require.NoError(t, w.s.Close(seed%2 == 0))
			w.mustOpen(t)
			require.Equal(t, w.zxids(), w.found(), "step %d", step)
			require.Greater(t, w.rec.Boot, boot)
		}
		if whole {
			require.Greater(t, step, 100, "the life was not cut at all its steps")
			return
		}
	}
}

// adopt takes over the history that was found; only the end's chain is needed to go on.
func (w *world) adopt() {
	w.hist = nil
	for _, z := range w.found() {
		w.hist = append(w.hist, zab.Position{Zxid: z})
	}
	if n := len(w.hist); n > 0 {
		w.hist[n-1] = w.rec.End
	}
}

// Every step of a life fails once. After that nothing is taken any more. A restart of the process alone sees what the kernel still has in
// memory; what it says and promises on that ground has to survive a power cut afterwards.
func TestDiskErrorAtEveryStepOfALife(t *testing.T) { failEverywhere(t, life(leaderSnapshot(t)), 4) }

// The same for the first steps of all, more often: names that a failed fsync of the folder has lost.
func TestDiskErrorAtEveryStepOfAFirstStart(t *testing.T) {
	failEverywhere(t, life(leaderSnapshot(t))[:4], 30)
}

func failEverywhere(t *testing.T, ops []func(w *world) error, seeds uint64) {
	t.Helper()
	boom := errors.New("boom")
	for step := 1; ; step++ {
		for seed := range seeds {
			w := newWorld()
			w.d.FailAt(step, boom)
			allowed, _ := w.live(ops)
			if step > w.d.Steps() {
				require.Greater(t, step, 4*len(ops), "not all steps were reached")
				return
			}
			if w.s != nil {
				if err := w.s.Confirm(0); err != nil {
					require.Error(t, w.s.SaveHardState(w.hard), "it refuses everything")
					require.Error(t, w.s.Initialize(5))
				}
			}
			if seed%2 == 0 {
				w.d.Kill()
				w.mustOpen(t)
				w.check(t, allowed...)
				w.hard = w.rec.Hard
				w.adopt()
				if seed%4 == 0 {
					epoch := w.end().Zxid.Epoch() + 1
					require.NoError(t, w.save(zab.HardState{ClusterID: 5, Accepted: epoch + 5, Current: epoch}))
					require.NoError(t, w.write(int(epoch), 2, 0))
				}
				allowed = []memory{w.memory()}
			}
			w.d.Crash(rand.New(rand.NewPCG(seed, uint64(step))))
			w.d.Reboot()
			w.mustOpen(t)
			w.check(t, allowed...)
		}
	}
}

// A start that finds damage is cut off in every step. Whatever it has done by then, the next one still knows that something was lost.
func TestPowerCutWhileFindingDamage(t *testing.T) {
	for name, damage := range damages(t) {
		t.Run(name, func(t *testing.T) {
			for step := 1; ; step++ {
				whole := false
				for seed := range uint64(2) {
					w := grown(t)
					require.NoError(t, w.s.Confirm(0))
					damage.do(t, w)
					w.d.Kill()
					for _, dir := range []string{folder(), dataDir} {
						require.NoError(t, w.d.SyncDir(dir)) // damage is not undone by the power cut
					}
					w.d.CrashAt(w.d.Steps() + step)
					whole = w.open() == nil
					w.d.Crash(rand.New(rand.NewPCG(seed, uint64(step))))
					w.d.Reboot()
					rec := w.mustOpen(t)
					require.True(t, rec.Hard.Recovering, "step %d", step)
					require.False(t, rec.Fresh)
					require.Equal(t, damage.left, w.found(), "step %d", step)
					w.checkAside(t, damage.aside)
				}
				if whole {
					require.Greater(t, step, 10)
					return
				}
			}
		})
	}
}
