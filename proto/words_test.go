package proto

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigestID(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, DigestID([]byte(in)))
	}
	f("bob:secret", "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=")
	f("", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk=")
	f("bob", "bob:SBgazSKz7a68ikR4aKfffOYpkgo=")
	f("a:b:c", "a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0=")
}

func TestErrCodes(t *testing.T) {
	require.NoError(t, OK.Err())
	require.ErrorIs(t, ErrNoNode.Err(), ErrNoNode)
	require.Equal(t, "NoNode", ErrNoNode.Name())
	require.Equal(t, "node does not exist", ErrNoNode.Error())
	require.Equal(t, "-99", ErrCode(-99).Name())
	require.Equal(t, "error code -99", ErrCode(-99).Error())
}

// The recordings name every code that they hold; the names must agree with ours but for capitals.
func TestErrCodeNamesAgreeWithRecordings(t *testing.T) {
	seen := 0
	for _, v := range loadVectors(t) {
		for _, frame := range v.Decoded.Response {
			if frame.Header.Err == nil {
				continue
			}
			require.Equal(t, frame.ErrName, strings.ToUpper(ErrCode(*frame.Header.Err).Name()), v.Name)
			seen++
		}
	}
	require.Greater(t, seen, 150)
}

func TestOps(t *testing.T) {
	codes := map[bool][]Op{} // by Known
	for o := Op(-20); o < 200; o++ {
		codes[o.Known()] = append(codes[o.Known()], o)
		if o.Known() {
			require.NotContains(t, o.String(), "(", "known op %d has no name", int32(o))
		}
	}
	require.Equal(t, []Op{-11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22,
		100, 101, 102, 103, 104, 105, 106, 107}, codes[true])
	for _, o := range []Op{OpNotification, OpCheck, OpError, OpCreateSession, 10, 23, 108} {
		require.Contains(t, codes[false], o)
	}
	var writes []Op
	for o := Op(-20); o < 200; o++ {
		if o.IsWrite() {
			writes = append(writes, o)
		}
	}
	require.Equal(t, []Op{-11, -10, 1, 2, 5, 7, 14, 15, 16, 19, 20, 21}, writes)
	require.Equal(t, "op(99)", Op(99).String())
}

func TestCreateFlags(t *testing.T) {
	f := func(flags CreateFlags, want string) {
		t.Helper()
		got := ""
		for _, p := range []struct {
			has    bool
			letter string
		}{{flags.Valid(), "v"}, {flags.Ephemeral(), "e"}, {flags.Sequential(), "s"}, {flags.Container(), "c"}, {flags.TTL(), "t"}} {
			if p.has {
				got += p.letter
			}
		}
		require.Equal(t, want, got, "flags %d", flags)
	}
	f(-1, "")
	f(FlagPersistent, "v")
	f(FlagEphemeral, "ve")
	f(FlagPersistentSequential, "vs")
	f(FlagEphemeralSequential, "ves")
	f(FlagContainer, "vc")
	f(FlagPersistentTTL, "vt")
	f(FlagPersistentSequentialTTL, "vst")
	f(7, "")
}

func TestPermString(t *testing.T) {
	require.Equal(t, "cdrwa", PermAll.String())
	require.Equal(t, "rw", (PermRead | PermWrite | 64).String())
	require.Equal(t, "", Perm(0).String())
}

// vector is one recorded exchange with the original server.
type vector struct {
	Name     string `json:"name"`
	Request  string `json:"request_hex"`
	Response string `json:"response_hex"`
	Decoded  struct {
		Request  *vectorFrame  `json:"request"`
		Response []vectorFrame `json:"response"`
	} `json:"decoded"`
}

// vectorFrame is the decoded form of one frame, as a request or as a reply.
type vectorFrame struct {
	Record  string          `json:"record"` // of the handshake
	Op      string          `json:"op"`
	Type    Op              `json:"type"`
	Xid     int32           `json:"xid"`
	Kind    string          `json:"kind"`
	ErrName string          `json:"err_name"`
	RawText *string         `json:"raw_text"`
	Body    json.RawMessage `json:"body"`
	Header  struct {
		Xid int32  `json:"xid"`
		Err *int32 `json:"err"`
	} `json:"header"`
}

func loadVectors(tb testing.TB) []vector {
	tb.Helper()
	var all []vector
	for _, name := range []string{"testdata/vectors.jsonl", "testdata/vectors-extended.jsonl"} {
		f, err := os.Open(name)
		require.NoError(tb, err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var v vector
			require.NoError(tb, json.Unmarshal(lines.Bytes(), &v), name)
			all = append(all, v)
		}
		require.NoError(tb, lines.Err())
		require.NoError(tb, f.Close())
	}
	require.Len(tb, all, 182+37)
	return all
}
