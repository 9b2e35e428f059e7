package difftest

import (
	"fmt"

	"github.com/zkd-project/zkd/proto"
)

// What the servers of a timed run wait for, in milliseconds. What is done between making a node and waiting for its end must be over
// before the shortest of them.
const (
	shortSession = 3000 // what a session gets that asks for less
	longSession  = 3600000
	sweepEvery   = 1500
	neverUsed    = 2000
	shortTTL     = 2000
)

// timedSteps makes an episode in which sessions expire and containers and TTL nodes are swept, a few things at a time: when exactly that
// happens is the server's own business, so each round ends with waiting for it on both.
func (g *generator) timedSteps(n int) []step {
	var out []step
	for slot := range slots {
		out = append(out, step{act: doOpen, slot: slot, timeout: longSession, hasReadOnly: true}, single(slot, g.super(slot)))
	}
	for round := 0; len(out) < n; round++ {
		root := fmt.Sprintf("/t%d", round)
		if g.chance(50) {
			out = append(out, g.expiry(root)...)
		} else {
			out = append(out, g.sweep(root)...)
		}
		for range 3 {
			out = append(out, g.watching(g.IntN(slots), pick(g, "/a", "/b", root)))
		}
		out = append(out, step{act: doFlush})
	}
	return out
}

func (g *generator) super(slot int) request {
	return g.request(slot, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte(superUser)})
}

func (g *generator) make(slot int, op proto.Op, path string, flags proto.CreateFlags) request {
	return g.request(slot, op, &proto.CreateRequest{Path: path, Data: g.data(), ACL: proto.OpenACL(), Flags: flags})
}

func (g *generator) makeTTL(slot int, path string, flags proto.CreateFlags, ttl int64) request {
	return g.request(slot, proto.OpCreateTTL, &proto.CreateTTLRequest{Path: path, Data: g.data(), ACL: proto.OpenACL(), Flags: flags, TTL: ttl})
}

// watching is a burst that watches paths of all kinds below root.
func (g *generator) watching(slot int, root string) step {
	s := step{act: doBurst, slot: slot}
	for _, p := range []string{root, root + "/x", root + "/y", root + "/x/z"} {
		op := pick(g, proto.OpExists, proto.OpGetData, proto.OpGetChildren, proto.OpGetChildren2)
		s.requests = append(s.requests, g.request(slot, op, &proto.PathWatchRequest{Path: p, Watch: g.chance(60)}))
	}
	if g.chance(50) {
		s.requests = append(s.requests, g.request(slot, proto.OpAddWatch, &proto.AddWatchRequest{Path: root, Mode: pick(g, proto.WatchPersistent, proto.WatchPersistentRecursive)}))
	}
	return s
}

// expiry makes a short session with ephemerals that are watched, and lets it expire, with its connection or without.
func (g *generator) expiry(root string) []step {
	slot := g.IntN(slots)
	other := (slot + 1 + g.IntN(slots-1)) % slots
	made := step{act: doBurst, slot: slot, requests: []request{g.super(slot)}}
	made.requests = append(made.requests, g.make(slot, proto.OpCreate, root, 0), g.make(slot, proto.OpCreate2, root+"/x", proto.FlagEphemeral),
		g.make(slot, proto.OpCreate, root+"/y", proto.FlagEphemeral), g.make(slot, proto.OpCreate, root+"/s", proto.FlagEphemeralSequential))
	after := step{act: doBurst, slot: other}
	for _, p := range []string{root, root + "/x", "/"} {
		after.requests = append(after.requests, g.request(other, proto.OpGetChildren2, &proto.PathWatchRequest{Path: p}))
	}
	return []step{
		{act: doBurst, slot: slot, requests: []request{{op: proto.OpCloseSession}}},
		{act: doOpen, slot: slot, timeout: 1, hasReadOnly: true}, made,
		g.watching(other, root), g.watching(slot, root),
		{act: doFlush},
		{act: doExpire, slot: slot, cut: g.chance(40)}, after,
		{act: doAttach, slot: slot, of: slot, timeout: longSession, hasReadOnly: true},
		{act: doOpen, slot: slot, timeout: longSession, hasReadOnly: true}, single(slot, g.super(slot)),
	}
}

// sweep makes nodes that go by themselves, one of them soon, and some that stay. Nothing is asked between the trigger, behind which a
// container may go at any moment, and the end of the wait for it.
func (g *generator) sweep(root string) []step {
	slot := g.IntN(slots)
	other := (slot + 1 + g.IntN(slots-1)) % slots
	x := root + "/x"
	made := step{act: doBurst, slot: slot, requests: []request{g.make(slot, proto.OpCreate, root, 0),
		// These stay: a container and a TTL node with a child, a TTL node whose time is long.
		g.make(slot, proto.OpCreateContainer, root+"/c", proto.FlagContainer), g.make(slot, proto.OpCreate, root+"/c/1", 0),
		g.makeTTL(slot, root+"/l", proto.FlagPersistentTTL, longSession)}}
	trigger := step{act: doBurst, slot: slot}
	until := x
	switch g.IntN(5) {
	case 0:
		made.requests = append(made.requests, g.make(slot, proto.OpCreateContainer, x, proto.FlagContainer), g.make(slot, proto.OpCreate, x+"/z", 0))
		trigger.requests = []request{g.request(slot, proto.OpDelete, &proto.DeleteRequest{Path: x + "/z", Version: -1})}
	case 1: // one in the other: the inner one goes first
		made.requests = append(made.requests, g.make(slot, proto.OpCreateContainer, x, proto.FlagContainer),
			g.make(slot, proto.OpCreateContainer, x+"/z", proto.FlagContainer), g.make(slot, proto.OpCreate, x+"/z/1", pick(g, proto.FlagPersistent, proto.FlagEphemeral)))
		trigger.requests = []request{g.request(slot, proto.OpDelete, &proto.DeleteRequest{Path: x + "/z/1", Version: -1})}
	case 2:
		made.requests = append(made.requests, g.makeTTL(slot, x, proto.FlagPersistentTTL, shortTTL))
	case 3: // the time begins again with a setData
		made.requests = append(made.requests, g.makeTTL(slot, x, proto.FlagPersistentTTL, shortTTL))
		trigger.requests = []request{g.request(slot, proto.OpSetData, &proto.SetDataRequest{Path: x, Data: g.data(), Version: -1})}
	case 4: // a container that never had a child
		made.requests = append(made.requests, g.make(slot, proto.OpCreateContainer, x, proto.FlagContainer))
	}
	look := step{act: doBurst, slot: other}
	for _, p := range []string{root, root + "/c", root + "/l", x} {
		look.requests = append(look.requests, g.request(other, proto.OpGetChildren2, &proto.PathWatchRequest{Path: p}))
	}
	out := []step{made, g.watching(other, root), g.watching(slot, root), {act: doFlush}}
	if len(trigger.requests) > 0 {
		out = append(out, trigger)
	}
	return append(out, step{act: doSweep, slot: slot, path: until}, look)
}
