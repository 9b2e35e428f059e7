package difftest

import (
	"math"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// maker makes the record of a request.
type maker func(*generator) proto.Record

// ordinaryOps are the requests that may stand anywhere in a burst.
var ordinaryOps = []weighted[proto.Op]{
	{120, proto.OpCreate}, {60, proto.OpCreate2}, {20, proto.OpCreateContainer}, {25, proto.OpCreateTTL}, {110, proto.OpDelete},
	{110, proto.OpSetData}, {25, proto.OpSetACL}, {70, proto.OpExists}, {70, proto.OpGetData}, {40, proto.OpGetACL},
	{50, proto.OpGetChildren}, {50, proto.OpGetChildren2}, {10, proto.OpSync}, {10, proto.OpPing}, {80, proto.OpMulti}, {30, proto.OpMultiRead},
	{3, proto.OpReconfig}, {15, proto.OpCheckWatches}, {20, proto.OpRemoveWatches}, {10, proto.OpSetWatches}, {10, proto.OpSetWatches2},
	{30, proto.OpAddWatch}, {12, proto.OpGetEphemerals}, {12, proto.OpGetAllChildrenNumber}, {8, proto.OpWhoAmI},
}

var makers map[proto.Op]maker

func init() {
	makers = map[proto.Op]maker{
		proto.OpCreate: (*generator).create, proto.OpCreate2: (*generator).create, proto.OpCreateContainer: (*generator).create,
		proto.OpCreateTTL: (*generator).createTTL, proto.OpDelete: (*generator).delete, proto.OpSetData: (*generator).setData,
		proto.OpSetACL: (*generator).setACL, proto.OpExists: (*generator).pathWatch, proto.OpGetData: (*generator).pathWatch,
		proto.OpGetChildren: (*generator).pathWatch, proto.OpGetChildren2: (*generator).pathWatch,
		proto.OpGetACL: func(g *generator) proto.Record { return &proto.GetACLRequest{Path: g.path(), PathNull: g.null()} },
		proto.OpSync:   func(g *generator) proto.Record { return &proto.SyncRequest{Path: g.path(), PathNull: g.null()} },
		proto.OpCheck: func(g *generator) proto.Record {
			return &proto.CheckVersionRequest{Path: g.path(), PathNull: g.null(), Version: g.version()}
		},
		proto.OpReconfig: func(g *generator) proto.Record {
			return &proto.ReconfigRequest{JoiningServers: "server.9=127.0.0.1:1:2;3", NewMembersNull: true, LeavingServersNull: g.chance(50), CurConfigID: -1}
		},
		proto.OpCheckWatches: func(g *generator) proto.Record {
			return &proto.CheckWatchesRequest{Path: g.path(), PathNull: g.null(), Type: g.watcherType()}
		},
		proto.OpRemoveWatches: func(g *generator) proto.Record {
			return &proto.RemoveWatchesRequest{Path: g.path(), PathNull: g.null(), Type: g.watcherType()}
		},
		proto.OpAddWatch: func(g *generator) proto.Record {
			return &proto.AddWatchRequest{Path: g.path(), PathNull: g.null(), Mode: pick[proto.AddWatchMode](g, 0, 0, 0, 1, 1, 1, 1, 7, -1)}
		},
		proto.OpGetEphemerals: func(g *generator) proto.Record {
			p := pick(g, "", "/", " ", "/a", "/a/", "/b/x", "a", " /a", g.path())
			return &proto.GetEphemeralsRequest{PrefixPath: p, PrefixPathNull: g.chance(10)}
		},
		proto.OpGetAllChildrenNumber: func(g *generator) proto.Record {
			return &proto.GetAllChildrenNumberRequest{Path: g.path(), PathNull: g.null()}
		},
	}
}

// any makes one ordinary request.
func (g *generator) any(slot int) request {
	op := choose(g, ordinaryOps)
	switch op {
	case proto.OpPing:
		return request{xid: pick[int32](g, proto.XidPing, 77), op: op}
	case proto.OpWhoAmI:
		return request{xid: g.nextXid(slot), op: op}
	case proto.OpMulti, proto.OpMultiRead:
		return g.damage(request{xid: g.nextXid(slot), op: op, body: proto.AppendMulti(nil, g.multi(op))})
	case proto.OpSetWatches, proto.OpSetWatches2:
		return g.setWatches(slot, op)
	}
	return g.damage(g.request(slot, op, makers[op](g)))
}

func (g *generator) create() proto.Record {
	path, flags := g.path(), g.flags()
	data := g.data()
	if strings.Contains(path, "/quota/") || g.chance(6) {
		path, data, flags = g.quotaPath(), g.quotaData(), proto.FlagPersistent
	}
	if flags.Sequential() {
		path = g.node() + pick(g, "/s", "/s", "/", "")
	}
	return &proto.CreateRequest{Path: path, PathNull: g.null(), Data: data, ACL: g.acl(), Flags: flags}
}

// createTTL never asks for a node without a TTL together with a negative one: see differences.go.
func (g *generator) createTTL() proto.Record {
	path, flags := g.node(), pick(g, proto.FlagPersistentTTL, proto.FlagPersistentTTL, proto.FlagPersistentSequentialTTL)
	ttl := pick(g, 100000000, 100000000, 100000000, 1000000, proto.MaxTTL, 0, -1, proto.MaxTTL+1, math.MaxInt64, math.MinInt64)
	if g.chance(10) {
		flags, ttl = pick[proto.CreateFlags](g, 0, 1, 2, 3, 4, 7), pick[int64](g, 0, 1, 1000)
	}
	return &proto.CreateTTLRequest{Path: path, PathNull: g.null(), Data: g.data(), ACL: g.acl(), Flags: flags, TTL: ttl}
}

func (g *generator) delete() proto.Record {
	return &proto.DeleteRequest{Path: g.path(), PathNull: g.null(), Version: g.version()}
}

func (g *generator) setData() proto.Record {
	path, data := g.path(), g.data()
	if strings.Contains(path, "/quota/") || g.chance(4) {
		path, data = g.quotaPath(), g.quotaData()
	}
	return &proto.SetDataRequest{Path: path, PathNull: g.null(), Data: data, Version: g.version()}
}

func (g *generator) setACL() proto.Record {
	path, acl := g.path(), g.acl()
	if path == "/" && g.chance(80) {
		path = g.node()
	}
	return &proto.SetACLRequest{Path: path, PathNull: g.null(), ACL: acl, Version: g.version()}
}

func (g *generator) pathWatch() proto.Record {
	return &proto.PathWatchRequest{Path: g.path(), PathNull: g.null(), Watch: g.chance(45)}
}

func (g *generator) watcherType() proto.WatcherType {
	return pick[proto.WatcherType](g, 1, 2, 3, 3, 4, 5, 1, 2, 3, 4, 5, 0, 9, -1)
}

var multiOps = []weighted[proto.Op]{{30, proto.OpCreate}, {15, proto.OpCreate2}, {6, proto.OpCreateContainer}, {6, proto.OpCreateTTL},
	{25, proto.OpDelete}, {25, proto.OpSetData}, {25, proto.OpCheck}}

// multi makes the ops of a multi or multiRead; some hold what they must not.
func (g *generator) multi(op proto.Op) []proto.MultiOp {
	var out []proto.MultiOp
	for range g.IntN(6) {
		kind := pick(g, proto.OpGetData, proto.OpGetChildren)
		if op == proto.OpMulti {
			kind = choose(g, multiOps)
		}
		out = append(out, proto.MultiOp{Op: kind, Request: makers[kind](g)})
	}
	if len(out) > 0 && g.chance(4) {
		kind := pick(g, proto.OpCreate, proto.OpDelete, proto.OpGetData, proto.OpGetChildren, proto.OpExists, proto.OpSetACL)
		out = slices.Insert(out, g.IntN(len(out)), proto.MultiOp{Op: kind, Request: makers[kind](g)})
	}
	return out
}

func (g *generator) paths() []string {
	if g.IntN(60) == 0 {
		return nil
	}
	out := []string{}
	for range g.IntN(3) {
		if g.null() {
			out = append(out, proto.NullPath)
		}
		out = append(out, g.path())
	}
	if len(out) > 0 && g.chance(10) {
		out = append(out, out[0])
	}
	return out
}

func (g *generator) setWatches(slot int, op proto.Op) request {
	w := proto.SetWatches2{SetWatches: proto.SetWatches{DataWatches: g.paths(), ExistWatches: g.paths(), ChildWatches: g.paths()},
		PersistentWatches: g.paths(), PersistentRecursiveWatches: g.paths()}
	q := request{xid: pick(g, proto.XidSetWatches, g.nextXid(slot)), op: op, body: w.Append(nil)}
	if op == proto.OpSetWatches {
		q.body = w.SetWatches.Append(nil)
	}
	if g.chance(80) {
		q.back = 1 + g.IntN(40)
	}
	return g.damage(q)
}
