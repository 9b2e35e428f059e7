package proto

// Special xids of a request header, by convention; a server echoes whatever it gets, except for a ping.
const (
	XidNotification int32 = -1 // server to client only
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)

// RequestHeader comes before every request of an established connection.
type RequestHeader struct {
	Xid int32 // chosen by the client, echoed in the reply
	Op  Op
}

// Append adds the encoding of m to dst.
func (m *RequestHeader) Append(dst []byte) []byte {
	return AppendInt32(AppendInt32(dst, m.Xid), int32(m.Op))
}

// Decode reads m from r.
func (m *RequestHeader) Decode(r *Reader) error {
	m.Xid = r.Int32()
	m.Op = Op(r.Int32())
	return r.Err()
}

// NewRequest returns an empty request record for op, nil for an op without one (ping, closeSession, whoAmI), for multi and
// multiRead (see DecodeMulti) and for one that is not known.
func NewRequest(op Op) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete:
		return new(DeleteRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(PathWatchRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpGetACL:
		return new(GetACLRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpSync:
		return new(SyncRequest)
	case OpCheck:
		return new(CheckVersionRequest)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpCheckWatches:
		return new(CheckWatchesRequest)
	case OpRemoveWatches:
		return new(RemoveWatchesRequest)
	case OpAuth:
		return new(AuthPacket)
	case OpSetWatches:
		return new(SetWatches)
	case OpSetWatches2:
		return new(SetWatches2)
	case OpSASL:
		return new(GetSASLRequest)
	case OpGetEphemerals:
		return new(GetEphemeralsRequest)
	case OpGetAllChildrenNumber:
		return new(GetAllChildrenNumberRequest)
	case OpAddWatch:
		return new(AddWatchRequest)
	}
	return nil
}

// In all requests, PathNull says that the path was null on the wire (Path is then ""); to send null, set it.

// CreateRequest is the request of create, create2 and createContainer.
type CreateRequest struct {
	Path     string
	PathNull bool
	Data     []byte // nil is null
	ACL      []ACL  // nil is null
	Flags    CreateFlags
}

// Append adds the encoding of m to dst.
func (m *CreateRequest) Append(dst []byte) []byte {
	dst = AppendNullString(dst, m.Path, m.PathNull)
	dst = AppendBuffer(dst, m.Data)
	dst = AppendACLs(dst, m.ACL)
	return AppendInt32(dst, int32(m.Flags))
}

// Decode reads m from r; Data aliases r's input.
func (m *CreateRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Data = r.Buffer()
	m.ACL = r.ACLs()
	m.Flags = CreateFlags(r.Int32())
	return r.Err()
}

// CreateTTLRequest is the request of createTTL.
type CreateTTLRequest struct {
	Path     string
	PathNull bool
	Data     []byte // nil is null
	ACL      []ACL  // nil is null
	Flags    CreateFlags
	TTL      int64 // milliseconds, 1 to MaxTTL
}

// Append adds the encoding of m to dst.
func (m *CreateTTLRequest) Append(dst []byte) []byte {
	dst = AppendNullString(dst, m.Path, m.PathNull)
	dst = AppendBuffer(dst, m.Data)
	dst = AppendACLs(dst, m.ACL)
	dst = AppendInt32(dst, int32(m.Flags))
	return AppendInt64(dst, m.TTL)
}

// Decode reads m from r; Data aliases r's input.
func (m *CreateTTLRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Data = r.Buffer()
	m.ACL = r.ACLs()
	m.Flags = CreateFlags(r.Int32())
	m.TTL = r.Int64()
	return r.Err()
}

// DeleteRequest is the request of delete.
type DeleteRequest struct {
	Path     string
	PathNull bool
	Version  int32 // of the data, -1 for any
}

// Append adds the encoding of m to dst.
func (m *DeleteRequest) Append(dst []byte) []byte {
	return AppendInt32(AppendNullString(dst, m.Path, m.PathNull), m.Version)
}

// Decode reads m from r.
func (m *DeleteRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Version = r.Int32()
	return r.Err()
}

// CheckVersionRequest is the request of check, which only a multi may hold.
type CheckVersionRequest struct {
	Path     string
	PathNull bool
	Version  int32 // of the data, -1 for any
}

// Append adds the encoding of m to dst.
func (m *CheckVersionRequest) Append(dst []byte) []byte {
	return AppendInt32(AppendNullString(dst, m.Path, m.PathNull), m.Version)
}

// Decode reads m from r.
func (m *CheckVersionRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Version = r.Int32()
	return r.Err()
}

// PathWatchRequest is the request of exists, getData, getChildren and getChildren2.
type PathWatchRequest struct {
	Path     string
	PathNull bool
	Watch    bool
}

// Append adds the encoding of m to dst.
func (m *PathWatchRequest) Append(dst []byte) []byte {
	return AppendBool(AppendNullString(dst, m.Path, m.PathNull), m.Watch)
}

// Decode reads m from r.
func (m *PathWatchRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Watch = r.Bool()
	return r.Err()
}

// SetDataRequest is the request of setData.
type SetDataRequest struct {
	Path     string
	PathNull bool
	Data     []byte // nil is null
	Version  int32  // of the data, -1 for any
}

// Append adds the encoding of m to dst.
func (m *SetDataRequest) Append(dst []byte) []byte {
	dst = AppendNullString(dst, m.Path, m.PathNull)
	dst = AppendBuffer(dst, m.Data)
	return AppendInt32(dst, m.Version)
}

// Decode reads m from r; Data aliases r's input.
func (m *SetDataRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Data = r.Buffer()
	m.Version = r.Int32()
	return r.Err()
}

// GetACLRequest is the request of getACL.
type GetACLRequest struct {
	Path     string
	PathNull bool
}

// Append adds the encoding of m to dst.
func (m *GetACLRequest) Append(dst []byte) []byte {
	return AppendNullString(dst, m.Path, m.PathNull)
}

// Decode reads m from r.
func (m *GetACLRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	return r.Err()
}

// SetACLRequest is the request of setACL.
type SetACLRequest struct {
	Path     string
	PathNull bool
	ACL      []ACL // nil is null
	Version  int32 // of the ACL, -1 for any
}

// Append adds the encoding of m to dst.
func (m *SetACLRequest) Append(dst []byte) []byte {
	dst = AppendNullString(dst, m.Path, m.PathNull)
	dst = AppendACLs(dst, m.ACL)
	return AppendInt32(dst, m.Version)
}

// Decode reads m from r.
func (m *SetACLRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.ACL = r.ACLs()
	m.Version = r.Int32()
	return r.Err()
}

// SyncRequest is the request of sync; the path means nothing and is echoed.
type SyncRequest struct {
	Path     string
	PathNull bool
}

// Append adds the encoding of m to dst.
func (m *SyncRequest) Append(dst []byte) []byte { return AppendNullString(dst, m.Path, m.PathNull) }

// Decode reads m from r.
func (m *SyncRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	return r.Err()
}
