package tour

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

func (c *checker) tourSessions(servers []string, root string) {
	c.step("reconnect", func() error { return c.reconnect(servers, root+"/reconnect") })
	c.step("watch-survives-reconnect", func() error { return c.watchSurvives(servers, root+"/survives") })
	c.step("sessions-differ", func() error { return c.sessionsDiffer(servers) })
}

// again asks until the client is connected again; its session must not expire.
func again(ask func() error) error {
	deadline := time.Now().Add(eventTimeout)
	for {
		err := ask()
		if err == nil || err == zk.ErrSessionExpired || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// reconnect cuts the connection again and again; the session, its ephemeral
// and its identity stay, through whichever member the client finds.
func (c *checker) reconnect(servers []string, path string) error {
	conn, err := c.connect(servers...)
	if err != nil {
		return err
	}
	defer conn.Close()
	var k checks
	k.noError(conn.AddAuth("digest", []byte("alice:secret")), "auth")
	_, err = conn.Create(path, nil, zk.FlagEphemeral, zk.AuthACL(zk.PermAll))
	k.noError(err, "create")
	session := conn.SessionID()
	for i := range 2 * len(servers) {
		k.noError(conn.dialer.cut(), "cut")
		k.noError(again(func() error {
			_, err := conn.Set(path, fmt.Append(nil, i), -1)
			return err
		}), "set after a cut")
		data, stat, err := conn.Get(path)
		k.noError(err, "get after a cut")
		if k.err != nil {
			return k.err
		}
		k.equal(string(data), fmt.Sprint(i), "data")
		k.equal(stat.EphemeralOwner, session, "owner")
		k.equal(conn.SessionID(), session, "session")
	}
	return k.err
}

// watchSurvives changes a watched znode after the watcher's connection broke.
func (c *checker) watchSurvives(servers []string, path string) error {
	conn, err := c.connect(servers...)
	if err != nil {
		return err
	}
	defer conn.Close()
	other, err := c.connect(servers[0])
	if err != nil {
		return err
	}
	defer other.Close()
	var k checks
	_, err = conn.Create(path, nil, 0, openACL)
	k.noError(err, "create")
	_, err = other.Sync(path)
	k.noError(err, "sync")
	_, _, data, err := conn.GetW(path)
	k.noError(err, "watch data")
	_, _, kids, err := conn.ChildrenW(path)
	k.noError(err, "watch children")
	_, _, missing, err := conn.ExistsW(path + "/kid")
	k.noError(err, "watch a missing one")
	if k.err != nil {
		return k.err
	}
	k.noError(conn.dialer.cut(), "cut")
	_, err = other.Set(path, []byte("x"), -1)
	k.noError(err, "set")
	_, err = other.Create(path+"/kid", nil, 0, openACL)
	k.noError(err, "create")
	k.event(data, zk.EventNodeDataChanged, path)
	k.event(kids, zk.EventNodeChildrenChanged, path)
	k.event(missing, zk.EventNodeCreated, path+"/kid")
	return k.err
}

func (c *checker) sessionsDiffer(servers []string) error {
	seen := map[int64]string{}
	for range 2 {
		for _, server := range servers {
			conn, err := c.connect(server)
			if err != nil {
				return err
			}
			defer conn.Close()
			if twin, ok := seen[conn.SessionID()]; ok {
				return fmt.Errorf("%s and %s gave out session %#x", twin, server, conn.SessionID())
			}
			seen[conn.SessionID()] = server
		}
	}
	return nil
}
