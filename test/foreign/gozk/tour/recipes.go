package tour

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// contenders is how many clients a recipe has, spread over the members.
const contenders = 3

func (c *checker) tourRecipes(servers []string, root string) {
	var conns []*client
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if !c.step("recipes-connect", func() error {
		for i := range contenders {
			conn, err := c.connect(servers[i%len(servers)])
			if err != nil {
				return err
			}
			conns = append(conns, conn)
			if _, err := conn.Sync(root); err != nil {
				return err
			}
		}
		return nil
	}) {
		return
	}
	c.step("lock", func() error { return lock(conns, root+"/lock") })
	c.step("lock-of-a-closed-session", func() error { return c.lockInherited(servers, conns[0], root+"/inherited") })
	c.step("election", func() error { return c.election(servers, root+"/election") })
}

// lock protects a counter that would lose additions without it.
func lock(conns []*client, path string) error {
	const rounds = 5
	var inside, total atomic.Int32
	errs := make(chan error, len(conns))
	for _, conn := range conns {
		go func() {
			l := zk.NewLock(conn.Conn, path, openACL)
			for range rounds {
				if err := l.Lock(); err != nil {
					errs <- fmt.Errorf("lock: %w", err)
					return
				}
				if n := inside.Add(1); n != 1 {
					errs <- fmt.Errorf("%d holders at once", n)
					return
				}
				seen := total.Load()
				time.Sleep(5 * time.Millisecond)
				total.Store(seen + 1)
				inside.Add(-1)
				if err := l.Unlock(); err != nil {
					errs <- fmt.Errorf("unlock: %w", err)
					return
				}
			}
			errs <- nil
		}()
	}
	var k checks
	for range conns {
		k.noError(<-errs, "contender")
	}
	k.equal(total.Load(), int32(rounds*len(conns)), "lock-protected count")
	return k.err
}

// lockInherited waits for a lock whose holder goes away without unlocking.
func (c *checker) lockInherited(servers []string, heir *client, path string) error {
	holder, err := c.connect(servers[len(servers)-1])
	if err != nil {
		return err
	}
	defer holder.Close()
	if err := zk.NewLock(holder.Conn, path, openACL).Lock(); err != nil {
		return fmt.Errorf("first lock: %w", err)
	}
	got := make(chan error, 1)
	l := zk.NewLock(heir.Conn, path, openACL)
	go func() { got <- l.Lock() }()
	if err := again(func() error {
		kids, _, err := holder.Children(path)
		if err == nil && len(kids) < 2 {
			err = errors.New("the heir has not lined up")
		}
		return err
	}); err != nil {
		return err
	}
	select {
	case err := <-got:
		return fmt.Errorf("the heir did not wait: %v", err)
	default:
	}
	holder.Close()
	select {
	case err := <-got:
		if err != nil {
			return fmt.Errorf("second lock: %w", err)
		}
		return l.Unlock()
	case <-time.After(eventTimeout):
		return errors.New("the lock of a closed session was not freed")
	}
}

// election: the lowest sequential ephemeral leads, the next one watches it.
func (c *checker) election(servers []string, path string) error {
	conns := make([]*client, contenders)
	for i := range conns {
		conn, err := c.connect(servers[i%len(servers)])
		if err != nil {
			return err
		}
		defer conn.Close()
		conns[i] = conn
	}
	var k checks
	_, err := conns[0].Create(path, nil, 0, openACL)
	k.noError(err, "create")
	mine := make([]string, len(conns))
	for i, conn := range conns {
		_, err = conn.Sync(path)
		k.noError(err, "sync")
		mine[i], err = conn.Create(path+"/c-", nil, zk.FlagEphemeralSequential, openACL)
		k.noError(err, "line up")
	}
	for i, leader := range conns[:len(conns)-1] {
		next := conns[i+1]
		_, err = next.Sync(path)
		k.noError(err, "sync")
		kids, _, err := next.Children(path)
		k.noError(err, "children")
		if k.err != nil {
			return k.err
		}
		k.equal(path+"/"+slices.Min(kids), mine[i], "leader")
		there, _, events, err := next.ExistsW(mine[i])
		k.noError(err, "watch the leader")
		k.equal(there, true, "the leader's znode")
		leader.Close()
		k.event(events, zk.EventNodeDeleted, mine[i])
	}
	return k.err
}
