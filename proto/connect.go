package proto

// PasswordBytes is the length of a session's password.
const PasswordBytes = 16

// ConnectRequest is the first frame of a client; it has no header.
type ConnectRequest struct {
	ProtocolVersion int32 // 0; servers ignore it
	LastZxidSeen    int64 // highest zxid the client has seen, 0 if none
	TimeOut         int32 // wanted session timeout, milliseconds
	SessionID       int64 // 0 for a new session
	Passwd          []byte
	ReadOnly        bool // a read-only server will do
	HasReadOnly     bool // false for clients up to 3.3, which end the frame before ReadOnly
}

// Append adds the encoding of m to dst.
func (m *ConnectRequest) Append(dst []byte) []byte {
	dst = AppendInt32(dst, m.ProtocolVersion)
	dst = AppendInt64(dst, m.LastZxidSeen)
	dst = AppendInt32(dst, m.TimeOut)
	dst = AppendInt64(dst, m.SessionID)
	dst = AppendBuffer(dst, m.Passwd)
	return appendReadOnly(dst, m.ReadOnly, m.HasReadOnly)
}

// Decode reads m from r, which must end where the frame ends; Passwd aliases r's input.
func (m *ConnectRequest) Decode(r *Reader) error {
	m.ProtocolVersion = r.Int32()
	m.LastZxidSeen = r.Int64()
	m.TimeOut = r.Int32()
	m.SessionID = r.Int64()
	m.Passwd = r.Buffer()
	m.ReadOnly, m.HasReadOnly = readOnly(r)
	return r.Err()
}

// ConnectResponse is the first frame of a server; it has no header. TimeOut 0 means that the session was refused.
type ConnectResponse struct {
	ProtocolVersion int32  // always 0
	TimeOut         int32  // session timeout that holds, milliseconds; 0 if refused
	SessionID       int64  // 0 if refused
	Passwd          []byte // PasswordBytes long, zeros if refused
	ReadOnly        bool   // this server is read-only
	HasReadOnly     bool   // a server repeats the request's
}

// Append adds the encoding of m to dst.
func (m *ConnectResponse) Append(dst []byte) []byte {
	dst = AppendInt32(dst, m.ProtocolVersion)
	dst = AppendInt32(dst, m.TimeOut)
	dst = AppendInt64(dst, m.SessionID)
	dst = AppendBuffer(dst, m.Passwd)
	return appendReadOnly(dst, m.ReadOnly, m.HasReadOnly)
}

// Decode reads m from r, which must end where the frame ends; Passwd aliases r's input.
func (m *ConnectResponse) Decode(r *Reader) error {
	m.ProtocolVersion = r.Int32()
	m.TimeOut = r.Int32()
	m.SessionID = r.Int64()
	m.Passwd = r.Buffer()
	m.ReadOnly, m.HasReadOnly = readOnly(r)
	return r.Err()
}

func appendReadOnly(dst []byte, value, has bool) []byte {
	if !has {
		return dst
	}
	return AppendBool(dst, value)
}

func readOnly(r *Reader) (value, has bool) {
	if r.Len() == 0 {
		return false, false
	}
	return r.Bool(), true
}
