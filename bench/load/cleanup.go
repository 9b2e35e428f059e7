package load

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/proto"
)

// deleteBatch is how many deletes go into one multi.
const deleteBatch = 100

// cleanUp removes what prepare and the lanes have made. It deletes by name, so that it needs no list of children.
func cleanUp(cfg *Config, lanes []*lane) error {
	if len(lanes) == 0 {
		return nil
	}
	c := lanes[0].c
	var err error
	switch cfg.Workload {
	case Children:
		err = c.remove(tenChildren, func(dst []byte, i int) []byte { return appendPath(dst, cfg.Root+"/c/n", int64(i)) })
		err = errors.Join(err, c.removeOne(cfg.Root+"/c"))
	case Create, Fill:
		for _, l := range lanes {
			err = errors.Join(err, l.removeCreated(c))
		}
		if cfg.Workload == Create {
			err = errors.Join(err, c.removeOne(cfg.Root+"/c"))
			break
		}
		err = errors.Join(err, c.remove(fillParents(cfg), func(dst []byte, i int) []byte {
			return proto.AppendString(dst, fillParent(cfg.Root, int64(i)*fillFanout))
		}))
	case Churn, Sessions:
	default:
		err = c.remove(cfg.Keys, func(dst []byte, i int) []byte { return appendPath(dst, cfg.Root+"/k", int64(i)) })
	}
	if err := errors.Join(err, c.removeOne(cfg.Root)); err != nil {
		return fmt.Errorf("remove what was made below %s: %w", cfg.Root, err)
	}
	return nil
}

// removeCreated removes what the lane has created, over another lane's connection.
func (l *lane) removeCreated(c *conn) error {
	return c.remove(int(l.created), func(dst []byte, i int) []byte {
		n := int64(l.id) + int64(i)*int64(l.cfg.Conns)
		if l.cfg.Workload == Fill {
			return appendPath(dst, fillParent(l.cfg.Root, n)+"/n", n)
		}
		return appendPath(dst, l.parent+"/n", n)
	})
}

// remove deletes n znodes, many in one transaction; path appends the string of the i-th. It fails if one is not there.
func (c *conn) remove(n int, path func(dst []byte, i int) []byte) error {
	batches := (n + deleteBatch - 1) / deleteBatch
	request := func(dst []byte, b int) []byte {
		dst, mark := c.begin(dst, proto.OpMulti)
		for i := b * deleteBatch; i < min((b+1)*deleteBatch, n); i++ {
			dst = proto.AppendInt32(path(append(dst, delHeader...), i), -1)
		}
		return proto.EndFrame(append(dst, multiEnd...), mark)
	}
	return c.pipeline(batches, request, func(_ int, r reply) error {
		if r.err != proto.OK {
			return r.err
		}
		results, err := proto.DecodeMultiResults(proto.NewReader(r.body))
		for _, res := range results {
			if err == nil {
				err = res.Err.Err()
			}
		}
		return err
	})
}

func (c *conn) removeOne(path string) error {
	return c.remove(1, func(dst []byte, _ int) []byte { return proto.AppendString(dst, path) })
}
