package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// maxHandshake is the longest first frame; a ConnectRequest with a password of 16 bytes has 45.
const maxHandshake = 4 << 10

var (
	errAnswered   = errors.New("answered a four-letter word")
	errNotServing = errors.New("not serving")
	errAhead      = errors.New("client has seen a later zxid than this server")
)

// stranger is an error of a first message that is no ConnectRequest.
type stranger struct {
	first []byte // what came
	err   error
}

func (e *stranger) Error() string { return "not a ZooKeeper client: " + e.err.Error() }
func (e *stranger) Unwrap() error { return e.err }

// shake brings a new connection to the point where its session is attached, or answers a four-letter word. It blocks for the client's
// first message and for the ensemble; Server.sweep bounds the time.
func (c *conn) shake() error {
	word, err := c.in.word()
	if err != nil {
		return err
	}
	if name, ok := fourLetterWord(word); ok {
		c.mu.Lock()
		c.received(1)
		c.mu.Unlock()
		c.sayAndClose(c.srv.answerWord(name))
		return errAnswered
	}
	q, err := c.connectRequest()
	if err != nil {
		return err
	}
	if err := c.ask(q); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.state == shaking {
		c.changed.Wait()
	}
	if c.state >= closing {
		return errClosed
	}
	c.in.big, c.in.max = true, c.srv.cfg.MaxFrame
	return nil
}

// connectRequest reads the client's first frame.
func (c *conn) connectRequest() (*proto.ConnectRequest, error) {
	for {
		frame, ok, err := c.in.frame()
		if err != nil {
			return nil, &stranger{first: c.in.waiting(), err: err}
		}
		if ok {
			q := &proto.ConnectRequest{}
			if err := q.Decode(proto.NewReader(frame)); err != nil {
				return nil, &stranger{first: frame, err: err}
			}
			return q, nil
		}
		if err := c.in.fill(); err != nil {
			return nil, err
		}
	}
}

// ask starts what opens or takes up a session; the connection leaves the state shaking when the answer is there.
func (c *conn) ask(q *proto.ConnectRequest) error {
	for {
		if !c.srv.awaitServing() {
			return errNotServing
		}
		c.rep.mu.RLock()
		c.mu.Lock()
		served := c.rep.serving || c.rep.readOnly
		var old *conn
		var err error
		if served {
			c.acting = true
			old, err = c.askLocked(q)
		}
		submitted := c.acted()
		c.mu.Unlock()
		c.rep.mu.RUnlock()
		if submitted {
			c.srv.replicator.Act()
		}
		if old != nil {
			old.cut(takenUp)
		}
		if served {
			c.kick()
			return err
		}
	}
}

// takenUp is why a connection is cut whose client has a newer one.
const takenUp = "session was taken up through another connection"

// askLocked returns the connection that had the session, if this server alone could decide.
func (c *conn) askLocked(q *proto.ConnectRequest) (old *conn, err error) {
	m := c.rep.machine
	if c.state != shaking {
		return nil, errClosed
	}
	if q.LastZxidSeen > int64(m.LastZxid()) {
		return nil, fmt.Errorf("%w: %v", errAhead, txn.Zxid(q.LastZxidSeen))
	}
	c.timeout = c.srv.negotiate(q.TimeOut)
	c.hasRO = q.HasReadOnly
	c.received(1)
	c.asked = true
	if c.rep.readOnly {
		c.session = txn.SessionID(q.SessionID)
		return c.askReadOnly(q)
	}
	if q.SessionID == 0 {
		c.session = c.srv.newSessionID()
		if c.srv.cfg.LocalSessions {
			c.openLocal()
			return nil, nil
		}
		c.submit([]txn.Request{{Session: c.session, Op: proto.OpCreateSession, Origin: c.rep.cfg.SelfID, Conn: c.id,
			Payload: txn.AppendTimeout(nil, c.timeout)}})
		return nil, nil
	}
	c.session = txn.SessionID(q.SessionID)
	if len(m.Secret()) == 0 { // this server has not applied it yet: it cannot tell a wrong password, and must not call a session expired
		return nil, errNotServing
	}
	if !session.CheckPassword(m.Secret(), c.session, q.Passwd) {
		c.refuse("wrong password")
		return nil, nil
	}
	if c.srv.cfg.LocalSessions {
		if old, ok := c.takeUpLocal(); ok {
			return old, nil
		}
	}
	c.srv.askSession(c)
	return nil, nil
}

// negotiate puts a wanted timeout in milliseconds between the bounds.
func (s *Server) negotiate(wanted int32) int32 {
	t := time.Duration(wanted) * time.Millisecond
	return int32(min(max(t, s.cfg.MinSessionTimeout), s.cfg.MaxSessionTimeout) / time.Millisecond)
}

// welcome answers the handshake: the session is attached. The caller holds mu.
func (c *conn) welcome(secret []byte) {
	password := session.Password(secret, c.session)
	c.connectResponse(&proto.ConnectResponse{TimeOut: c.timeout, SessionID: int64(c.session), Passwd: password[:]})
	c.state, c.asked = live, false
	c.changed.Broadcast()
}

// refuse tells the client that its session is gone for ever. The caller holds mu.
func (c *conn) refuse(why string) {
	c.connectResponse(&proto.ConnectResponse{Passwd: make([]byte, proto.PasswordBytes)})
	c.shut("session refused: " + why)
}

func (c *conn) connectResponse(m *proto.ConnectResponse) {
	m.HasReadOnly, m.ReadOnly = c.hasRO, c.rep.readOnly
	out, mark := proto.BeginFrame(c.output())
	c.out = proto.EndFrame(m.Append(out), mark)
	c.framesOut++
}

// revalidated takes the leader's answer about the session that this connection wants or had, once everything that the leader had
// committed is applied here. It runs in the peer's loop.
func (c *conn) revalidated(a zab.Revalidated) {
	c.rep.mu.RLock()
	_, open := c.rep.machine.SessionTimeout(c.session)
	var old *conn
	c.mu.Lock()
	switch {
	case !c.asked || c.state >= closing: // the role changed meanwhile, or the client left
	case !a.OK:
		c.shut("the leader gave no answer")
	case !a.Valid || !open:
		if c.state == shaking {
			c.refuse("session is not known")
		} else {
			c.shut("session is gone")
		}
	case c.state == shaking:
		old = c.rep.reg.attach(c)
		c.welcome(c.rep.machine.Secret())
	default:
		c.state, c.asked = live, false
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	c.rep.mu.RUnlock()
	if old != nil {
		old.cut(takenUp)
	}
	c.kick()
}

// sayAndClose sends text, which is no frame, and closes.
func (c *conn) sayAndClose(text string) {
	c.mu.Lock()
	c.out = append(c.output(), text...)
	c.framesOut++
	c.shut("answered")
	c.mu.Unlock()
}
