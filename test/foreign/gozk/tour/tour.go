package tour

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/go-zookeeper/zk"
)

// Run takes the client through every server of the list ("host:port" each, all
// of one ensemble) and reports each check once to log, which is called on the
// caller's goroutine. The detail is empty when ok. It works with one server too.
// It needs no request beyond those of ZooKeeper 3.4; Extra has the rest.
func Run(servers []string, log func(ok bool, name, detail string)) {
	c := &checker{log: log, stepTimeout: stepTimeout, connectTimeout: connectTimeout}
	c.run(servers)
}

func (c *checker) run(servers []string) {
	root := fmt.Sprintf("/foreign-gozk-%016x", rand.Uint64())
	var keeper *client
	if !c.step("setup", func() (err error) {
		if keeper, err = c.connect(servers...); err != nil {
			return err
		}
		_, err = keeper.Create(root, nil, 0, openACL)
		return err
	}) {
		return
	}
	defer keeper.Close()

	for i, server := range servers {
		c.tourMember(fmt.Sprintf("m%d/", i), server, servers[(i+1)%len(servers)], fmt.Sprintf("%s/m%d", root, i))
	}
	c.tourSessions(servers, root)
	c.tourRecipes(servers, root)

	c.step("cleanup", func() (err error) {
		for range cleanupTries {
			if err = cleanUp(keeper, root); !errors.Is(err, zk.ErrConnectionClosed) {
				break // on a slow machine a connection may be lost; it comes again
			}
		}
		if errors.Is(err, zk.ErrNoNode) { // deleted before the connection was lost
			err = nil
		}
		return err
	})
}

const cleanupTries = 5

func cleanUp(keeper *client, root string) error {
	if err := keeper.AddAuth("digest", []byte("alice:secret")); err != nil {
		return err
	}
	if _, err := keeper.Sync(root); err != nil {
		return err
	}
	return removeTree(keeper, root)
}

// visit is the tour through one member: the client there, another client
// through the next member, and a znode for both.
type visit struct {
	*checker
	name, server string
	zk, other    *client
	base         string
}

func (v *visit) at(name string) string { return v.base + "/" + name }

func (c *checker) tourMember(name, server, next, base string) {
	v := &visit{checker: c, name: name, server: server, base: base}
	if !c.step(name+"connect", v.open(next)) {
		return
	}
	defer v.other.Close()
	defer v.zk.Close()
	for _, s := range []struct {
		name string
		body func() error
	}{
		{"create", v.create},
		{"read", v.read},
		{"update", v.update},
		{"values", v.values},
		{"list", v.list},
		{"delete", v.delete},
		{"sequences", v.sequences},
		{"pipeline", v.pipeline},
		{"watch-exists", v.watchExists},
		{"watch-data", v.watchData},
		{"watch-child", v.watchChild},
		{"watch-once", v.watchOnce},
		{"watch-deleted", v.watchDeleted},
		{"ephemeral", v.ephemeral},
		{"multi", v.multi},
		{"multi-refused", v.multiRefused},
		{"digest", v.digest},
		{"acl", v.acl},
		{"auth-refused", v.authRefused},
		{"sync", v.sync},
	} {
		c.step(name+s.name, s.body)
	}
}

func (v *visit) open(next string) func() error {
	return func() (err error) {
		if v.zk, err = v.connect(v.server); err != nil {
			return err
		}
		if v.other, err = v.connect(next); err != nil {
			v.zk.Close()
			return err
		}
		var k checks
		_, err = v.zk.Sync("/")
		k.noError(err, "sync")
		_, err = v.zk.Create(v.base, nil, 0, openACL)
		k.noError(err, "create")
		_, err = v.other.Sync(v.base)
		k.noError(err, "sync")
		if k.err != nil {
			v.zk.Close()
			v.other.Close()
		}
		return k.err
	}
}
