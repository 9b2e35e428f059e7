package datatree

import (
	"maps"
	"slices"

	"github.com/zkd-project/zkd/txn"
)

// owned has the paths of each session's ephemerals.
type owned map[txn.SessionID]map[string]struct{}

func (o owned) add(owner txn.SessionID, path string) {
	paths := o[owner]
	if paths == nil {
		paths = map[string]struct{}{}
		o[owner] = paths
	}
	paths[path] = struct{}{}
}

func (o owned) remove(owner txn.SessionID, path string) {
	delete(o[owner], path)
	if len(o[owner]) == 0 {
		delete(o, owner)
	}
}

// paths is sorted, so that every server ends a session in the same order.
func (o owned) paths(owner txn.SessionID) []string { return slices.Sorted(maps.Keys(o[owner])) }

func (o owned) total() int {
	n := 0
	for _, paths := range o {
		n += len(paths)
	}
	return n
}
