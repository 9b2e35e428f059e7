package proto

// ReplyHeader comes before every reply and notification. If Err is not OK, whatever follows it in the frame is to be
// ignored.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  ErrCode
}

// Append adds the encoding of m to dst.
func (m *ReplyHeader) Append(dst []byte) []byte {
	return AppendInt32(AppendInt64(AppendInt32(dst, m.Xid), m.Zxid), int32(m.Err))
}

// Decode reads m from r.
func (m *ReplyHeader) Decode(r *Reader) error {
	m.Xid = r.Int32()
	m.Zxid = r.Int64()
	m.Err = ErrCode(r.Int32())
	return r.Err()
}

// NewResponse returns an empty reply record for op, nil for an op whose reply is only a header, for multi and multiRead (see
// DecodeMultiResults) and for one that is not known.
func NewResponse(op Op) Record {
	switch op {
	case OpNotification:
		return new(WatcherEvent)
	case OpCreate:
		return new(CreateResponse)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(Create2Response)
	case OpExists, OpSetData, OpSetACL:
		return new(StatResponse)
	case OpGetData, OpReconfig:
		return new(GetDataResponse)
	case OpGetACL:
		return new(GetACLResponse)
	case OpGetChildren:
		return new(GetChildrenResponse)
	case OpGetChildren2:
		return new(GetChildren2Response)
	case OpSync:
		return new(SyncResponse)
	case OpAddWatch:
		return new(ErrorResponse)
	case OpSASL:
		return new(SetSASLResponse)
	case OpGetEphemerals:
		return new(GetEphemeralsResponse)
	case OpGetAllChildrenNumber:
		return new(GetAllChildrenNumberResponse)
	case OpWhoAmI:
		return new(WhoAmIResponse)
	}
	return nil
}

// CreateResponse is the reply of create.
type CreateResponse struct {
	Path string // with the sequence number, if there is one
}

// Append adds the encoding of m to dst.
func (m *CreateResponse) Append(dst []byte) []byte { return AppendString(dst, m.Path) }

// Decode reads m from r.
func (m *CreateResponse) Decode(r *Reader) error {
	m.Path = r.String()
	return r.Err()
}

// Create2Response is the reply of create2, createContainer and createTTL.
type Create2Response struct {
	Path string // with the sequence number, if there is one
	Stat Stat
}

// Append adds the encoding of m to dst.
func (m *Create2Response) Append(dst []byte) []byte { return m.Stat.Append(AppendString(dst, m.Path)) }

// Decode reads m from r.
func (m *Create2Response) Decode(r *Reader) error {
	m.Path = r.String()
	return m.Stat.Decode(r)
}

// StatResponse is the reply of exists, setData and setACL.
type StatResponse struct {
	Stat Stat
}

// The three replies that are a Stat and nothing else, under their own names.
type (
	ExistsResponse  = StatResponse
	SetDataResponse = StatResponse
	SetACLResponse  = StatResponse
)

// Append adds the encoding of m to dst.
func (m *StatResponse) Append(dst []byte) []byte { return m.Stat.Append(dst) }

// Decode reads m from r.
func (m *StatResponse) Decode(r *Reader) error { return m.Stat.Decode(r) }

// GetDataResponse is the reply of getData and reconfig.
type GetDataResponse struct {
	Data []byte // nil is null
	Stat Stat
}

// Append adds the encoding of m to dst.
func (m *GetDataResponse) Append(dst []byte) []byte { return m.Stat.Append(AppendBuffer(dst, m.Data)) }

// Decode reads m from r; Data aliases r's input.
func (m *GetDataResponse) Decode(r *Reader) error {
	m.Data = r.Buffer()
	return m.Stat.Decode(r)
}

// GetACLResponse is the reply of getACL.
type GetACLResponse struct {
	ACL  []ACL // nil is null
	Stat Stat
}

// Append adds the encoding of m to dst.
func (m *GetACLResponse) Append(dst []byte) []byte { return m.Stat.Append(AppendACLs(dst, m.ACL)) }

// Decode reads m from r.
func (m *GetACLResponse) Decode(r *Reader) error {
	m.ACL = r.ACLs()
	return m.Stat.Decode(r)
}

// GetChildrenResponse is the reply of getChildren.
type GetChildrenResponse struct {
	Children []string // names, not paths, in no particular order; a server sends a list that is not nil
}

// Append adds the encoding of m to dst.
func (m *GetChildrenResponse) Append(dst []byte) []byte { return AppendStrings(dst, m.Children) }

// Decode reads m from r.
func (m *GetChildrenResponse) Decode(r *Reader) error {
	m.Children = r.Strings()
	return r.Err()
}

// GetChildren2Response is the reply of getChildren2.
type GetChildren2Response struct {
	Children []string // names, not paths, in no particular order; a server sends a list that is not nil
	Stat     Stat
}

// Append adds the encoding of m to dst.
func (m *GetChildren2Response) Append(dst []byte) []byte {
	return m.Stat.Append(AppendStrings(dst, m.Children))
}

// Decode reads m from r.
func (m *GetChildren2Response) Decode(r *Reader) error {
	m.Children = r.Strings()
	return m.Stat.Decode(r)
}

// SyncResponse is the reply of sync: the request's path.
type SyncResponse struct {
	Path     string
	PathNull bool
}

// Append adds the encoding of m to dst.
func (m *SyncResponse) Append(dst []byte) []byte { return AppendNullString(dst, m.Path, m.PathNull) }

// Decode reads m from r.
func (m *SyncResponse) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	return r.Err()
}

// ErrorResponse is the reply of addWatch, always with OK, and the body of an error entry of a multi result.
type ErrorResponse struct {
	Err ErrCode
}

// Append adds the encoding of m to dst.
func (m *ErrorResponse) Append(dst []byte) []byte { return AppendInt32(dst, int32(m.Err)) }

// Decode reads m from r.
func (m *ErrorResponse) Decode(r *Reader) error {
	m.Err = ErrCode(r.Int32())
	return r.Err()
}

// SetSASLResponse is the reply of sasl.
type SetSASLResponse struct {
	Token []byte // nil is null
}

// Append adds the encoding of m to dst.
func (m *SetSASLResponse) Append(dst []byte) []byte { return AppendBuffer(dst, m.Token) }

// Decode reads m from r; Token aliases r's input.
func (m *SetSASLResponse) Decode(r *Reader) error {
	m.Token = r.Buffer()
	return r.Err()
}

// GetEphemeralsResponse is the reply of getEphemerals.
type GetEphemeralsResponse struct {
	Ephemerals []string // paths, in no particular order; a server sends a list that is not nil
}

// Append adds the encoding of m to dst.
func (m *GetEphemeralsResponse) Append(dst []byte) []byte { return AppendStrings(dst, m.Ephemerals) }

// Decode reads m from r.
func (m *GetEphemeralsResponse) Decode(r *Reader) error {
	m.Ephemerals = r.Strings()
	return r.Err()
}

// GetAllChildrenNumberResponse is the reply of getAllChildrenNumber.
type GetAllChildrenNumberResponse struct {
	TotalNumber int32 // of descendants, without the node
}

// Append adds the encoding of m to dst.
func (m *GetAllChildrenNumberResponse) Append(dst []byte) []byte {
	return AppendInt32(dst, m.TotalNumber)
}

// Decode reads m from r.
func (m *GetAllChildrenNumberResponse) Decode(r *Reader) error {
	m.TotalNumber = r.Int32()
	return r.Err()
}

// ClientInfo is one identity of a connection.
type ClientInfo struct {
	AuthScheme string
	User       string
}

// WhoAmIResponse is the reply of whoAmI.
type WhoAmIResponse struct {
	ClientInfo []ClientInfo // nil is null
}

// Append adds the encoding of m to dst.
func (m *WhoAmIResponse) Append(dst []byte) []byte {
	if m.ClientInfo == nil {
		return AppendInt32(dst, -1)
	}
	dst = AppendInt32(dst, int32(len(m.ClientInfo)))
	for _, c := range m.ClientInfo {
		dst = AppendString(dst, c.AuthScheme)
		dst = AppendString(dst, c.User)
	}
	return dst
}

// Decode reads m from r.
func (m *WhoAmIResponse) Decode(r *Reader) error {
	m.ClientInfo = nil
	n, isNull := r.count(minClientInfoBytes)
	if isNull {
		return r.Err()
	}
	m.ClientInfo = make([]ClientInfo, n)
	for i := range m.ClientInfo {
		m.ClientInfo[i] = ClientInfo{AuthScheme: r.String(), User: r.String()}
	}
	return r.Err()
}

// WatcherEvent is the body of a notification, whose header has XidNotification.
type WatcherEvent struct {
	Type  EventType
	State KeeperState // StateSyncConnected from a server
	Path  string
}

// Append adds the encoding of m to dst.
func (m *WatcherEvent) Append(dst []byte) []byte {
	return AppendString(AppendInt32(AppendInt32(dst, int32(m.Type)), int32(m.State)), m.Path)
}

// Decode reads m from r.
func (m *WatcherEvent) Decode(r *Reader) error {
	m.Type = EventType(r.Int32())
	m.State = KeeperState(r.Int32())
	m.Path = r.String()
	return r.Err()
}
