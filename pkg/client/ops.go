package client

import (
	"context"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// Create makes a node and returns its path, which ends in a number if mode is sequential. data may be nil. A nil acl
// grants everything to everyone. ErrNodeExists, ErrNoNode if the parent is missing, ErrNoAuth, ErrInvalidACL,
// ErrNoChildrenForEphemerals.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	if mode == Container {
		created, _, err := c.CreateStat(ctx, path, data, mode, acl)
		return created, err
	}
	var resp proto.CreateResponse
	if err := c.create(ctx, proto.OpCreate, path, data, mode, acl, &resp); err != nil {
		return "", err
	}
	return c.stripChroot(resp.Path), nil
}

// CreateStat is Create and also returns the new node's Stat.
func (c *Client) CreateStat(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, Stat, error) {
	op := proto.OpCreate2
	if mode == Container {
		op = proto.OpCreateContainer
	}
	var resp proto.Create2Response
	if err := c.create(ctx, op, path, data, mode, acl, &resp); err != nil {
		return "", Stat{}, err
	}
	return c.stripChroot(resp.Path), statFrom(&resp.Stat), nil
}

func (c *Client) create(ctx context.Context, op proto.Op, path string, data []byte, mode CreateMode, acl []ACL, resp proto.Record) error {
	req, err := c.createRequest(path, data, mode, acl)
	if err != nil {
		return &OpError{Op: op, Path: path, Err: err}
	}
	return c.ask(ctx, newCall(op, path, req), resp)
}

func (c *Client) createRequest(path string, data []byte, mode CreateMode, acl []ACL) (*proto.CreateRequest, error) {
	whole := path
	if mode.Sequential() {
		whole += "0" // "/queue/" is a good path for a sequential node
	}
	if !mode.Valid() || mode.TTL() {
		return nil, ErrBadArguments
	}
	if err := proto.ValidatePath(whole); err != nil {
		return nil, err
	}
	if acl == nil {
		acl = proto.OpenACL()
	}
	path = c.chroot + path
	if path != "/" && !mode.Sequential() {
		path = strings.TrimSuffix(path, "/") // the chroot itself; a numbered child of it keeps the slash
	}
	return &proto.CreateRequest{Path: path, Data: data, ACL: acl, Flags: mode}, nil
}

// Delete removes a node. ErrNoNode, ErrBadVersion unless version is the data's or AnyVersion, ErrNotEmpty, ErrNoAuth.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	k, err := c.pathCall(proto.OpDelete, path, &proto.DeleteRequest{Path: c.addChroot(path), Version: version})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, k)
	return err
}

// Exists returns the Stat of a node, and whether there is one.
func (c *Client) Exists(ctx context.Context, path string) (Stat, bool, error) {
	return c.exists(ctx, path, nil)
}

// ExistsW is Exists; the Watch reports when the node is created, changed or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (Stat, bool, *Watch, error) {
	w := c.newWatch(existWatch, path)
	stat, found, err := c.exists(ctx, path, w)
	if err != nil {
		return Stat{}, false, nil, err
	}
	return stat, found, w, nil
}

func (c *Client) exists(ctx context.Context, path string, w *Watch) (Stat, bool, error) {
	var resp proto.ExistsResponse
	err := c.readNode(ctx, proto.OpExists, path, w, &resp)
	switch {
	case err == nil:
		return statFrom(&resp.Stat), true, nil
	case codeOf(err) == ErrNoNode:
		return Stat{}, false, nil
	}
	return Stat{}, false, err
}

// Get returns the data of a node, which is nil for a node that was given nil, and its Stat. ErrNoNode, ErrNoAuth.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	return c.get(ctx, path, nil)
}

// GetW is Get; the Watch reports when the node is changed or deleted.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	w := c.newWatch(dataWatch, path)
	data, stat, err := c.get(ctx, path, w)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return data, stat, w, nil
}

func (c *Client) get(ctx context.Context, path string, w *Watch) ([]byte, Stat, error) {
	var resp proto.GetDataResponse
	if err := c.readNode(ctx, proto.OpGetData, path, w, &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.Data, statFrom(&resp.Stat), nil
}

// Children returns the names of the children of a node, in no particular order, and the node's Stat. ErrNoNode, ErrNoAuth.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	return c.children(ctx, path, nil)
}

// ChildrenW is Children; the Watch reports when a child is created or deleted, or the node itself is deleted.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	w := c.newWatch(childWatch, path)
	names, stat, err := c.children(ctx, path, w)
	if err != nil {
		return nil, Stat{}, nil, err
	}
	return names, stat, w, nil
}

func (c *Client) children(ctx context.Context, path string, w *Watch) ([]string, Stat, error) {
	var resp proto.GetChildren2Response
	if err := c.readNode(ctx, proto.OpGetChildren2, path, w, &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.Children, statFrom(&resp.Stat), nil
}

// Set replaces the data of a node. ErrNoNode, ErrBadVersion unless version is the data's or AnyVersion, ErrNoAuth.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	req := &proto.SetDataRequest{Path: c.addChroot(path), Data: data, Version: version}
	return c.askStat(ctx, proto.OpSetData, path, req)
}

// GetACL returns the access control list of a node. A client that may read but not administer it sees "x" in place of
// the hashes of digest identities. ErrNoNode, ErrNoAuth.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	k, err := c.pathCall(proto.OpGetACL, path, &proto.GetACLRequest{Path: c.addChroot(path)})
	if err != nil {
		return nil, Stat{}, err
	}
	var resp proto.GetACLResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.ACL, statFrom(&resp.Stat), nil
}

// SetACL replaces the access control list of a node. ErrNoNode, ErrBadVersion unless version is the ACL's or AnyVersion,
// ErrInvalidACL, ErrNoAuth.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	return c.askStat(ctx, proto.OpSetACL, path, &proto.SetACLRequest{Path: c.addChroot(path), ACL: acl, Version: version})
}

// Sync waits until the server that the client is connected to knows all that was committed before. The path does not
// matter.
func (c *Client) Sync(ctx context.Context, path string) error {
	k, err := c.pathCall(proto.OpSync, path, &proto.SyncRequest{Path: c.addChroot(path)})
	if err != nil {
		return err
	}
	return c.ask(ctx, k, new(proto.SyncResponse))
}

// AddAuth gives the client another identity, on this connection and on all later ones; for scheme "digest" auth is
// "user:password". ErrAuthFailed if it is refused; the server then breaks the connection, and what was unanswered fails
// with ErrConnectionLoss. If it is refused on a later connection, the client ends with ErrAuthFailed.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	cred := &credential{scheme: scheme, auth: append([]byte(nil), auth...)}
	_, err := c.do(ctx, &call{op: proto.OpAuth, cred: cred, frame: cred.frame(), done: make(chan struct{})})
	return err
}

// pathCall makes a call after a look at the path, so that a bad one costs no round trip.
func (c *Client) pathCall(op proto.Op, path string, req proto.Record) (*call, error) {
	if err := proto.ValidatePath(path); err != nil {
		return nil, &OpError{Op: op, Path: path, Err: err}
	}
	return newCall(op, path, req), nil
}

// readNode asks for one node, and for w if it is not nil.
func (c *Client) readNode(ctx context.Context, op proto.Op, path string, w *Watch, resp proto.Record) error {
	k, err := c.pathCall(op, path, &proto.PathWatchRequest{Path: c.addChroot(path), Watch: w != nil})
	if err != nil {
		return err
	}
	k.watch = w
	return c.ask(ctx, k, resp)
}

func (c *Client) askStat(ctx context.Context, op proto.Op, path string, req proto.Record) (Stat, error) {
	k, err := c.pathCall(op, path, req)
	if err != nil {
		return Stat{}, err
	}
	var resp proto.StatResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return Stat{}, err
	}
	return statFrom(&resp.Stat), nil
}

func (c *Client) newWatch(kind watchKind, path string) *Watch {
	return &Watch{c: c, kind: kind, path: c.addChroot(path), ch: make(chan Event, 1)}
}

func (c *Client) addChroot(path string) string {
	if c.chroot != "" && path == "/" {
		return c.chroot
	}
	return c.chroot + path
}

func (c *Client) stripChroot(path string) string {
	rest, ok := strings.CutPrefix(path, c.chroot)
	switch {
	case ok && rest == "" && path != "":
		return "/"
	case ok && rest != "" && rest[0] == '/':
		return rest
	}
	return path // not below the chroot: the configuration, say
}

// codeOf returns the reason of an *OpError.
func codeOf(err error) error {
	if e, ok := err.(*OpError); ok {
		return e.Err
	}
	return err
}
