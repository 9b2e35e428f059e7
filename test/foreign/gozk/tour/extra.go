package tour

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-zookeeper/zk"
)

// Extra checks what the client can ask beyond the requests of ZooKeeper 3.4:
// containers and the refusal of TTL nodes on a server with stock settings. Its
// arguments are those of Run.
func Extra(servers []string, log func(ok bool, name, detail string)) {
	c := &checker{log: log, stepTimeout: stepTimeout, connectTimeout: connectTimeout}
	for i, server := range servers {
		c.step(fmt.Sprintf("m%d/containers", i), func() error { return c.containers(server) })
		c.step(fmt.Sprintf("m%d/ttl-disabled", i), func() error { return c.ttlDisabled(server) })
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
