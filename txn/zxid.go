package txn

import (
	"fmt"
	"strconv"
	"strings"
)

// Zxid numbers a transaction: the epoch of its leader in the high 32 bits, a counter that starts at 1 in the low ones.
// The order is plain unsigned comparison. Zero is "before the first transaction".
type Zxid uint64

// Epoch numbers a leadership. Zero is "none yet".
type Epoch uint32

// MaxEpoch is the largest epoch that may be used: a zxid is a signed number for Java clients.
const MaxEpoch Epoch = 1<<31 - 2

// MaxCounter is never handed out, so that a carry into the epoch is impossible.
const MaxCounter = 1<<32 - 1

// ServerID names one server of an ensemble, the N of server.N in zoo.cfg. Zero is no server.
type ServerID uint8

// SessionID names a client's session. Zero is no session.
type SessionID int64

// MakeZxid joins an epoch and a counter.
func MakeZxid(e Epoch, counter uint32) Zxid { return Zxid(e)<<32 | Zxid(counter) }

// Epoch returns the high half.
func (z Zxid) Epoch() Epoch { return Epoch(z >> 32) }

// Counter returns the low half.
func (z Zxid) Counter() uint32 { return uint32(z) }

// String gives epoch:counter in decimal, as in 4:17.
func (z Zxid) String() string {
	return strconv.FormatUint(uint64(z>>32), 10) + ":" + strconv.FormatUint(uint64(uint32(z)), 10)
}

// Follows reports whether z may stand directly behind prev in a history: the next counter of the same epoch or the first of a
// later one.
func (z Zxid) Follows(prev Zxid) bool {
	if z.Epoch() == prev.Epoch() {
		return z == prev+1 && prev != 0
	}
	return z.Epoch() > prev.Epoch() && z.Counter() == 1
}

// ParseZxid reads what String writes, and a hexadecimal number as ZooKeeper's tools print it.
func ParseZxid(s string) (Zxid, error) {
	if rest, ok := strings.CutPrefix(s, "0x"); ok {
		n, err := strconv.ParseUint(rest, 16, 64)
		if err != nil {
			return 0, fmt.Errorf("zxid %q: %w", s, err)
		}
		return Zxid(n), nil
	}
	e, c, ok := strings.Cut(s, ":")
	if !ok {
		return 0, fmt.Errorf("zxid %q: want epoch:counter", s)
	}
	en, err := strconv.ParseUint(e, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("zxid %q: %w", s, err)
	}
	cn, err := strconv.ParseUint(c, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("zxid %q: %w", s, err)
	}
	return MakeZxid(Epoch(en), uint32(cn)), nil
}

// String gives the id in hexadecimal, as ZooKeeper's tools print it.
func (s SessionID) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }
