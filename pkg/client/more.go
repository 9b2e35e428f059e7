package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// CreateTTL makes a node that the servers delete when it has had no children and was not set for ttl, which counts in
// whole milliseconds from 1 to 2^40-1. mode is PersistentTTL or PersistentSequentialTTL. Servers know such nodes only
// with extendedTypesEnabled=true, and answer with ErrUnimplemented otherwise.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL) (string, Stat, error) {
	req, err := c.createTTLRequest(path, data, mode, ttl, acl)
	if err != nil {
		return "", Stat{}, &OpError{Op: proto.OpCreateTTL, Path: path, Err: err}
	}
	var resp proto.Create2Response
	if err := c.ask(ctx, newCall(proto.OpCreateTTL, path, req), &resp); err != nil {
		return "", Stat{}, err
	}
	return c.stripChroot(resp.Path), statFrom(&resp.Stat), nil
}

func (c *Client) createTTLRequest(path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL) (*proto.CreateTTLRequest, error) {
	if ms := ttl.Milliseconds(); !mode.TTL() || ms < 1 || ms > proto.MaxTTL {
		return nil, ErrBadArguments
	}
	plain := Persistent
	if mode.Sequential() {
		plain = PersistentSequential
	}
	req, err := c.createRequest(path, data, plain, acl)
	if err != nil {
		return nil, err
	}
	return &proto.CreateTTLRequest{Path: req.Path, Data: req.Data, ACL: req.ACL, Flags: mode, TTL: ttl.Milliseconds()}, nil
}

// CreateAll makes path and those of its parents that are missing; the parents get no data and the same acl. It is no
// error if path is there already. Use it for the fixed upper part of a tree.
func (c *Client) CreateAll(ctx context.Context, path string, acl []ACL) error {
	_, err := c.Create(ctx, path, nil, Persistent, acl)
	switch codeOf(err) {
	case ErrNodeExists:
		return nil
	case ErrNoNode:
	default:
		return err
	}
	if path == "/" { // the chroot itself is missing
		return err
	}
	if err := c.CreateAll(ctx, proto.Parent(path), acl); err != nil {
		return err
	}
	if _, err = c.Create(ctx, path, nil, Persistent, acl); codeOf(err) == ErrNodeExists {
		return nil
	}
	return err
}

// Ephemerals returns the paths of this session's ephemeral nodes that begin with prefix, sorted. With a chroot only those
// below it are there.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	if !strings.HasPrefix(prefix, "/") {
		return nil, &OpError{Op: proto.OpGetEphemerals, Path: prefix, Err: proto.ValidatePath(prefix)}
	}
	whole := c.chroot + prefix
	k := newCall(proto.OpGetEphemerals, prefix, &proto.GetEphemeralsRequest{PrefixPath: whole})
	var resp proto.GetEphemeralsResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return nil, err
	}
	paths := []string{}
	for _, p := range resp.Ephemerals {
		if c.chroot == "" || strings.HasPrefix(p, c.chroot+"/") {
			paths = append(paths, c.stripChroot(p))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// CountDescendants returns how many nodes there are below path, at any depth. ErrNoNode.
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	k, err := c.pathCall(proto.OpGetAllChildrenNumber, path, &proto.GetAllChildrenNumberRequest{Path: c.addChroot(path)})
	if err != nil {
		return 0, err
	}
	var resp proto.GetAllChildrenNumberResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return 0, err
	}
	return int(resp.TotalNumber), nil
}

// Identity is somebody that a server takes this client for.
type Identity struct {
	Scheme string
	User   string
}

// WhoAmI returns the identities of the connection. Servers before ZooKeeper 3.7 answer with ErrUnimplemented.
func (c *Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	var resp proto.WhoAmIResponse
	if err := c.ask(ctx, newCall(proto.OpWhoAmI, "", nil), &resp); err != nil {
		return nil, err
	}
	ids := []Identity{}
	for _, info := range resp.ClientInfo {
		ids = append(ids, Identity{info.AuthScheme, info.User})
	}
	return ids, nil
}

// configPath is where servers keep the ensemble's configuration; a chroot has no part in it.
const configPath = "/zookeeper/config"

// Config returns the ensemble's configuration as its servers write it: a line "server.N=…" per member and the version,
// which ParseConfig takes apart. A standalone server has none.
func (c *Client) Config(ctx context.Context) ([]byte, Stat, error) {
	k := newCall(proto.OpGetData, configPath, &proto.PathWatchRequest{Path: configPath})
	var resp proto.GetDataResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.Data, statFrom(&resp.Stat), nil
}

// ConfigW is Config; the Watch reports when the configuration changes.
func (c *Client) ConfigW(ctx context.Context) ([]byte, Stat, *Watch, error) {
	k := newCall(proto.OpGetData, configPath, &proto.PathWatchRequest{Path: configPath, Watch: true})
	w := &Watch{c: c, kind: dataWatch, path: configPath, ch: make(chan Event, 1)}
	k.watch = w
	var resp proto.GetDataResponse
	if err := c.ask(ctx, k, &resp); err != nil {
		return nil, Stat{}, nil, err
	}
	return resp.Data, statFrom(&resp.Stat), w, nil
}

// Reconfig is a change of the ensemble's members: either Joining and Leaving, or Members as the whole new list.
type Reconfig struct {
	Joining []string // "server.N=host:port:port[:role];[host:]port"
	Leaving []string // server ids
	Members []string // like Joining
	Version int64    // of the configuration that the change is based on, -1 for any
}

// Reconfig changes the ensemble and returns its new configuration. ErrReconfigDisabled unless the servers permit it.
func (c *Client) Reconfig(ctx context.Context, r Reconfig) ([]byte, Stat, error) {
	req := &proto.ReconfigRequest{
		JoiningServers: strings.Join(r.Joining, ","), JoiningServersNull: len(r.Joining) == 0,
		LeavingServers: strings.Join(r.Leaving, ","), LeavingServersNull: len(r.Leaving) == 0,
		NewMembers: strings.Join(r.Members, ","), NewMembersNull: len(r.Members) == 0,
		CurConfigID: r.Version,
	}
	var resp proto.GetDataResponse
	if err := c.ask(ctx, newCall(proto.OpReconfig, "", req), &resp); err != nil {
		return nil, Stat{}, err
	}
	return resp.Data, statFrom(&resp.Stat), nil
}

// Member is one server of a configuration.
type Member struct {
	ID       string // of "server.ID"
	Host     string
	Ports    string // "peer:election"
	Observer bool
	Client   string // client address "host:port", "" if the configuration does not tell
}

// ParseConfig takes what Config returns apart. Several addresses of one server are reduced to the first. The version is
// "" if there is none.
func ParseConfig(config []byte) (members []Member, version string, err error) {
	for line := range strings.Lines(string(config)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "version" {
			version = value
			continue
		}
		id, isServer := strings.CutPrefix(key, "server.")
		if !isServer {
			continue
		}
		m, err := parseMember(id, value)
		if err != nil {
			return nil, "", err
		}
		members = append(members, m)
	}
	return members, version, nil
}

func parseMember(id, value string) (Member, error) {
	m := Member{ID: id}
	quorum, forClients, _ := strings.Cut(value, ";")
	quorum, _, _ = strings.Cut(quorum, "|")
	host, rest, ok := cutHost(quorum)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) < 2 {
		return m, fmt.Errorf("%w: server %s is %q", ErrMarshalling, id, value)
	}
	m.Host, m.Ports = host, parts[0]+":"+parts[1]
	m.Observer = len(parts) > 2 && parts[2] == "observer"
	switch {
	case forClients == "":
	case !strings.Contains(forClients, ":"):
		m.Client = hostPort(host, forClients)
	default:
		h, port, _ := cutHost(forClients)
		if h == "0.0.0.0" || h == "::" {
			h = host
		}
		m.Client = hostPort(h, port)
	}
	return m, nil
}

// cutHost cuts host:rest or [v6]:rest.
func cutHost(s string) (host, rest string, ok bool) {
	if v6, isV6 := strings.CutPrefix(s, "["); isV6 {
		return strings.Cut(v6, "]:")
	}
	return strings.Cut(s, ":")
}

func hostPort(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}
