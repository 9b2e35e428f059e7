package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// kind is what an op does.
type kind string

const (
	read   kind = "read"   // plain: what the session's server has
	fresh  kind = "fresh"  // sync, then read
	set    kind = "set"    // whatever the version
	cas    kind = "cas"    // set of one version
	create kind = "create" // persistent
	remove kind = "delete" // of one version, or whatever it is
	seq    kind = "seq"    // sequential create; Key is the name that came back
)

// result is what a client was told.
type result string

const (
	done    result = "ok"
	none    result = "no node"
	exists  result = "node exists"
	version result = "bad version"
	unknown result = "unknown" // carried out or not, now or later or never
	nothing result = "nothing" // certainly not carried out; a read without an answer
)

// op is one line of a history. Times are nanoseconds since the start of the run.
type op struct {
	Session int64  `json:"session"`
	Kind    kind   `json:"kind"`
	Key     string `json:"key"`
	Value   string `json:"value,omitempty"` // written, or read
	Expect  int32  `json:"expect"`          // version wanted by cas and delete
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
	View    int64  `json:"view"` // last zxid that the session knew of when it called
	Result  result `json:"result"`
	Error   string `json:"error,omitempty"`
	Version int32  `json:"version"` // read, or after the write
	Zxid    int64  `json:"zxid"`    // that last changed the node, as read or written
}

// history collects ops of all sessions.
type history struct {
	began time.Time
	acked atomic.Int64 // writes

	mu  sync.Mutex
	ops []*op
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// call runs f between the two clock readings and records what it says.
func (h *history) call(c *client.Client, o op, f func(o *op) error) *op {
	o.Session, o.View, o.Call = c.SessionID(), c.LastZxid(), h.now()
	err := f(&o)
	o.Return = h.now()
	o.Result = judge(err)
	if o.Result == unknown || o.Result == nothing {
		o.Error = err.Error()
	}
	if o.Result == done && o.Kind != read && o.Kind != fresh {
		h.acked.Add(1)
	}
	h.add(&o)
	return &o
}

func (h *history) add(o *op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

func judge(err error) result {
	var oe *client.OpError
	switch {
	case err == nil:
		return done
	case errors.Is(err, client.ErrNoNode):
		return none
	case errors.Is(err, client.ErrNodeExists):
		return exists
	case errors.Is(err, client.ErrBadVersion):
		return version
	case errors.As(err, &oe) && oe.MaybeApplied:
		return unknown
	case errors.Is(err, client.ErrConnectionLoss), errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrClosed),
		errors.Is(err, client.ErrThrottledOp), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nothing
	}
	return result("unexpected: " + err.Error())
}

// save writes the history as lines of JSON and returns the file's name.
func (h *history) save(t *testing.T, name string) string {
	dir := os.Getenv("ZKD_HISTORY")
	if dir == "" {
		var err error
		dir, err = os.MkdirTemp("", "zkd-history-")
		require.NoError(t, err)
	}
	f, err := os.Create(filepath.Join(dir, name+".json"))
	require.NoError(t, err)
	defer f.Close()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, o := range h.ops {
		require.NoError(t, enc.Encode(o))
	}
	require.NoError(t, w.Flush())
	return f.Name()
}
