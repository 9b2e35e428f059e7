package tour

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

func (v *visit) multi() error {
	var k checks
	results, err := v.zk.Multi(
		&zk.CreateRequest{Path: v.at("t"), Data: []byte("0"), Acl: openACL},
		&zk.CreateRequest{Path: v.at("t/one"), Acl: openACL},
		&zk.SetDataRequest{Path: v.at("t"), Data: []byte("2"), Version: 0},
		&zk.CreateRequest{Path: v.at("t/s-"), Acl: openACL, Flags: zk.FlagSequence},
		&zk.CheckVersionRequest{Path: v.at("t"), Version: 1},
		&zk.DeleteRequest{Path: v.at("t/one"), Version: 0},
	)
	k.noError(err, "multi")
	k.equal(len(results), 6, "results")
	if k.err != nil {
		return k.err
	}
	for _, r := range results {
		k.noError(r.Error, "result")
	}
	k.equal(results[0].String, v.at("t"), "created path")
	k.equal(results[3].String, v.at("t/s-0000000001"), "sequential path")
	if results[2].Stat == nil {
		return errors.New("no stat for setData")
	}
	k.equal(results[2].Stat.Version, int32(1), "version")
	data, _, err := v.zk.Get(v.at("t"))
	k.noError(err, "get")
	k.equal(string(data), "2", "data")
	return k.err
}

func (v *visit) multiRefused() error {
	var k checks
	results, err := v.zk.Multi(
		&zk.CreateRequest{Path: v.at("t/two"), Acl: openACL},
		&zk.CheckVersionRequest{Path: v.at("t"), Version: 9},
		&zk.DeleteRequest{Path: v.at("t"), Version: -1},
	)
	k.isError(err, zk.ErrBadVersion, "multi")
	k.equal(len(results), 3, "results")
	if k.err != nil {
		return k.err
	}
	k.noError(results[0].Error, "result before the failing one")
	k.isError(results[1].Error, zk.ErrBadVersion, "failing result")
	k.equal(results[2].Error != nil, true, "result behind the failing one is an error")
	there, _, err := v.zk.Exists(v.at("t/two"))
	k.noError(err, "exists")
	k.equal(there, false, "a refused multi did something")
	return k.err
}

// alice is a session with a digest identity.
func (v *visit) alice() (*client, error) {
	c, err := v.connect(v.server)
	if err != nil {
		return nil, err
	}
	if err := c.AddAuth("digest", []byte("alice:secret")); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (v *visit) digest() error {
	alice, err := v.alice()
	if err != nil {
		return err
	}
	defer alice.Close()
	var k checks
	path := v.at("private")
	_, err = alice.Create(path, []byte("p"), 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	k.noError(err, "create")
	data, _, err := alice.Get(path)
	k.noError(err, "get")
	k.equal(string(data), "p", "data")
	_, _, err = v.zk.Get(path)
	k.isError(err, zk.ErrNoAuth, "get by another")
	_, err = v.zk.Set(path, nil, -1)
	k.isError(err, zk.ErrNoAuth, "set by another")
	_, _, err = v.zk.Children(path)
	k.isError(err, zk.ErrNoAuth, "children by another")
	_, err = v.zk.Create(path+"/kid", nil, 0, openACL)
	k.isError(err, zk.ErrNoAuth, "create by another")
	return k.err
}

func (v *visit) acl() error {
	alice, err := v.alice()
	if err != nil {
		return err
	}
	defer alice.Close()
	var k checks
	path, own := v.at("creator"), zk.DigestACL(zk.PermAll, "alice", "secret")
	_, err = alice.Create(path, nil, 0, zk.AuthACL(zk.PermAll))
	k.noError(err, "create")
	got, _, err := alice.GetACL(path)
	k.noError(err, "get ACL")
	k.equal(got, own, "expanded ACL")
	shared := append(zk.WorldACL(zk.PermRead), own...)
	stat, err := alice.SetACL(path, shared, 0)
	k.noError(err, "set ACL")
	if k.err != nil {
		return k.err
	}
	k.equal(stat.Aversion, int32(1), "aversion")
	_, err = alice.SetACL(path, shared, 0)
	k.isError(err, zk.ErrBadVersion, "set of an old aversion")
	masked, _, err := v.zk.GetACL(path)
	k.noError(err, "get ACL by another")
	k.equal(len(masked), 2, "entries")
	if k.err == nil {
		k.equal(masked[1].ID, "alice:x", "masked id")
	}
	_, err = v.zk.SetACL(path, openACL, -1)
	k.isError(err, zk.ErrNoAuth, "set ACL by another")
	_, err = v.zk.Create(v.at("bad"), nil, 0, zk.AuthACL(zk.PermAll))
	k.isError(err, zk.ErrInvalidACL, "auth ACL without an identity")
	return k.err
}

func (v *visit) authRefused() error {
	eve, err := v.connect(v.server)
	if err != nil {
		return err
	}
	defer eve.Close()
	var k checks
	k.isError(eve.AddAuth("nosuch", []byte("x:y")), zk.ErrAuthFailed, "auth with an unknown scheme")
	return k.err
}
