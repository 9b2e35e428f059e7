package datatree

// index finds nodes by path. The keys are the nodes' own strings, so a node costs one slot and no copy of its path.
type index struct{ m map[string]*Node }

func newIndex() index { return index{m: map[string]*Node{}} }

func (x index) get(path string) *Node { return x.m[path] }

func (x index) getBytes(path []byte) *Node { return x.m[string(path)] }

func (x index) len() int { return len(x.m) }

// put stores n under its path. A map replaces the key together with the value, so the old node's string is let go.
func (x index) put(n *Node) { x.m[n.Path()] = n }

func (x index) remove(n *Node) { delete(x.m, n.Path()) }
