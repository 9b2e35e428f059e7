package datatree

import "hash/maphash"

const (
	shardBits = 8
	minSlots  = 16 // slots come in sixteens
)

// index finds nodes by path. It is a hash table with open addressing, cut into shards that grow one by one, so that no single
// write pays for the growth of the whole. A slot is a tag, 32 bits of the hash, and the node, whose own path is the key: 12
// bytes, where Go's map would take 25. The tags alone tell where everything belongs; growth and removal do not touch the nodes.
type index struct {
	seed   maphash.Seed
	shards [1 << shardBits]shard
	count  int
}

// shard probes linearly from the home of a tag, which is tag/2^32 of the way through the slots. Invariant: between a tag's home
// and its slot no slot is free (tag 0).
type shard struct {
	tags  []uint32
	nodes []*Node
	used  int
}

func newIndex() *index { return &index{seed: maphash.MakeSeed()} }

// place splits a hash into a shard and a tag that is not 0.
func (x *index) place(hash uint64) (s *shard, tag uint32) {
	return &x.shards[hash>>(64-shardBits)], max(uint32(hash), 1)
}

func (s *shard) home(tag uint32) int { return int(uint64(tag) * uint64(len(s.tags)) >> 32) }

// seek returns the first slot from i on that holds tag, -1 if a free one comes before it.
func (s *shard) seek(i int, tag uint32) int {
	if len(s.tags) == 0 {
		return -1
	}
	for ; ; i++ {
		if i == len(s.tags) {
			i = 0
		}
		switch s.tags[i] {
		case tag:
			return i
		case 0:
			return -1
		}
	}
}

// find returns the slot of path, -1 if it is not there.
func (s *shard) find(tag uint32, path string) int {
	for i := s.seek(s.home(tag), tag); i >= 0; i = s.seek(i+1, tag) {
		if s.nodes[i].Path() == path {
			return i
		}
	}
	return -1
}

func (x *index) len() int { return x.count }

// hash is what a path is found by.
func (x *index) hash(path string) uint64 { return maphash.String(x.seed, path) }

func (x *index) get(path string) *Node { return x.getHashed(path, x.hash(path)) }

// getHashed is get where the hash is known.
func (x *index) getHashed(path string, hash uint64) *Node {
	s, tag := x.place(hash)
	if i := s.find(tag, path); i >= 0 {
		return s.nodes[i]
	}
	return nil
}

// getBytes is get without a string.
func (x *index) getBytes(path []byte) *Node {
	s, tag := x.place(maphash.Bytes(x.seed, path))
	for i := s.seek(s.home(tag), tag); i >= 0; i = s.seek(i+1, tag) {
		if n := s.nodes[i]; n.Path() == string(path) {
			return n
		}
	}
	return nil
}

// put stores n under its path, in the place of its former self if there is one.
func (x *index) put(n *Node) {
	s, tag := x.place(maphash.String(x.seed, n.Path()))
	if i := s.find(tag, n.Path()); i >= 0 {
		s.nodes[i] = n
		return
	}
	x.fill(s, tag, n)
}

// enter is put for a node whose path is not there; hash is the path's.
func (x *index) enter(n *Node, hash uint64) {
	s, tag := x.place(hash)
	x.fill(s, tag, n)
}

func (x *index) fill(s *shard, tag uint32, n *Node) {
	if s.used+1 > len(s.tags)/16*13 {
		s.grow()
	}
	s.insert(tag, n)
	s.used++
	x.count++
}

// insert takes the first free slot.
func (s *shard) insert(tag uint32, n *Node) {
	i := s.seek(s.home(tag), 0)
	s.tags[i], s.nodes[i] = tag, n
}

func (s *shard) grow() {
	old := *s
	s.make(len(old.tags) * 3 / 2)
	for i, tag := range old.tags {
		if tag != 0 {
			s.insert(tag, old.nodes[i])
		}
	}
}

// loadParts is into how many parts load cuts the shards; those of one part fit into the processor's cache.
const loadParts = 16

// load fills an empty index with count nodes, each of which has a path of its own.
func (x *index) load(batches []*Batch, count int, run func(n int, do func(i int))) {
	const shards = 1 << shardBits
	var sizes [shards]int
	for _, b := range batches {
		for _, hash := range b.hashes {
			sizes[hash>>(64-shardBits)]++
		}
	}
	run(loadParts, func(part int) {
		const each = shards / loadParts
		for i := part * each; i < (part+1)*each; i++ {
			x.shards[i].make(sizes[i] * 16 / 10) // a log with a quarter as many new nodes makes none of them grow
		}
		for _, b := range batches {
			for i, hash := range b.hashes {
				if hash>>(64-shardBits)/each == uint64(part) {
					s, tag := x.place(hash)
					s.insert(tag, b.nodes[i])
				}
			}
		}
		for i := part * each; i < (part+1)*each; i++ {
			x.shards[i].used = sizes[i]
		}
	})
	x.count = count
}

// make gives an empty shard so many slots, at least.
func (s *shard) make(slots int) {
	size := max(minSlots, slots+15) / 16 * 16
	s.tags, s.nodes = make([]uint32, size), make([]*Node, size)
}

// remove empties the slot of n and moves up those behind it that would not be found across the gap.
func (x *index) remove(n *Node) {
	s, tag := x.place(maphash.String(x.seed, n.Path()))
	gap := s.find(tag, n.Path())
	if gap < 0 {
		return
	}
	size := len(s.tags)
	for i := gap; ; {
		if i++; i == size {
			i = 0
		}
		tag := s.tags[i]
		if tag == 0 {
			break
		}
		fromHome, fromGap := (i-s.home(tag)+size)%size, (i-gap+size)%size
		if fromHome >= fromGap {
			s.tags[gap], s.nodes[gap] = tag, s.nodes[i]
			gap = i
		}
	}
	s.tags[gap], s.nodes[gap] = 0, nil
	s.used--
	x.count--
}
