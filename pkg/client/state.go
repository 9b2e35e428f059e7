package client

import "github.com/zkd-project/zkd/proto"

// State is where a session stands.
type State uint8

// The states. A new Client is StateConnected; the last three are final.
const (
	StateDisconnected State = iota // looking for a server; the session may have expired without the client knowing
	StateConnected
	StateReadOnly // connected to a server that only reads, see WithReadOnly
	StateExpired
	StateAuthFailed
	StateClosed
)

// String returns ZooKeeper's name of the state.
func (s State) String() string {
	switch s {
	case StateDisconnected:
		return proto.StateDisconnected.String()
	case StateConnected:
		return proto.StateSyncConnected.String()
	case StateReadOnly:
		return proto.StateConnectedReadOnly.String()
	case StateExpired:
		return proto.StateExpired.String()
	case StateAuthFailed:
		return proto.StateAuthFailed.String()
	}
	return proto.StateClosed.String()
}

// Final reports whether the session has ended.
func (s State) Final() bool { return s >= StateExpired }

// States returns a new channel that gets the present state and then every change; it is closed after a final one. If the
// reader falls behind, the oldest states are dropped, never the last.
func (c *Client) States() <-chan State {
	ch := make(chan State, stateBacklog)
	c.mu.Lock()
	defer c.mu.Unlock()
	ch <- c.state
	if c.state.Final() {
		close(ch)
		return ch
	}
	c.subs = append(c.subs, ch)
	return ch
}

// setStateLocked tells the subscribers. Only holders of mu send, so that after dropping the oldest there is room.
func (c *Client) setStateLocked(s State) {
	c.state = s
	for _, ch := range c.subs {
		select {
		case ch <- s:
		default:
			select {
			case <-ch:
			default:
			}
			ch <- s
		}
		if s.Final() {
			close(ch)
		}
	}
	if s.Final() {
		c.subs = nil
	}
}

func finalState(err error) State {
	switch err {
	case ErrSessionExpired:
		return StateExpired
	case ErrAuthFailed:
		return StateAuthFailed
	}
	return StateClosed
}
