package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// judged is a run without trouble whose history porcupine has found in order.
func judged(t *testing.T) *World {
	t.Helper()
	w := New(&Scenario{Seed: 9, Nodes: 3, Clients: 4, Depth: 3, Rate: 10 * time.Millisecond, Length: 6 * time.Second})
	w.Porcupine = true
	res := w.Run()
	require.Nil(t, res.Failure)
	require.Greater(t, res.Counts["linearizable"], 6)
	require.Zero(t, res.Counts["undecided"])
	return w
}

// last finds the last answered operation of a kind without an error.
func (h *history) last(t *testing.T, kind proto.Op) *op {
	t.Helper()
	for i := len(h.kept) - 1; i >= 0; i-- {
		if o := h.kept[i]; o.kind == kind && o.done && o.got.err == proto.OK {
			return o
		}
	}
	t.Fatal("no such operation")
	return nil
}

func TestPorcupineSeesWhatIsNotLinearizable(t *testing.T) {
	plants := map[string]func(w *World){
		"a version that a write cannot have had": func(w *World) {
			o := w.history.last(t, proto.OpSetData)
			var r proto.SetDataResponse
			require.NoError(t, r.Decode(proto.NewReader(o.got.body)))
			r.Stat.Version += 3
			o.got.body = r.Append(nil)
		},
		"an acknowledged write that did not happen": func(w *World) {
			o := w.history.last(t, proto.OpSetData)
			w.history.kept = append(w.history.kept, &op{kind: proto.OpSetData, path: o.path, record: &proto.SetDataRequest{Path: o.path, Version: -1},
				called: 0, ended: 1, done: true, got: outcome{body: (&proto.SetDataResponse{}).Append(nil)}})
		},
		"a delete of what is not there": func(w *World) {
			w.history.kept = append(w.history.kept, &op{kind: proto.OpDelete, path: "/k9", record: &proto.DeleteRequest{Path: "/k9", Version: -1}, done: true})
		},
		"a read behind a sync that sees what was long gone": func(w *World) {
			sync := &op{client: 99, kind: proto.OpSync, called: w.now, done: true}
			o := w.history.last(t, proto.OpSetData)
			read := &op{client: 99, kind: proto.OpGetData, path: o.path, called: w.now, ended: w.now + 1, done: true,
				got: outcome{body: (&proto.GetDataResponse{Data: []byte("old")}).Append(nil)}}
			w.history.kept = append(w.history.kept, sync, read)
		},
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			w := judged(t)
			plant(w)
			w.history.porcupine()
			require.NotNil(t, w.fail, "nothing was seen")
			require.Equal(t, "I-29", w.fail.Invariant)
			require.Contains(t, w.fail.Text, "porcupine")
		})
	}
}

func TestPorcupineKnowsThatAnUnknownOutcomeMayBeBoth(t *testing.T) {
	w := judged(t)
	o := w.history.last(t, proto.OpSetData)
	w.history.kept = append(w.history.kept,
		&op{kind: proto.OpSetData, path: o.path, record: &proto.SetDataRequest{Path: o.path, Version: -1}, called: w.now, lost: true},
		&op{kind: proto.OpDelete, path: o.path, record: &proto.DeleteRequest{Path: o.path, Version: 77}, called: w.now, lost: true})
	w.history.porcupine()
	require.Nil(t, w.fail)
}
