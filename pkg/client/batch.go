package client

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// maxInFlight is how many requests of a Batch may wait for their answers.
const maxInFlight = 1000

// Batch sends requests without waiting for each answer, for bulk loads: they leave together and are answered in order, but
// each one stands alone. Each method returns where the answer will be after Wait, with an error of its own. When a
// thousand are unanswered the methods wait for the oldest. A Batch belongs to one goroutine.
type Batch struct {
	ctx   context.Context
	c     *Client
	calls []batchCall
	errs  []error
}

type batchCall struct {
	k    *call
	take func(r *proto.Reader, err error) error
}

// Permitted is the answer to a GetACL.
type Permitted struct {
	ACL []ACL
	Err error // an *OpError
}

// CreateTTL sends Client.CreateTTL.
func (b *Batch) CreateTTL(path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL) *Created {
	res, resp := new(Created), new(proto.Create2Response)
	req, err := b.c.createTTLRequest(path, data, mode, ttl, acl)
	if err != nil {
		b.fail(&OpError{Op: proto.OpCreateTTL, Path: path, Err: err})
		return res
	}
	b.send(newCall(proto.OpCreateTTL, path, req), resp,
		func() { *res = Created{Path: b.c.stripChroot(resp.Path), Stat: statFrom(&resp.Stat)} })
	return res
}

// Batch returns an empty batch whose requests end with ctx.
func (c *Client) Batch(ctx context.Context) *Batch { return &Batch{ctx: ctx, c: c} }

// Create sends Client.Create. The Stat of the result is not filled in.
func (b *Batch) Create(path string, data []byte, mode CreateMode, acl []ACL) *Created {
	res := new(Created)
	op, resp := proto.OpCreate, proto.Record(new(proto.CreateResponse))
	if mode == Container {
		op, resp = proto.OpCreateContainer, new(proto.Create2Response)
	}
	req, err := b.c.createRequest(path, data, mode, acl)
	if err != nil {
		b.fail(&OpError{Op: op, Path: path, Err: err})
		return res
	}
	b.send(newCall(op, path, req), resp, func() {
		switch r := resp.(type) {
		case *proto.CreateResponse:
			res.Path = b.c.stripChroot(r.Path)
		case *proto.Create2Response:
			*res = Created{Path: b.c.stripChroot(r.Path), Stat: statFrom(&r.Stat)}
		}
	})
	return res
}

// Set sends Client.Set.
func (b *Batch) Set(path string, data []byte, version int32) *Updated {
	res, resp := new(Updated), new(proto.StatResponse)
	b.node(proto.OpSetData, path, &proto.SetDataRequest{Path: b.c.addChroot(path), Data: data, Version: version}, resp,
		func() { res.Stat = statFrom(&resp.Stat) })
	return res
}

// Delete sends Client.Delete.
func (b *Batch) Delete(path string, version int32) {
	b.node(proto.OpDelete, path, &proto.DeleteRequest{Path: b.c.addChroot(path), Version: version}, nil, func() {})
}

// Multi sends Client.Multi: each of many in a batch is carried out all or not at all, whatever becomes of the others. What
// the methods of m returned is filled in after Wait, unless m is among its failures.
func (b *Batch) Multi(m *Multi) {
	k, err := b.c.multiCall(m)
	if err != nil {
		b.fail(err)
		return
	}
	b.start(k, func(r *proto.Reader, err error) error {
		if err != nil {
			return err
		}
		return b.c.takeMulti(k, m, r)
	})
}

// Get sends Client.Get. A failure is in the result and is none of Wait's.
func (b *Batch) Get(path string) *Got {
	res, resp := new(Got), new(proto.GetDataResponse)
	k, err := b.c.pathCall(proto.OpGetData, path, &proto.PathWatchRequest{Path: b.c.addChroot(path)})
	if err != nil {
		res.Err = err
		return res
	}
	b.start(k, func(r *proto.Reader, err error) error {
		if err == nil {
			err = b.c.decode(k, r, resp)
		}
		*res = Got{Data: resp.Data, Stat: statFrom(&resp.Stat), Err: err}
		return nil
	})
	return res
}

// Children sends Client.Children. A failure is in the result and is none of Wait's.
func (b *Batch) Children(path string) *Listed {
	res, resp := new(Listed), new(proto.GetChildren2Response)
	k, err := b.c.pathCall(proto.OpGetChildren2, path, &proto.PathWatchRequest{Path: b.c.addChroot(path)})
	if err != nil {
		res.Err = err
		return res
	}
	b.start(k, func(r *proto.Reader, err error) error {
		if err == nil {
			err = b.c.decode(k, r, resp)
		}
		*res = Listed{Children: resp.Children, Stat: statFrom(&resp.Stat), Err: err}
		return nil
	})
	return res
}

// GetACL sends Client.GetACL. A failure is in the result and is none of Wait's.
func (b *Batch) GetACL(path string) *Permitted {
	res, resp := new(Permitted), new(proto.GetACLResponse)
	k, err := b.c.pathCall(proto.OpGetACL, path, &proto.GetACLRequest{Path: b.c.addChroot(path)})
	if err != nil {
		res.Err = err
		return res
	}
	b.start(k, func(r *proto.Reader, err error) error {
		if err == nil {
			err = b.c.decode(k, r, resp)
		}
		*res = Permitted{ACL: resp.ACL, Err: err}
		return nil
	})
	return res
}

// Wait waits until everything is answered and returns the failures, joined; each is an *OpError. The batch can then be
// used again.
func (b *Batch) Wait() error {
	for len(b.calls) > 0 {
		b.finishOldest()
	}
	err := errors.Join(b.errs...)
	b.errs = nil
	return err
}

func (b *Batch) node(op proto.Op, path string, req, resp proto.Record, fill func()) {
	k, err := b.c.pathCall(op, path, req)
	if err != nil {
		b.fail(err)
		return
	}
	b.send(k, resp, fill)
}

func (b *Batch) send(k *call, resp proto.Record, fill func()) {
	b.start(k, func(r *proto.Reader, err error) error {
		if err == nil && resp != nil {
			err = b.c.decode(k, r, resp)
		}
		if err == nil {
			fill()
		}
		return err
	})
}

func (b *Batch) start(k *call, take func(r *proto.Reader, err error) error) {
	if len(b.calls) >= maxInFlight {
		b.finishOldest()
	}
	if err := b.c.begin(b.ctx, k); err != nil {
		b.fail(take(nil, err))
		return
	}
	b.calls = append(b.calls, batchCall{k, take})
}

func (b *Batch) finishOldest() {
	oldest := b.calls[0]
	b.calls = b.calls[1:]
	r, err := b.c.await(b.ctx, oldest.k)
	b.fail(oldest.take(r, err))
}

func (b *Batch) fail(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}
