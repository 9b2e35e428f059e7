package client

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/proto"
)

// Reads collects reads that are answered by one server in one go. Each method returns where the answer will be once
// Client.MultiRead has returned without an error; every answer has an error of its own. A Reads belongs to one goroutine
// and is good for one call. The zero value is ready.
type Reads struct {
	steps []readStep
}

// Got is the answer to a get.
type Got struct {
	Data []byte
	Stat Stat
	Err  error // an *OpError
}

// Listed is the answer to a listing.
type Listed struct {
	Children []string
	Stat     Stat  // of the node; only a Batch fills it in
	Err      error // an *OpError
}

type readStep struct {
	path   string
	got    *Got
	listed *Listed
}

// Get adds the reading of a node, see Client.Get.
func (r *Reads) Get(path string) *Got {
	s := readStep{path: path, got: new(Got)}
	r.steps = append(r.steps, s)
	return s.got
}

// Children adds the listing of a node, see Client.Children.
func (r *Reads) Children(path string) *Listed {
	s := readStep{path: path, listed: new(Listed)}
	r.steps = append(r.steps, s)
	return s.listed
}

// Len returns the number of reads.
func (r *Reads) Len() int { return len(r.steps) }

// MultiRead carries out all reads of r. Servers before ZooKeeper 3.6 answer with ErrUnimplemented.
func (c *Client) MultiRead(ctx context.Context, r *Reads) error {
	ops := make([]proto.MultiOp, len(r.steps))
	for i, s := range r.steps {
		op := s.op()
		if err := proto.ValidatePath(s.path); err != nil {
			return &OpError{Op: proto.OpMultiRead, Err: &MultiError{Index: i, Op: op, Path: s.path, Err: err}}
		}
		ops[i] = proto.MultiOp{Op: op, Request: &proto.PathWatchRequest{Path: c.addChroot(s.path)}}
	}
	req := multiRecord{ops: ops}
	k := newCall(proto.OpMultiRead, "", &req)
	if err := c.ask(ctx, k, &req); err != nil {
		return err
	}
	if len(req.results) != len(r.steps) {
		err := fmt.Errorf("%w: %d results of %d reads", ErrMarshalling, len(req.results), len(r.steps))
		k.conn.fail(err)
		return k.unknown(err)
	}
	for i := range req.results {
		r.steps[i].take(&req.results[i])
	}
	return nil
}

func (s *readStep) op() proto.Op {
	if s.got != nil {
		return proto.OpGetData
	}
	return proto.OpGetChildren
}

func (s *readStep) take(res *proto.MultiResult) {
	var err error
	switch {
	case res.Err != proto.OK:
		err = &OpError{Op: s.op(), Path: s.path, Err: res.Err}
	case res.Op != s.op():
		err = &OpError{Op: s.op(), Path: s.path, Err: ErrMarshalling}
	}
	switch {
	case s.got != nil && err == nil:
		*s.got = Got{Data: res.Data, Stat: statFrom(&res.Stat)}
	case s.got != nil:
		s.got.Err = err
	case err == nil:
		s.listed.Children = res.Children
	default:
		s.listed.Err = err
	}
}
