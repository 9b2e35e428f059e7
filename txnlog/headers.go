package txnlog

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/txn"
)

// candidate is a file with a segment's name.
type candidate struct {
	segment
	size    int64
	headErr error // errHeader: it has no valid header
}

// list finds the files and reads the headers. It returns those whose header is not valid, oldest first.
func (r *recovery) list() (bad []*candidate, err error) {
	entries, err := r.disk.List(r.dir)
	if err != nil {
		return nil, err
	}
	var good []*candidate
	for _, e := range entries {
		generation, first, tmp, ok := parseSegmentName(e.Name)
		if !ok || e.Dir || generation != r.start.Generation {
			continue
		}
		path := filepath.Join(r.dir, e.Name)
		if tmp {
			r.leftovers = append(r.leftovers, path)
			continue
		}
		c := &candidate{segment: segment{name: e.Name, path: path, end: e.Size}, size: e.Size}
		if err := r.readHeader(c, first); err != nil {
			return nil, err
		}
		if c.headErr != nil {
			bad = append(bad, c)
		} else {
			good = append(good, c)
		}
	}
	byName := func(a, b *candidate) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(good, byName)
	slices.SortFunc(bad, byName)
	r.sortOut(good)
	return bad, nil
}

// readHeader returns only errors that are no verdict on the header's bytes.
func (r *recovery) readHeader(c *candidate, first txn.Zxid) error {
	f, err := r.disk.Open(c.path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.head, err = readSegmentHeader(f)
	switch {
	case errors.Is(err, errHeader):
		c.headErr = err
	case err != nil:
		return fmt.Errorf("segment %s: %w", c.path, err)
	case c.head.Generation != r.start.Generation || c.head.First != first || c.head.FirstSeq == 0:
		c.headErr = errHeader
	case c.head.ClusterID != 0 && r.cfg.ClusterID != 0 && c.head.ClusterID != r.cfg.ClusterID:
		return fmt.Errorf("segment %s: %w: %#x, not %#x", c.path, ErrWrongCluster, c.head.ClusterID, r.cfg.ClusterID)
	}
	return nil
}

// sortOut sets aside what a later life of the log has superseded.
func (r *recovery) sortOut(good []*candidate) {
	var life uint64
	for _, c := range good {
		if c.head.Life < life {
			r.superseded = append(r.superseded, c.path)
			continue
		}
		life = c.head.Life
		r.segs = append(r.segs, c)
	}
}

// judgeHeaders finds out which files are the log. The links of the valid headers decide: a file without one is missed only where a
// link is broken and the snapshot does not cover the hole. Otherwise it is the rest of a creation, which may come back after its removal
// if the fsync of the folder failed, or a rotten segment that nobody needs.
func (r *recovery) judgeHeaders(bad []*candidate) error {
	start, err := r.linked(bad)
	if err != nil {
		return err
	}
	for i := start; i > 0; i-- {
		r.superseded = append([]string{r.segs[i-1].path}, r.superseded...)
	}
	r.segs = r.segs[start:]
	for _, c := range bad {
		t, err := r.tailOf(c, 0)
		switch n := len(r.segs); {
		case err != nil:
			return err
		case t.maxSeq == 0:
			r.leftovers = append(r.leftovers, c.path)
		case n == 0 || c.name > r.segs[n-1].name:
			return r.corrupt(c, 0, c.headErr)
		default:
			r.aside = append(r.aside, c.path)
		}
	}
	return nil
}

// linked returns the index of the oldest segment from which the links lead to the newest.
func (r *recovery) linked(bad []*candidate) (start int, err error) {
	for start = max(len(r.segs)-1, 0); start > 0; start-- {
		c, before := r.segs[start], r.segs[start-1]
		switch {
		case before.head.First == c.head.Before && before.head.Prev <= c.head.Prev && before.head.FirstSeq < c.head.FirstSeq:
		case before.head.First != c.head.Before && c.head.Prev <= r.start.Base:
			// What stood between was purged, and then the power brought back an older name, whose removal was never durable; or it is
			// damaged. That is no harm as long as the snapshot covers the hole.
			return start, nil
		default:
			return start, r.hole(bad, before.name, c, errSegment)
		}
	}
	if len(r.segs) > 0 && r.segs[0].head.Prev > r.start.Base {
		return 0, r.hole(bad, "", r.segs[0], errBase)
	}
	return 0, nil
}

// hole reports that something is missing in front of c: a damaged file between it and the segment of the name before, if there is one.
func (r *recovery) hole(bad []*candidate, before string, c *candidate, err error) error {
	for _, b := range bad {
		if b.name > before && b.name < c.name {
			return r.corrupt(b, 0, b.headErr)
		}
	}
	return r.corrupt(c, 0, err)
}
