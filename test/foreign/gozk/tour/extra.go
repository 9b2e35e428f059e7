package tour

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-zookeeper/zk"
)

// Extra checks what the client can ask beyond the requests of ZooKeeper 3.4:
// containers, and TTL nodes, which a server with stock settings refuses; ttl
// says that it has been told to take them. The other arguments are those of Run.
func Extra(servers []string, ttl bool, log func(ok bool, name, detail string)) {
	c := &checker{log: log, stepTimeout: stepTimeout, connectTimeout: connectTimeout}
	for i, server := range servers {
		c.step(fmt.Sprintf("m%d/containers", i), func() error { return c.containers(server) })
		if ttl {
			c.step(fmt.Sprintf("m%d/ttl", i), func() error { return c.ttl(server) })
		} else {
			c.step(fmt.Sprintf("m%d/ttl-disabled", i), func() error { return c.ttlDisabled(server) })
		}
	}
}

func (c *checker) containers(server string) error {
	conn, err := c.connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	var k checks
	box := fmt.Sprintf("/foreign-gozk-box-%016x", rand.Uint64())
	path, err := conn.CreateContainer(box, nil, zk.FlagContainer, openACL)
	k.noError(err, "create container")
	k.equal(path, box, "path")
	_, err = conn.Create(box+"/kid", nil, zk.FlagEphemeral, openACL)
	k.noError(err, "ephemeral in a container")
	k.noError(conn.Delete(box+"/kid", -1), "delete the child")
	if err := conn.Delete(box, -1); err != zk.ErrNoNode { // the sweeper may have been faster
		k.noError(err, "delete the container")
	}
	return k.err
}

func (c *checker) ttl(server string) error {
	conn, err := c.connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	var k checks
	want := fmt.Sprintf("/foreign-gozk-ttl-%016x", rand.Uint64())
	path, err := conn.CreateTTL(want, []byte("kept"), zk.FlagTTL, openACL, 1000000)
	k.noError(err, "create a TTL node")
	k.equal(path, want, "path")
	data, stat, err := conn.Get(want)
	k.noError(err, "get it")
	k.equal(string(data), "kept", "data")
	if stat != nil {
		k.equal(stat.EphemeralOwner, int64(0), "it is no session's")
	}
	k.noError(conn.Delete(want, -1), "delete it")
	return k.err
}

func (c *checker) ttlDisabled(server string) error {
	conn, err := c.connect(server)
	if err != nil {
		return err
	}
	defer conn.Close()
	path := fmt.Sprintf("/foreign-gozk-ttl-%016x", rand.Uint64())
	if _, err := conn.CreateTTL(path, nil, zk.FlagTTL, openACL, 1000000); err == nil {
		return fmt.Errorf("%s was made a TTL node", path)
	}
	if _, _, err := conn.Exists(path); err != nil {
		return fmt.Errorf("the session after the refusal: %w", err)
	}
	return nil
}
