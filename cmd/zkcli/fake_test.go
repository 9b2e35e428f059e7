package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/proto"
)

func TestMain(m *testing.M) {
	if os.Getenv("ZKCLI_TEST_AS_MAIN") != "" {
		main()
	}
	os.Setenv("TZ", "UTC") // dates are printed in local time
	os.Setenv("ZKCLI_HISTORY", "")
	os.Setenv("TERM", "dumb") // no colours
	// The first use of signals starts a goroutine that lives for ever: not within a test.
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) { stopEnsemble(); os.Exit(code) }))
}

// fake is a server with one tree, in as far as the shell's commands need it. It knows no ACLs: a path with "secret" in it
// is forbidden. Times are zxids in seconds since 2020.
type fake struct {
	mu    sync.Mutex
	zxid  int64
	nodes map[string]*fakeNode
	conns []net.Conn
	away  bool // accept no connections
}

type fakeNode struct {
	data []byte
	acl  []proto.ACL
	stat proto.Stat
	next int // sequence number
}

const (
	fakeSession = 0x100000000000abc
	year2020    = 1577836800000
)

func newFake() *fake {
	f := &fake{nodes: map[string]*fakeNode{}}
	for _, p := range []string{"/", "/zookeeper"} {
		f.nodes[p] = &fakeNode{acl: proto.OpenACL(), stat: proto.Stat{Ctime: year2020, Mtime: year2020}}
	}
	f.nodes["/"].stat.NumChildren = 1
	return f
}

func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, fmt.Errorf("connection refused")
	}
	ours, theirs := net.Pipe()
	go f.serve(ours)
	return theirs, nil
}

// leave cuts all connections and accepts no others.
func (f *fake) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = true
	for _, nc := range f.conns {
		nc.Close()
	}
}

// comeBack accepts connections again.
func (f *fake) comeBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = false
}

func (f *fake) isAway() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// notify sends an event to all clients, as if somebody else had caused it, and without a zxid as old servers do.
func (f *fake) notify(typ proto.EventType, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.conns {
		nc.Write(proto.AppendFrame(nil, &proto.ReplyHeader{Xid: proto.XidNotification, Zxid: -1},
			&proto.WatcherEvent{Type: typ, State: proto.StateSyncConnected, Path: path}))
	}
}

// fakeConn is one client: its watches, by "d" or "c" and path.
type fakeConn struct {
	*fake
	out     []byte
	watches map[string]bool
}

func (f *fake) serve(nc net.Conn) {
	defer nc.Close()
	f.mu.Lock()
	f.conns = append(f.conns, nc)
	f.mu.Unlock()
	c := &fakeConn{fake: f, watches: map[string]bool{}}
	var hello proto.ConnectRequest
	if b, err := readFrame(nc); err != nil || hello.Decode(proto.NewReader(b)) != nil {
		return
	}
	c.out = proto.AppendFrame(nil, &proto.ConnectResponse{
		TimeOut: hello.TimeOut, SessionID: fakeSession, Passwd: make([]byte, 16), HasReadOnly: true})
	for {
		if _, err := nc.Write(c.out); err != nil {
			return
		}
		b, err := readFrame(nc)
		if err != nil {
			return
		}
		c.out = nil
		c.handle(proto.NewReader(b))
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n, err := proto.ReadFrameHeader(head, 1<<20)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

func (c *fakeConn) handle(r *proto.Reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var h proto.RequestHeader
	if err := h.Decode(r); err != nil {
		panic(err)
	}
	if h.Op.IsWrite() {
		c.zxid++
	}
	resp, code := c.answer(h.Op, r)
	records := []proto.Record{&proto.ReplyHeader{Xid: h.Xid, Zxid: c.zxid, Err: code}}
	if code == proto.OK && resp != nil {
		records = append(records, resp)
	}
	c.out = proto.AppendFrame(c.out, records...)
}

func (c *fakeConn) answer(op proto.Op, r *proto.Reader) (proto.Record, proto.ErrCode) {
	switch op {
	case proto.OpMulti:
		return c.multi(r)
	case proto.OpWhoAmI:
		return &proto.WhoAmIResponse{ClientInfo: []proto.ClientInfo{{AuthScheme: "ip", User: "127.0.0.1"}}}, proto.OK
	}
	req := proto.NewRequest(op)
	if req != nil {
		if err := req.Decode(r); err != nil {
			return nil, proto.ErrMarshalling
		}
	}
	switch q := req.(type) {
	case *proto.CreateRequest:
		return c.create(op, q)
	case *proto.DeleteRequest:
		return nil, c.remove(q.Path, q.Version)
	case *proto.PathWatchRequest:
		return c.look(op, q)
	case *proto.SetDataRequest:
		n, code := c.node(q.Path)
		if code != proto.OK {
			return nil, code
		}
		if q.Version >= 0 && q.Version != n.stat.Version {
			return nil, proto.ErrBadVersion
		}
		n.data, n.stat.DataLength = append([]byte{}, q.Data...), int32(len(q.Data))
		n.stat.Version++
		n.stat.Mzxid, n.stat.Mtime = c.zxid, year2020+1000*c.zxid
		c.fire(proto.EventNodeDataChanged, "d", q.Path)
		return &proto.StatResponse{Stat: n.stat}, proto.OK
	case *proto.GetACLRequest:
		n, code := c.node(q.Path)
		if code != proto.OK {
			return nil, code
		}
		return &proto.GetACLResponse{ACL: n.acl, Stat: n.stat}, proto.OK
	case *proto.SetACLRequest:
		n, code := c.node(q.Path)
		if code != proto.OK {
			return nil, code
		}
		if q.Version >= 0 && q.Version != n.stat.Aversion {
			return nil, proto.ErrBadVersion
		}
		n.acl = q.ACL
		n.stat.Aversion++
		return &proto.StatResponse{Stat: n.stat}, proto.OK
	case *proto.SyncRequest:
		return &proto.SyncResponse{Path: q.Path}, proto.OK
	case *proto.GetAllChildrenNumberRequest:
		n := int32(0)
		for p := range c.nodes {
			if strings.HasPrefix(p, strings.TrimSuffix(q.Path, "/")+"/") && p != "/" {
				n++
			}
		}
		return &proto.GetAllChildrenNumberResponse{TotalNumber: n}, proto.OK
	case *proto.AuthPacket:
		if q.Scheme != "digest" {
			return nil, proto.ErrAuthFailed
		}
	}
	return nil, proto.OK
}

func (c *fakeConn) node(path string) (*fakeNode, proto.ErrCode) {
	n := c.nodes[path]
	switch {
	case n == nil:
		return nil, proto.ErrNoNode
	case strings.Contains(path, "secret"):
		return nil, proto.ErrNoAuth
	}
	return n, proto.OK
}

func (c *fakeConn) create(op proto.Op, q *proto.CreateRequest) (proto.Record, proto.ErrCode) {
	parent := c.nodes[proto.Parent(q.Path)]
	if parent == nil {
		return nil, proto.ErrNoNode
	}
	path := q.Path
	if q.Flags.Sequential() {
		path = fmt.Sprintf("%s%010d", path, parent.next)
	}
	switch {
	case c.nodes[path] != nil:
		return nil, proto.ErrNodeExists
	case parent.stat.EphemeralOwner != 0:
		return nil, proto.ErrNoChildrenForEphemerals
	case q.ACL[0].ID.Scheme == "auth":
		return nil, proto.ErrInvalidACL
	}
	n := &fakeNode{data: q.Data, acl: q.ACL, stat: proto.Stat{
		Czxid: c.zxid, Mzxid: c.zxid, Pzxid: c.zxid, DataLength: int32(len(q.Data)),
		Ctime: year2020 + 1000*c.zxid, Mtime: year2020 + 1000*c.zxid}}
	if q.Flags.Ephemeral() {
		n.stat.EphemeralOwner = fakeSession
	}
	c.nodes[path] = n
	parent.next++
	parent.stat.Cversion++
	parent.stat.NumChildren++
	parent.stat.Pzxid = c.zxid
	c.fire(proto.EventNodeCreated, "d", path)
	c.fire(proto.EventNodeChildrenChanged, "c", proto.Parent(path))
	if op == proto.OpCreate {
		return &proto.CreateResponse{Path: path}, proto.OK
	}
	return &proto.Create2Response{Path: path, Stat: n.stat}, proto.OK
}

func (c *fakeConn) remove(path string, version int32) proto.ErrCode {
	n, code := c.node(path)
	switch {
	case code != proto.OK:
		return code
	case version >= 0 && version != n.stat.Version:
		return proto.ErrBadVersion
	case n.stat.NumChildren > 0:
		return proto.ErrNotEmpty
	case proto.IsReserved(path):
		return proto.ErrBadArguments
	}
	delete(c.nodes, path)
	parent := c.nodes[proto.Parent(path)]
	parent.stat.NumChildren--
	parent.stat.Pzxid = c.zxid
	c.fire(proto.EventNodeDeleted, "d", path)
	c.fire(proto.EventNodeChildrenChanged, "c", proto.Parent(path))
	return proto.OK
}

func (c *fakeConn) look(op proto.Op, q *proto.PathWatchRequest) (proto.Record, proto.ErrCode) {
	n, code := c.node(q.Path)
	if q.Watch && (code == proto.OK || op == proto.OpExists) {
		table := "d"
		if op == proto.OpGetChildren2 {
			table = "c"
		}
		c.watches[table+q.Path] = true
	}
	if code != proto.OK {
		return nil, code
	}
	switch op {
	case proto.OpExists:
		return &proto.StatResponse{Stat: n.stat}, proto.OK
	case proto.OpGetData:
		return &proto.GetDataResponse{Data: n.data, Stat: n.stat}, proto.OK
	}
	var names []string
	for p := range c.nodes {
		if p != "/" && proto.Parent(p) == q.Path {
			_, name := proto.Split(p)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names) // the shell has to sort
	return &proto.GetChildren2Response{Children: names, Stat: n.stat}, proto.OK
}

// multi knows deletes only, and undoes nothing: the shell's next command would show it.
func (c *fakeConn) multi(r *proto.Reader) (proto.Record, proto.ErrCode) {
	ops, err := proto.DecodeMulti(r)
	if err != nil {
		return nil, proto.ErrMarshalling
	}
	results := make([]proto.MultiResult, len(ops))
	failed := false
	for i, op := range ops {
		q := op.Request.(*proto.DeleteRequest)
		if _, code := c.node(q.Path); code != proto.OK {
			results[i].Err, failed = code, true
		}
	}
	for i, op := range ops {
		results[i].Op = proto.OpDelete
		if failed {
			results[i].Op = proto.OpError
		} else if code := c.remove(op.Request.(*proto.DeleteRequest).Path, -1); code != proto.OK {
			panic(code)
		}
	}
	return multiResults(results), proto.OK
}

type multiResults []proto.MultiResult

func (m multiResults) Append(dst []byte) []byte   { return proto.AppendMultiResults(dst, m) }
func (multiResults) Decode(r *proto.Reader) error { return r.Err() }

func (c *fakeConn) fire(typ proto.EventType, table, path string) {
	if !c.watches[table+path] {
		return
	}
	delete(c.watches, table+path)
	c.out = proto.AppendFrame(c.out, &proto.ReplyHeader{Xid: proto.XidNotification, Zxid: c.zxid},
		&proto.WatcherEvent{Type: typ, State: proto.StateSyncConnected, Path: path})
}
