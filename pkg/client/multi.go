package client

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// Multi collects operations that are carried out all or not at all, in one transaction. Each method returns where the
// result will be once Client.Multi has returned without an error. A Multi belongs to one goroutine and is good for one
// call. The zero value is ready.
type Multi struct {
	steps []step
}

// Created is the result of a create.
type Created struct {
	Path string
	Stat Stat // zero if the server does not tell, as before ZooKeeper 3.8.4
}

// Updated is the result of a set.
type Updated struct {
	Stat Stat
}

type step struct {
	op      proto.Op
	path    string
	data    []byte
	version int32
	mode    CreateMode
	acl     []ACL
	ttl     time.Duration
	created *Created
	updated *Updated
}

// Create adds the creation of a node, see Client.Create. data and acl must not change before Client.Multi returns.
func (m *Multi) Create(path string, data []byte, mode CreateMode, acl []ACL) *Created {
	s := step{op: proto.OpCreate2, path: path, data: data, mode: mode, acl: acl, created: new(Created)}
	if mode == Container {
		s.op = proto.OpCreateContainer
	}
	m.steps = append(m.steps, s)
	return s.created
}

// CreateTTL adds the creation of a node with a time to live, see Client.CreateTTL. data and acl must not change before
// Client.Multi returns.
func (m *Multi) CreateTTL(path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL) *Created {
	s := step{op: proto.OpCreateTTL, path: path, data: data, mode: mode, ttl: ttl, acl: acl, created: new(Created)}
	m.steps = append(m.steps, s)
	return s.created
}

// Set adds the replacement of a node's data, see Client.Set. data must not change before Client.Multi returns.
func (m *Multi) Set(path string, data []byte, version int32) *Updated {
	s := step{op: proto.OpSetData, path: path, data: data, version: version, updated: new(Updated)}
	m.steps = append(m.steps, s)
	return s.updated
}

// Delete adds the removal of a node, see Client.Delete.
func (m *Multi) Delete(path string, version int32) {
	m.steps = append(m.steps, step{op: proto.OpDelete, path: path, version: version})
}

// Check adds a condition: the node is there and its data has that version, or any for AnyVersion.
func (m *Multi) Check(path string, version int32) {
	m.steps = append(m.steps, step{op: proto.OpCheck, path: path, version: version})
}

// Len returns the number of operations.
func (m *Multi) Len() int { return len(m.steps) }

// Multi carries out m. If an operation cannot be carried out, none is; the error then wraps a *MultiError.
func (c *Client) Multi(ctx context.Context, m *Multi) error {
	k, err := c.multiCall(m)
	if err != nil {
		return err
	}
	r, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	return c.takeMulti(k, m, r)
}

func (c *Client) multiCall(m *Multi) (*call, error) {
	ops := make([]proto.MultiOp, len(m.steps))
	for i := range m.steps {
		req, err := c.multiRequest(&m.steps[i])
		if err != nil {
			return nil, &OpError{Op: proto.OpMulti, Err: m.fault(i, err)}
		}
		ops[i] = proto.MultiOp{Op: m.steps[i].op, Request: req}
	}
	return newCall(proto.OpMulti, "", &multiRecord{ops: ops}), nil
}

// takeMulti decodes the reply to k.
func (c *Client) takeMulti(k *call, m *Multi, r *proto.Reader) error {
	var reply multiRecord
	if err := c.decode(k, r, &reply); err != nil {
		return err
	}
	return c.takeResults(k, m, reply.results)
}

func (c *Client) multiRequest(s *step) (proto.Record, error) {
	if s.op == proto.OpCreateTTL {
		return c.createTTLRequest(s.path, s.data, s.mode, s.ttl, s.acl)
	}
	if s.created != nil {
		return c.createRequest(s.path, s.data, s.mode, s.acl)
	}
	if err := proto.ValidatePath(s.path); err != nil {
		return nil, err
	}
	path := c.addChroot(s.path)
	switch s.op {
	case proto.OpSetData:
		return &proto.SetDataRequest{Path: path, Data: s.data, Version: s.version}, nil
	case proto.OpDelete:
		return &proto.DeleteRequest{Path: path, Version: s.version}, nil
	}
	return &proto.CheckVersionRequest{Path: path, Version: s.version}, nil
}

// takeResults fills in what the methods of m returned, or finds the operation that failed: the first with a code that
// does not just say that another one failed.
func (c *Client) takeResults(k *call, m *Multi, results []proto.MultiResult) error {
	if len(results) != len(m.steps) {
		err := fmt.Errorf("%w: %d results of %d operations", ErrMarshalling, len(results), len(m.steps))
		k.conn.fail(err)
		return k.unknown(err)
	}
	for i := range results {
		if code := results[i].Err; code != proto.OK && code != ErrRuntimeInconsistency {
			return k.fault(m.fault(i, code))
		}
	}
	for i := range results {
		res, s := &results[i], &m.steps[i]
		switch {
		case res.Err != proto.OK:
			return k.fault(m.fault(i, res.Err))
		case s.created != nil:
			*s.created = Created{Path: c.stripChroot(res.Path)}
			if res.Op == proto.OpCreate2 {
				s.created.Stat = statFrom(&res.Stat)
			}
		case s.updated != nil:
			s.updated.Stat = statFrom(&res.Stat)
		}
	}
	return nil
}

func (m *Multi) fault(i int, err error) *MultiError {
	return &MultiError{Index: i, Op: m.steps[i].op, Path: m.steps[i].path, Err: err}
}

// multiRecord is the request and the reply of a multi as one record.
type multiRecord struct {
	ops     []proto.MultiOp
	results []proto.MultiResult
}

func (m *multiRecord) Append(dst []byte) []byte { return proto.AppendMulti(dst, m.ops) }

func (m *multiRecord) Decode(r *proto.Reader) (err error) {
	m.results, err = proto.DecodeMultiResults(r)
	return err
}
