package statemachine

import (
	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func isSession(owner txn.SessionID) bool { return datatree.IsSession(owner) }

// checkSession refuses requests of a session that is ending or not known.
func (m *Machine) checkSession(id txn.SessionID) proto.ErrCode {
	if _, ending := m.pending.closing[id]; ending {
		return proto.ErrSessionExpired
	}
	if !m.cfg.LocalSessions && !m.knows(id) {
		return proto.ErrSessionExpired
	}
	return proto.OK
}

// knows reports whether a session is open, or will be.
func (m *Machine) knows(id txn.SessionID) bool {
	_, open := m.sessions.Timeout(id)
	return open || m.pending.opening[id] > 0
}

func (m *Machine) createSession(r *txn.Request) (txn.Body, proto.ErrCode) {
	timeout, ok := txn.ParseTimeout(r.Payload)
	if !ok {
		return nil, proto.ErrMarshalling
	}
	if _, ending := m.pending.closing[r.Session]; ending || r.Session == 0 || !isSession(r.Session) {
		return nil, proto.ErrSessionExpired
	}
	if mutant.On("K47") {
		m.sessions.Add(r.Session, timeout)
	}
	return &txn.CreateSession{TimeoutMillis: timeout}, proto.OK
}

func (m *Machine) closeSession(r *txn.Request) (txn.Body, proto.ErrCode) {
	if code := m.checkSession(r.Session); code != proto.OK {
		return nil, code
	}
	if !m.knows(r.Session) {
		return nil, proto.ErrSessionExpired
	}
	m.pending.close(m.tree, r.Session)
	return &txn.CloseSession{}, proto.OK
}

func (m *Machine) secret(r *txn.Request) (txn.Body, proto.ErrCode) {
	if len(r.Payload) == 0 || m.pending.secrets > 0 || m.sessions.Secret() != nil {
		return nil, proto.ErrBadArguments // a second secret would make every password void
	}
	return &txn.Secret{Secret: r.Payload}, proto.OK
}

// reconfig is refused until an operator can enable it.
func (m *Machine) reconfig(r *txn.Request) proto.ErrCode {
	var q proto.ReconfigRequest
	if q.Decode(proto.NewReader(r.Payload)) != nil {
		return undecodable
	}
	if code := m.checkSession(r.Session); code != proto.OK {
		return code
	}
	return proto.ErrReconfigDisabled
}
