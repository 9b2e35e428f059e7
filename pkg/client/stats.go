package client

import "sync/atomic"

// Stats counts what a Client has done since Dial.
type Stats struct {
	Attempts   int64 // connects that were tried
	Connects   int64 // of which these gave or kept the session
	Losses     int64 // connections that ended while the client was open
	Requests   int64 // sent
	Replies    int64 // received
	Events     int64 // of watches, received
	BytesSent  int64 // of requests, with their lengths
	BytesTaken int64 // likewise, of what servers sent
}

type counters struct {
	attempts, connects, losses, requests, replies, events, sent, taken atomic.Int64
}

// Stats returns the counts at this moment.
func (c *Client) Stats() Stats {
	n := &c.counts
	return Stats{
		Attempts: n.attempts.Load(), Connects: n.connects.Load(), Losses: n.losses.Load(), Requests: n.requests.Load(),
		Replies: n.replies.Load(), Events: n.events.Load(), BytesSent: n.sent.Load(), BytesTaken: n.taken.Load(),
	}
}

// Hooks are told about connections. They are called from the client's own goroutine, one at a time, and must return
// soon; they must not wait for an answer of this client. A nil one is not called.
type Hooks struct {
	Connected    func(addr string)            // a server has the session
	Disconnected func(addr string, err error) // it was lost
	Failed       func(addr string, err error) // an attempt that was fruitless
}

// WithHooks installs h.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

func (h *Hooks) connected(addr string) {
	if h.Connected != nil {
		h.Connected(addr)
	}
}

func (h *Hooks) disconnected(addr string, err error) {
	if h.Disconnected != nil {
		h.Disconnected(addr, err)
	}
}

func (h *Hooks) failed(addr string, err error) {
	if h.Failed != nil {
		h.Failed(addr, err)
	}
}
