package datatree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func (w *world) set(path, data string) {
	w.Helper()
	w.zxid++
	n := w.Get(path)
	require.NotNil(w, n, path)
	_, _, err := w.SetData(w.zxid, int64(w.zxid), &txn.SetData{Path: path, Data: []byte(data), Version: n.Version() + 1}, nil)
	require.NoError(w, err)
}

func (w *world) data(path string) string {
	w.Helper()
	n := w.Get(path)
	require.NotNil(w, n, path)
	data, _ := n.Data()
	return data
}

// quota makes the nodes of a quota on the one-component path p.
func (w *world) quota(p, limits string) {
	w.create(quotaRoot+p, 0)
	w.create(quotaRoot+p+limitsName, 0, []byte(limits)...)
	w.create(quotaRoot+p+statsName, 0, []byte("whatever")...)
}

// A stats node's data is replaced at once, and whoever wrote it is told of what was written: its Stat is of before.
func TestStatOfAWriteIsOfBeforeTheCharge(t *testing.T) {
	w := newWorld(t)
	w.create(quotaRoot+"/zookeeper", 0)
	w.create(quotaRoot+"/zookeeper"+limitsName, 0, []byte("count=9")...)
	stats := quotaRoot + "/zookeeper" + statsName
	stat, _, err := w.Create(w.zxid+1, 1, &txn.Create{Path: stats, Data: make([]byte, 100), ACL: proto.OpenACL()}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 100, stat.DataLength)
	stat, _, err = w.SetData(w.zxid+2, 2, &txn.SetData{Path: stats, Data: make([]byte, 200), Version: 1}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 200, stat.DataLength)
	require.Less(t, len(w.data(stats)), 50)
}

func TestQuotaCountsWhatItsSubtreeHolds(t *testing.T) {
	w := newWorld(t)
	w.create("/q", 0, []byte("ab")...)
	w.create("/q/old", 0, []byte("cde")...)
	w.quota("/q", "count=2,bytes=100")
	stats := quotaRoot + "/q" + statsName
	require.Equal(t, "count=2,bytes=5", w.data(stats), "counted when the node is made")
	before := w.stat(stats)
	digest := w.Digest()

	w.create("/q/new", 0, []byte("fghi")...)
	require.Equal(t, "count=3,bytes=9", w.data(stats))
	w.set("/q/new", "f")
	require.Equal(t, "count=3,bytes=6", w.data(stats))
	w.set("/q", "abc")
	require.Equal(t, "count=3,bytes=7", w.data(stats), "the node itself counts")
	require.Equal(t, before, w.stat(stats), "as long as the text is, nothing of the Stat changes")
	w.create("/qq", 0, []byte("not below")...)
	require.Equal(t, "count=3,bytes=7", w.data(stats))
	require.Equal(t, []Overrun{{Subtree: "/q", What: "count", Usage: 3, Limit: 2}}, w.OverSoft("/q/new"))
	require.Empty(t, w.OverSoft("/qq"))
	w.del("/q/new")
	require.Equal(t, "count=2,bytes=6", w.data(stats))
	require.Empty(t, w.OverSoft("/q"))
	w.del("/qq")
	require.NotEqual(t, digest, w.Digest())
	require.Equal(t, digestByHand(w.Tree), w.Digest())

	w.del(quotaRoot + "/q" + limitsName)
	w.del("/q/old")
	require.Equal(t, "count=2,bytes=6", w.data(stats), "no quota is active any more")
	require.False(t, w.HasQuotas())
}

func TestTheDeepestQuotaCounts(t *testing.T) {
	w := newWorld(t)
	w.create("/q", 0)
	w.create("/q/in", 0)
	w.quota("/q", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3")
	w.quota("/q/in", "count=-1,bytes=-1")
	w.create("/q/in/x", 0, []byte("1234567890123")...)
	require.Equal(t, "count=2,bytes=0", w.data(quotaRoot+"/q"+statsName))
	require.Equal(t, "count=2,bytes=13", w.data(quotaRoot+"/q/in"+statsName))
	require.True(t, w.FitsQuota("/q/in/y", 100, 100), "the outer one does not look in")
	require.True(t, w.FitsQuota("/q/y", 1, 10), "a limit may be reached")
	require.False(t, w.FitsQuota("/q/y", 2, 0))
	require.False(t, w.FitsQuota("/q/y", 1, 11))
	require.True(t, w.FitsQuota("/elsewhere", 100, 100))

	again, err := load(w.Clone())
	require.NoError(t, err)
	w.Tree = again
	require.Equal(t, "count=3,bytes=13", w.data(quotaRoot+"/q"+statsName), "a server that starts counts quotas within, as the original")
	require.Equal(t, "count=2,bytes=13", w.data(quotaRoot+"/q/in"+statsName))
	w.create("/q/y", 0)
	require.Equal(t, "count=4,bytes=13", w.data(quotaRoot+"/q"+statsName), "and the quota is active")
}

func TestQuotaNodesWithNonsense(t *testing.T) {
	w := newWorld(t)
	w.create("/q", 0, []byte("ab")...)
	w.quota("/q", "no limits")
	stats := quotaRoot + "/q" + statsName
	for _, nonsense := range []string{"", "count", "count=x,bytes=1", "=", ",;"} {
		w.set(stats, nonsense)
		w.set("/q", "abc")
		w.set("/q", "ab")
		require.Contains(t, w.data(stats), "count=-1,bytes=-1", nonsense)
		require.True(t, w.FitsQuota("/q", 1, 1))
	}
	w.set(stats, "bytes=5,own=7,count=1")
	w.create("/q/x", 0)
	require.Equal(t, "count=2,bytes=5=;own=7", w.data(stats), "further figures are kept")
	w.set("/q", "")
	require.Equal(t, "count=2,bytes=3=;own=7", w.data(stats), "and read again")
	w.del(stats)
	w.create("/q/y", 0)
	require.True(t, w.FitsQuota("/q", 1, 1), "without stats nothing can be enforced")
	w.create(quotaRoot+statsName, 0)
	require.Equal(t, "count=10,bytes=", w.data(quotaRoot + statsName)[:15], "of the whole tree")
}

func FuzzFigures(f *testing.F) {
	for _, seed := range []string{"count=1,bytes=2", "count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3", "a=1,a=2", "=;=,", "count=9223372036854775807", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		figures := parseFigures(data)
		text := string(figures.append(nil))
		again := parseFigures(text)
		require.Equal(t, figures.get(countKey), again.get(countKey), text)
		require.Equal(t, figures.get(bytesKey), again.get(bytesKey), text)
		require.Equal(t, text, string(again.append(nil)), "what was written reads back")
	})
}
