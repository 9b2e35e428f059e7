package difftest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

func TestTheSameSeedMakesTheSameSteps(t *testing.T) {
	a, b := newGenerator(7, Options{}).steps(500), newGenerator(7, Options{}).steps(500)
	require.Equal(t, a, b)
	require.NotEqual(t, a, newGenerator(8, Options{}).steps(500))
}

// Every code of the protocol is asked for, and nothing that would take the original down.
func TestWhatIsAskedFor(t *testing.T) {
	ops := map[proto.Op]int{}
	acts := map[action]int{}
	for seed := range uint64(40) {
		for _, s := range newGenerator(seed, Options{Timed: seed%10 == 9}).steps(1000) {
			acts[s.act]++
			for i, q := range s.requests {
				ops[q.op]++
				require.False(t, neverSent(q.op))
				require.NotEqual(t, proto.XidNotification, q.xid)
				require.NotPanics(t, func() { _ = q.String() })
				if q.op == proto.OpSetACL {
					require.Equal(t, len(s.requests)-1, i, "a setACL ends its burst")
				}
				requireHarmless(t, q)
			}
		}
	}
	for op := proto.Op(-20); op < 200; op++ {
		if op.Known() && !neverSent(op) {
			require.Positive(t, ops[op], op)
		}
	}
	for act := doOpen; act <= doFlush; act++ {
		require.Positive(t, acts[act], act)
	}
}

// requireHarmless looks for the requests of differences.go.
func requireHarmless(t *testing.T, q request) {
	var parts []proto.MultiOp
	if q.op == proto.OpMulti {
		parts, _ = proto.DecodeMulti(proto.NewReader(q.body))
	} else if rec := proto.NewRequest(q.op); rec != nil && rec.Decode(proto.NewReader(q.body)) == nil {
		parts = []proto.MultiOp{{Op: q.op, Request: rec}}
	}
	for _, p := range parts {
		path, data := "", []byte(nil)
		switch m := p.Request.(type) {
		case *proto.CreateTTLRequest:
			require.False(t, !m.Flags.TTL() && m.TTL < 0, "%v", m)
			path, data = m.Path, m.Data
		case *proto.CreateRequest:
			path, data = m.Path, m.Data
		case *proto.SetDataRequest:
			path, data = m.Path, m.Data
		}
		require.NotEqual(t, "/zookeeper/quota/zookeeper_limits", path)
		if strings.HasSuffix(path, "/zookeeper_stats") || strings.HasSuffix(path, "/zookeeper_limits") {
			require.Regexp(t, `^(count|bytes)=-?\d+`, string(data), "%s", path)
		}
	}
}

// A damaged body is none, or the same request with something behind it.
func TestDamageMakesNoOtherRequest(t *testing.T) {
	g := newGenerator(1, Options{})
	whole := g.request(0, proto.OpCreateTTL, &proto.CreateTTLRequest{Path: "/a", ACL: proto.OpenACL(), Flags: 5, TTL: 1000})
	want := fmt.Sprint(whole)[strings.Index(fmt.Sprint(whole), "createTTL"):]
	damaged := 0
	for range 3000 {
		q := whole
		q.body = append([]byte(nil), whole.body...)
		q = g.damage(q)
		if len(q.body) != len(whole.body) || string(q.body) != string(whole.body) {
			damaged++
			text := q.String()
			require.True(t, strings.Contains(text, "undecodable") || strings.HasSuffix(text, want), text)
		}
	}
	require.Positive(t, damaged)
}

func TestShrinkFindsTheTwoStepsThatMatter(t *testing.T) {
	steps := make([]step, 300)
	for i := range steps {
		steps[i].slot = i
	}
	asked := 0
	has := func(part []step, slot int) bool {
		for _, s := range part {
			if s.slot == slot {
				return true
			}
		}
		return false
	}
	small := shrink(steps, 200, func(part []step) bool { asked++; return has(part, 17) && has(part, 299) })
	require.Len(t, small, 2)
	require.LessOrEqual(t, asked, 200)
	require.Len(t, steps, 300)
	require.Equal(t, 299, steps[299].slot)

	burst := []step{{act: doBurst, requests: []request{{xid: 1}, {xid: 2}, {xid: 3}}}}
	one := shrinkBursts(burst, 10, func(part []step) bool {
		for _, q := range part[0].requests {
			if q.xid == 2 {
				return true
			}
		}
		return false
	})
	require.Equal(t, []request{{xid: 2}}, one[0].requests)
	require.Len(t, burst[0].requests, 3)
}
