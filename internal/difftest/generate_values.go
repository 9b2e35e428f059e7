package difftest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/zkd-project/zkd/proto"
)

// path mostly names one of a few dozen nodes, so that clients meet.
func (g *generator) path() string {
	switch n := g.IntN(100); {
	case n < 78:
		return g.node()
	case n < 85:
		return fmt.Sprintf("%s/s%010d", g.node(), g.IntN(6))
	case n < 88:
		return "/"
	case n < 92:
		if g.opt.Ensemble {
			return pick(g, "/zookeeper", "/zookeeper/quota")
		}
		return pick(g, "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
	case n < 94:
		return g.quotaPath()
	}
	return g.oddPath()
}

func (g *generator) node() string {
	p := "/" + pick(g, "a", "b", "c")
	for depth := choose(g, []weighted[int]{{25, 0}, {45, 1}, {25, 2}, {5, 3}}); depth > 0; depth-- {
		p += "/" + pick(g, "x", "y", "e")
	}
	return p
}

func (g *generator) oddPath() string {
	n := g.node()
	return pick(g, "", "a", "//", "/.", "/..", n+"/", n+"//x", "/"+n, n+"/./x", n+"/.", n+"/..", n+"/...", n+"/..x", n+"/x.", n+"/\x01", n+"/\x00",
		n+"/\x7f", n+"/é", n+"/\u00a0", n+"/\uf8ff", n+"/\uf900", n+"/\ufff0", n+"/\uffef", n+"/\U0001F600", n+"/\xff", n+"/\xed\xa0\x80", n+"/ ", " ", "/ ", n+" ", "zookeeper", "/zookeeper/",
		"/zookeeper/x", "/\u2028", n+"/日本語", "\x00", n+"/\xc3", n+"/\xe6\x97")
}

// quotaPath is below the node that turns quotas on, but never a quota on the root.
func (g *generator) quotaPath() string {
	if !g.quotas {
		return "/zookeeper/quota"
	}
	p := "/zookeeper/quota/" + pick(g, "a", "b", "a/x")
	return p + pick(g, "", "", "/zookeeper_limits", "/zookeeper_limits", "/zookeeper_stats")
}

func (g *generator) data() []byte {
	switch n := g.IntN(100); {
	case n < 10:
		return nil
	case n < 25:
		return []byte{}
	case n < 97:
		return bytes.Repeat([]byte{byte('a' + g.IntN(26))}, 1+g.IntN(40))
	}
	return bytes.Repeat([]byte{byte(g.IntN(256))}, 1+g.IntN(20000))
}

// quotaData can be read as limits or statistics.
func (g *generator) quotaData() []byte {
	n := func() int { return pick(g, -1, -1, 0, 3, 6, 50, 100000) }
	switch g.IntN(6) {
	case 0:
		return fmt.Appendf(nil, "count=%d", n())
	case 1:
		return fmt.Appendf(nil, "bytes=%d", n())
	case 2, 3:
		return fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", n(), n(), n(), n())
	}
	return fmt.Appendf(nil, "count=%d,bytes=%d", n(), n())
}

func (g *generator) version() int32 {
	switch n := g.IntN(100); {
	case n < 65:
		return -1
	case n < 95:
		return g.Int32N(4)
	}
	return pick[int32](g, -2, math.MinInt32, math.MaxInt32, 100)
}

func (g *generator) perms() proto.Perm {
	return choose(g, []weighted[proto.Perm]{{60, proto.PermAll}, {10, proto.PermRead}, {5, proto.PermRead | proto.PermWrite}, {5, proto.PermAdmin},
		{4, proto.PermCreate | proto.PermDelete}, {4, proto.PermRead | proto.PermAdmin}, {4, proto.PermAll &^ proto.PermRead}, {4, 0}, {2, 32}, {2, -1}})
}

func (g *generator) acl() []proto.ACL {
	switch n := g.IntN(100); {
	case n < 72:
		return proto.OpenACL()
	case n < 74:
		return nil
	case n < 75:
		return []proto.ACL{}
	}
	var out []proto.ACL
	for range 1 + g.IntN(3) {
		out = append(out, proto.ACL{Perms: g.perms(), ID: g.id()})
	}
	if g.chance(20) {
		out = append(out, out[0])
	}
	return out
}

func (g *generator) id() proto.ID {
	switch n := g.IntN(100); {
	case n < 30:
		return proto.AnyoneID
	case n < 45:
		return proto.ID{Scheme: "auth", ID: pick(g, "", "x")}
	case n < 65:
		return proto.ID{Scheme: "digest", ID: proto.DigestID([]byte(pick(g, "u1:p1", "u2:p2", superUser)))}
	case n < 75:
		return proto.ID{Scheme: "ip", ID: pick(g, "127.0.0.1", "127.0.0.1/32", "127.0.0.0/8", "10.0.0.0/8", "127.1.1.1/7", "0.0.0.0/0", "128.0.0.0/1")}
	}
	return pick(g, proto.ID{Scheme: "world", ID: "nobody"}, proto.ID{Scheme: "digest", ID: "a"}, proto.ID{Scheme: "digest", ID: "a:"},
		proto.ID{Scheme: "digest", ID: "a:b:c"}, proto.ID{Scheme: "digest", ID: ":x"}, proto.ID{Scheme: "digest", ID: "a:b::"}, proto.ID{Scheme: "digest", ID: ""},
		proto.ID{Scheme: "ip", ID: "10.0.0/8"}, proto.ID{Scheme: "ip", ID: "10.0.0.0/33"}, proto.ID{Scheme: "ip", ID: "10.0.0.0/-1"},
		proto.ID{Scheme: "ip", ID: "10.0.0.0/x"}, proto.ID{Scheme: "ip", ID: ""}, proto.ID{Scheme: "ip", ID: "::1"}, proto.ID{Scheme: "ip", ID: "fe80::/10"},
		proto.ID{Scheme: "ip", ID: "1.2.3.256"}, proto.ID{Scheme: "ip", ID: "1.2.3.4/"}, proto.ID{Scheme: "ip", ID: "1.2.3.4/8/8"},
		proto.ID{Scheme: "sasl", ID: "u"}, proto.ID{Scheme: "x509", ID: "CN=u"}, proto.ID{Scheme: "super", ID: ""}, proto.ID{Scheme: "host", ID: "h"},
		proto.ID{Scheme: "", ID: "u"}, proto.ID{SchemeNull: true, ID: "u"}, proto.ID{Scheme: "world", IDNull: true}, proto.ID{Scheme: "digest", IDNull: true},
		proto.ID{Scheme: "ip", IDNull: true}, proto.ID{Scheme: "auth", IDNull: true})
}

func (g *generator) null() bool { return g.IntN(80) == 0 }

func (g *generator) flags() proto.CreateFlags {
	return choose(g, []weighted[proto.CreateFlags]{{50, 0}, {20, proto.FlagEphemeral}, {14, proto.FlagPersistentSequential}, {10, proto.FlagEphemeralSequential},
		{3, proto.FlagContainer}, {1, proto.FlagPersistentTTL}, {1, proto.FlagPersistentSequentialTTL}, {1, 7}, {1, -1}})
}
