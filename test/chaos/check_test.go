package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// The checkers take a history and return what is wrong with it. They know what a client may believe, and nothing of zkd.

// node is the model of one register.
type node struct {
	there   bool
	version int32
	value   string
}

// step tells whether o can have got its answer from st, and what is there afterwards. An op of unknown outcome takes effect if it can: one
// that never did is put behind everything else.
func step(st node, o *op) (bool, node) {
	fits := o.Expect < 0 || o.Expect == st.version
	next := st
	switch o.Kind {
	case set, cas:
		next = node{true, st.version + 1, o.Value}
	case create:
		next = node{true, 0, o.Value}
	case remove:
		next = node{}
	}
	var can bool
	switch o.Kind {
	case create:
		can = !st.there
	default:
		can = st.there && fits
	}
	switch o.Result {
	case unknown:
		if !can {
			next = st
		}
		return true, next
	case none:
		return !st.there && o.Kind != create, st
	case exists:
		return st.there && o.Kind == create, st
	case version:
		return st.there && !fits, st
	}
	if !can {
		return false, st
	}
	switch o.Kind {
	case read, fresh:
		return o.Version == st.version && o.Value == st.value, st
	case set, cas, create:
		return o.Version == next.version, next
	}
	return true, next
}

var register = porcupine.Model{
	Init: func() any { return node{} },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := step(state.(node), input.(*op))
		return ok, next
	},
}

// linearizable checks writes, and reads behind a sync, node by node. undecided counts nodes whose check took too long.
func linearizable(ops []*op) (bad []string, undecided int) {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range ops {
		if o.Result == nothing || o.Kind == read || o.Kind == seq || o.Result == unknown && o.Kind == fresh {
			continue
		}
		end := o.Return
		if o.Result == unknown {
			end = math.MaxInt64
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{Input: o, Call: o.Call, Return: end})
	}
	for key, list := range byKey {
		switch porcupine.CheckOperationsTimeout(register, list, 3*time.Second) {
		case porcupine.Illegal:
			bad = append(bad, fmt.Sprintf("the %d operations on %s are not linearizable", len(list), key))
		case porcupine.Unknown:
			undecided++
		}
	}
	return bad, undecided
}

// ordered: a write that began after another was acknowledged has the larger zxid.
func ordered(ops []*op) (bad []string) {
	var calls, returns []*op
	for _, o := range ops {
		if o.Result == done && o.Zxid != 0 && o.Kind != read && o.Kind != fresh {
			calls, returns = append(calls, o), append(returns, o)
		}
	}
	slices.SortFunc(calls, func(a, b *op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(returns, func(a, b *op) int { return cmp.Compare(a.Return, b.Return) })
	top := &op{}
	for _, o := range calls {
		for len(returns) > 0 && returns[0].Return < o.Call {
			if returns[0].Zxid > top.Zxid {
				top = returns[0]
			}
			returns = returns[1:]
		}
		if o.Zxid <= top.Zxid {
			bad = append(bad, fmt.Sprintf("a write to %s has zxid %x, one to %s that was acknowledged before it began has %x", o.Key, o.Zxid, top.Key, top.Zxid))
		}
	}
	return bad
}

// chains looks at nodes that are never deleted: along the zxids versions grow by one per write, so that none is lost and none
// happens twice; a zxid names one value; and no session reads less than it knows of.
func chains(ops []*op) (bad []string) {
	type fact struct {
		version int32
		value   string
	}
	facts := map[string]map[int64]fact{}
	acked := map[string][]*op{}
	maybe := map[string]int{}
	for _, o := range ops {
		if !strings.HasPrefix(o.Key, kept) {
			continue
		}
		if o.Result == unknown && o.Kind != read && o.Kind != fresh {
			maybe[o.Key]++
		}
		if o.Result != done {
			continue
		}
		if o.Kind != read && o.Kind != fresh {
			acked[o.Key] = append(acked[o.Key], o)
		}
		if facts[o.Key] == nil {
			facts[o.Key] = map[int64]fact{}
		}
		seen, ok := facts[o.Key][o.Zxid]
		if now := (fact{o.Version, o.Value}); ok && seen != now {
			bad = append(bad, fmt.Sprintf("%s at zxid %x is %v and %v", o.Key, o.Zxid, seen, now))
		}
		facts[o.Key][o.Zxid] = fact{o.Version, o.Value}
	}
	for key, at := range facts {
		zxids := make([]int64, 0, len(at))
		for z := range at {
			zxids = append(zxids, z)
		}
		slices.Sort(zxids)
		for i := 1; i < len(zxids); i++ {
			if a, b := at[zxids[i-1]], at[zxids[i]]; b.version <= a.version {
				bad = append(bad, fmt.Sprintf("%s has version %d at zxid %x and %d at %x", key, a.version, zxids[i-1], b.version, zxids[i]))
			}
		}
		last := int(at[zxids[len(zxids)-1]].version)
		if n := len(acked[key]); last+1 < n || last+1 > n+maybe[key] {
			bad = append(bad, fmt.Sprintf("%s ends at version %d after %d acknowledged writes and %d of unknown outcome", key, last, n, maybe[key]))
		}
		slices.SortFunc(acked[key], func(a, b *op) int { return cmp.Compare(a.Zxid, b.Zxid) })
	}
	for _, o := range ops {
		if o.Kind != read || o.Result != done || acked[o.Key] == nil {
			continue
		}
		list := acked[o.Key]
		i, _ := slices.BinarySearchFunc(list, o.View+1, func(w *op, z int64) int { return cmp.Compare(w.Zxid, z) })
		if i > 0 && list[i-1].Zxid > o.Zxid {
			bad = append(bad, fmt.Sprintf("session %x knew zxid %x and read %s as of %x, though it had been written at %x",
				o.Session, o.View, o.Key, o.Zxid, list[i-1].Zxid))
		}
	}
	return bad
}

// latest: a read behind a sync is not older than anything about its node that anybody was told before it began.
func latest(ops []*op) (bad []string) {
	byKey := map[string][]*op{}
	for _, o := range ops {
		if strings.HasPrefix(o.Key, kept) && o.Result == done {
			byKey[o.Key] = append(byKey[o.Key], o)
		}
	}
	for key, told := range byKey {
		reads := slices.DeleteFunc(slices.Clone(told), func(o *op) bool { return o.Kind != fresh })
		slices.SortFunc(reads, func(a, b *op) int { return cmp.Compare(a.Call, b.Call) })
		slices.SortFunc(told, func(a, b *op) int { return cmp.Compare(a.Return, b.Return) })
		top := int64(0)
		for _, o := range reads {
			for len(told) > 0 && told[0].Return < o.Call {
				top, told = max(top, told[0].Zxid), told[1:]
			}
			if o.Zxid < top {
				bad = append(bad, fmt.Sprintf("a read of %s behind a sync says zxid %x, %x was known before it began", key, o.Zxid, top))
			}
		}
	}
	return bad
}

// numbered: sequential names are unique, and their numbers grow with the zxid.
func numbered(ops []*op) (bad []string) {
	var list []*op
	for _, o := range ops {
		if o.Kind == seq && o.Result == done {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *op) int { return cmp.Compare(a.Zxid, b.Zxid) })
	last := -1
	for _, o := range list {
		n, err := strconv.Atoi(o.Key[len(o.Key)-10:])
		if err != nil || n <= last {
			bad = append(bad, fmt.Sprintf("%s was created at zxid %x, after number %d", o.Key, o.Zxid, last))
		}
		last = n
	}
	return bad
}

// unexpected lists answers that nobody should get.
func unexpected(ops []*op) (bad []string) {
	for _, o := range ops {
		if strings.HasPrefix(string(o.Result), "unexpected") {
			bad = append(bad, fmt.Sprintf("%s %s: %s", o.Kind, o.Key, o.Result))
		}
	}
	return bad
}

func TestCheckersSeeWhatIsWrong(t *testing.T) {
	w := func(k kind, call, ret int64, v int32, zxid int64, r result) *op {
		return &op{Kind: k, Key: kept + "x", Value: fmt.Sprint(zxid), Expect: -1, Call: call, Return: ret, Version: v, Zxid: zxid, Result: r}
	}
	good := []*op{w(create, 1, 2, 0, 10, done), w(set, 3, 9, 1, 11, unknown), w(set, 4, 5, 2, 12, done),
		w(fresh, 6, 7, 2, 12, done), w(read, 6, 7, 0, 10, done)}
	all := func(ops []*op) []string {
		bad, undecided := linearizable(ops)
		require.Zero(t, undecided)
		return slices.Concat(bad, ordered(ops), chains(ops), latest(ops), numbered(ops), unexpected(ops))
	}
	require.Empty(t, all(good))
	lost := w(fresh, 8, 9, 0, 10, done)
	require.NotEmpty(t, all(append(slices.Clone(good), lost)), "a lost write")
	require.NotEmpty(t, latest(append(slices.Clone(good), lost)), "a lost write")
	stale := w(read, 8, 9, 0, 10, done)
	stale.View = 12
	require.NotEmpty(t, all(append(slices.Clone(good), stale)), "a session goes back")
	require.NotEmpty(t, all(append(slices.Clone(good), w(set, 8, 9, 3, 9, done))), "a zxid that goes back")
	require.NotEmpty(t, all(append(slices.Clone(good), w(set, 8, 9, 4, 14, done))), "a write that happened twice")
	require.NotEmpty(t, all(append(slices.Clone(good), w(set, 8, 9, 2, 14, done))), "a version given twice")
	twice := []*op{{Kind: seq, Key: "/q/n0000000001", Zxid: 1, Result: done}, {Kind: seq, Key: "/q/n0000000001", Zxid: 2, Result: done}}
	require.NotEmpty(t, all(twice), "a number given twice")
	require.NotEmpty(t, all([]*op{w(set, 1, 2, 0, 0, "unexpected: x")}))
}
