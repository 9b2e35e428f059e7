package tour

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// stepTimeout bounds one check.
	stepTimeout = 15 * time.Second
	// connectTimeout bounds the wait for a session.
	connectTimeout = 10 * time.Second
	// eventTimeout bounds the wait for one watch event.
	eventTimeout = 10 * time.Second
	// sessionTimeout is what clients ask for.
	sessionTimeout = 10 * time.Second
)

var openACL = zk.WorldACL(zk.PermAll)

// checker reports steps and remembers the connections to close in the end.
type checker struct {
	log            func(ok bool, name, detail string)
	stepTimeout    time.Duration
	connectTimeout time.Duration
}

// step runs one check within stepTimeout. After a timeout the body's goroutine is
// left behind; it ends when close breaks the connection that it waits on. The
// result tells whether the check passed.
func (c *checker) step(name string, body func() error) bool {
	ended := make(chan error, 1)
	go func() { ended <- body() }()
	timer := time.NewTimer(c.stepTimeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-ended:
	case <-timer.C:
		err = errors.New("took too long")
	}
	if err != nil {
		c.log(false, name, err.Error())
		return false
	}
	c.log(true, name, "")
	return true
}

// client is one session with the dialer that can cut its connection.
type client struct {
	*zk.Conn
	dialer *cuttable
}

// connect opens a session through servers, or fails after connectTimeout.
func (c *checker) connect(servers ...string) (*client, error) {
	dialer := &cuttable{}
	conn, events, err := zk.Connect(servers, sessionTimeout,
		zk.WithLogger(silence{}), zk.WithDialer(dialer.dial))
	if err != nil {
		return nil, fmt.Errorf("connect %v: %w", servers, err)
	}
	timer := time.NewTimer(c.connectTimeout)
	defer timer.Stop()
	for {
		select {
		case ev := <-events:
			if ev.State == zk.StateHasSession {
				return &client{Conn: conn, dialer: dialer}, nil
			}
		case <-timer.C:
			conn.Close()
			return nil, fmt.Errorf("no session through %v", servers)
		}
	}
}

// silence is a zk.Logger that drops everything.
type silence struct{}

func (silence) Printf(string, ...any) {}

// checks collects the first fault of a step, so that a step reads as a list.
type checks struct{ err error }

// noError notes err.
func (k *checks) noError(err error, what string) {
	if k.err == nil && err != nil {
		k.err = fmt.Errorf("%s: %w", what, err)
	}
}

// isError notes a fault unless got is want.
func (k *checks) isError(got, want error, what string) {
	if k.err == nil && !errors.Is(got, want) {
		k.err = fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equal notes a fault unless got and want are equal.
func (k *checks) equal(got, want any, what string) {
	if k.err == nil && !reflect.DeepEqual(got, want) {
		k.err = fmt.Errorf("%s is %v, want %v", what, short(got), short(want))
	}
}

// event notes a fault unless the next event in time is this one.
func (k *checks) event(events <-chan zk.Event, kind zk.EventType, path string) {
	if k.err != nil {
		return
	}
	timer := time.NewTimer(eventTimeout)
	defer timer.Stop()
	select {
	case ev := <-events:
		k.noError(ev.Err, "event of "+path)
		k.equal(ev.Type, kind, "event type of "+path)
		k.equal(ev.Path, path, "event path")
	case <-timer.C:
		k.err = fmt.Errorf("no event %v of %s", kind, path)
	}
}

// short keeps a value printable.
func short(v any) string {
	s := fmt.Sprintf("%v", v)
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// removeTree deletes path and everything below it.
func removeTree(c *client, path string) error {
	kids, _, err := c.Children(path)
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	for _, kid := range kids {
		if err := removeTree(c, strings.TrimSuffix(path, "/")+"/"+kid); err != nil {
			return err
		}
	}
	return c.Delete(path, -1)
}
