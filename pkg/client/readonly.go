package client

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	minSeek   = time.Second // pause between looks for a server that writes
	maxSeek   = time.Minute
	seekLimit = time.Second // for one look
)

// errWriterFound ends the connection to a server that only reads.
var errWriterFound = errors.New("found a server that writes")

// seekWriter looks, while the session is on a read-only server, for one that takes writes; when there is one it ends cn, so
// that the session loop goes there. It runs beside the session loop's write, so hosts is its own meanwhile.
func (c *Client) seekWriter(ctx context.Context, cn *conn) {
	pause := time.NewTimer(minSeek)
	defer pause.Stop()
	for wait := minSeek; ; wait = min(2*wait, maxSeek) {
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-cn.dead:
			return
		case <-ctx.Done():
			return
		}
		for range c.hosts.addrs {
			if c.writes(ctx, c.hosts.addrs[c.hosts.next]) {
				cn.fail(errWriterFound)
				return
			}
			c.hosts.take()
		}
	}
}

// writes asks a server whether it takes writes.
func (c *Client) writes(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, seekLimit)
	defer cancel()
	nc, err := c.opts.dial(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if _, err := nc.Write([]byte("isro")); err != nil {
		return false
	}
	answer, err := io.ReadAll(io.LimitReader(nc, 8))
	return err == nil && string(answer) == "rw"
}
