package difftest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// timedPatience is how long an expiry or a sweep may take.
const timedPatience = 20 * time.Second

// until asks again and again until done says so.
func until(what string, done func() (bool, error)) error {
	for end := time.Now().Add(timedPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: not within %v", what, timedPatience)
}

// expire lets a client's session expire on both servers, and brings out what that causes.
func (r *runner) expire(s step) (*difference, error) {
	c := &r.clients[s.slot]
	if !c.connected() {
		return nil, nil
	}
	r.sent++
	r.known.anyClosing = true
	defer func() { r.known.anyClosing = false }()
	var answers [2]answer
	if s.cut {
		c.drop()
		for i, addr := range r.addrs {
			id := "0x" + strconv.FormatUint(uint64(c.keys[i].id), 16)
			err := until("expiry", func() (bool, error) {
				text, err := fourLetters(addr, "dump")
				owners, _, _ := strings.Cut(text, "Connections dump") // a connection may be there a moment longer
				return !strings.Contains(owners, id), err
			})
			if err != nil {
				return nil, err
			}
		}
	} else {
		for i, cn := range c.conns {
			cn.drain(&answers[i])
		}
		c.drop()
	}
	if d := r.record(s, answers); d != nil {
		return d, nil
	}
	return r.flush()
}

// sweep waits until a node is gone from both servers, and brings out what that causes.
func (r *runner) sweep(s step) (*difference, error) {
	r.sent++
	for _, addr := range r.addrs {
		cn, err := dial(addr)
		if err != nil {
			return nil, err
		}
		cn.send(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: longSession, Passwd: make([]byte, proto.PasswordBytes), HasReadOnly: true}))
		cn.shake()
		k := cleaner{c: cn}
		err = until("sweep of "+s.path, func() (bool, error) {
			_, code := k.call(proto.OpExists, &proto.PathWatchRequest{Path: s.path})
			return code == proto.ErrNoNode, k.err
		})
		k.call(proto.OpCloseSession, nil)
		cn.close()
		if err != nil {
			return nil, err
		}
	}
	return r.flush()
}
