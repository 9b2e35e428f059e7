package statemachine

import (
	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/txn"
)

// Overrun says that a subtree holds more than its quota allows.
type Overrun = datatree.Overrun

// fitsQuota reports whether a write may make so many more nodes and bytes at path. Like ZooKeeper it counts what is applied,
// neither what is outstanding nor the earlier operations of the same multi.
func (m *Machine) fitsQuota(path string, count, bytes int) bool {
	return !m.cfg.EnforceQuota || m.tree.FitsQuota(path, int64(count), int64(bytes))
}

// OverQuota returns the soft limits that are exceeded where an applied transaction wrote. It costs nothing while there is no quota.
func (m *Machine) OverQuota(t *txn.Txn) []Overrun {
	if !m.tree.HasQuotas() {
		return nil
	}
	if b, ok := t.Body.(*txn.Multi); ok {
		var over []Overrun
		for _, op := range b.Ops {
			over = append(over, m.overQuota(op.Body)...)
		}
		return over
	}
	return m.overQuota(t.Body)
}

func (m *Machine) overQuota(body txn.Body) []Overrun {
	switch b := body.(type) {
	case *txn.Create:
		return m.tree.OverSoft(b.Path)
	case *txn.SetData:
		return m.tree.OverSoft(b.Path)
	}
	return nil
}
