package tour

import (
	"errors"
	"net"
	"sync"
	"time"
)

// cuttable is a dialer that remembers its last connection, so that a check can
// break it under the client.
type cuttable struct {
	mu   sync.Mutex
	last net.Conn
}

func (d *cuttable) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.last = conn
	d.mu.Unlock()
	return conn, nil
}

// cut closes the connection that was dialed last.
func (d *cuttable) cut() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return errors.New("cut: no connection yet")
	}
	return d.last.Close()
}
