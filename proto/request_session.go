package proto

// ReconfigRequest is the request of reconfig. If NewMembersNull, the servers that join and leave describe the change; otherwise
// NewMembers is the whole new membership.
type ReconfigRequest struct {
	JoiningServers     string // comma separated server.N=… lines
	JoiningServersNull bool
	LeavingServers     string // comma separated server ids
	LeavingServersNull bool
	NewMembers         string // comma separated server.N=… lines
	NewMembersNull     bool
	CurConfigID        int64 // version the change is based on, -1 for any
}

// Append adds the encoding of m to dst.
func (m *ReconfigRequest) Append(dst []byte) []byte {
	dst = AppendNullString(dst, m.JoiningServers, m.JoiningServersNull)
	dst = AppendNullString(dst, m.LeavingServers, m.LeavingServersNull)
	dst = AppendNullString(dst, m.NewMembers, m.NewMembersNull)
	return AppendInt64(dst, m.CurConfigID)
}

// Decode reads m from r.
func (m *ReconfigRequest) Decode(r *Reader) error {
	m.JoiningServers, m.JoiningServersNull = r.NullString()
	m.LeavingServers, m.LeavingServersNull = r.NullString()
	m.NewMembers, m.NewMembersNull = r.NullString()
	m.CurConfigID = r.Int64()
	return r.Err()
}

// CheckWatchesRequest is the request of checkWatches.
type CheckWatchesRequest struct {
	Path     string
	PathNull bool
	Type     WatcherType
}

// Append adds the encoding of m to dst.
func (m *CheckWatchesRequest) Append(dst []byte) []byte {
	return AppendInt32(AppendNullString(dst, m.Path, m.PathNull), int32(m.Type))
}

// Decode reads m from r.
func (m *CheckWatchesRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Type = WatcherType(r.Int32())
	return r.Err()
}

// RemoveWatchesRequest is the request of removeWatches.
type RemoveWatchesRequest struct {
	Path     string
	PathNull bool
	Type     WatcherType
}

// Append adds the encoding of m to dst.
func (m *RemoveWatchesRequest) Append(dst []byte) []byte {
	return AppendInt32(AppendNullString(dst, m.Path, m.PathNull), int32(m.Type))
}

// Decode reads m from r.
func (m *RemoveWatchesRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Type = WatcherType(r.Int32())
	return r.Err()
}

// AddWatchRequest is the request of addWatch.
type AddWatchRequest struct {
	Path     string
	PathNull bool
	Mode     AddWatchMode
}

// Append adds the encoding of m to dst.
func (m *AddWatchRequest) Append(dst []byte) []byte {
	return AppendInt32(AppendNullString(dst, m.Path, m.PathNull), int32(m.Mode))
}

// Decode reads m from r.
func (m *AddWatchRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	m.Mode = AddWatchMode(r.Int32())
	return r.Err()
}

// AuthPacket is the request of auth.
type AuthPacket struct {
	Type       int32 // 0; servers ignore it
	Scheme     string
	SchemeNull bool
	Auth       []byte // for scheme digest: user:password; nil is null
}

// Append adds the encoding of m to dst.
func (m *AuthPacket) Append(dst []byte) []byte {
	dst = AppendInt32(dst, m.Type)
	dst = AppendNullString(dst, m.Scheme, m.SchemeNull)
	return AppendBuffer(dst, m.Auth)
}

// Decode reads m from r; Auth aliases r's input.
func (m *AuthPacket) Decode(r *Reader) error {
	m.Type = r.Int32()
	m.Scheme, m.SchemeNull = r.NullString()
	m.Auth = r.Buffer()
	return r.Err()
}

// GetSASLRequest is the request of sasl.
type GetSASLRequest struct {
	Token []byte // nil is null
}

// Append adds the encoding of m to dst.
func (m *GetSASLRequest) Append(dst []byte) []byte { return AppendBuffer(dst, m.Token) }

// Decode reads m from r; Token aliases r's input.
func (m *GetSASLRequest) Decode(r *Reader) error {
	m.Token = r.Buffer()
	return r.Err()
}

// NullPath stands for a null among paths that are watched. No decoded string is it, since none is malformed UTF-8.
const NullPath = "\xff"

// appendPaths is AppendStrings with NullPath written as null.
func appendPaths(dst []byte, paths []string) []byte {
	if paths == nil {
		return AppendStrings(dst, nil)
	}
	dst = AppendInt32(dst, int32(len(paths)))
	for _, p := range paths {
		if p == NullPath {
			dst = AppendBuffer(dst, nil)
		} else {
			dst = AppendString(dst, p)
		}
	}
	return dst
}

// paths is Reader.Strings with null elements as NullPath.
func (r *Reader) paths() []string {
	n, isNull := r.count(minStringBytes)
	if isNull {
		return nil
	}
	paths := make([]string, n)
	for i := range paths {
		p, null := r.NullString()
		if null {
			p = NullPath
		}
		paths[i] = p
	}
	return paths
}

// SetWatches is the request of setWatches: the one-shot watches that a reconnecting client still has. A nil list is null,
// which servers refuse. A null path is NullPath.
type SetWatches struct {
	RelativeZxid int64 // last zxid that the client saw
	DataWatches  []string
	ExistWatches []string
	ChildWatches []string
}

// Append adds the encoding of m to dst.
func (m *SetWatches) Append(dst []byte) []byte {
	dst = AppendInt64(dst, m.RelativeZxid)
	dst = appendPaths(dst, m.DataWatches)
	dst = appendPaths(dst, m.ExistWatches)
	return appendPaths(dst, m.ChildWatches)
}

// Decode reads m from r.
func (m *SetWatches) Decode(r *Reader) error {
	m.RelativeZxid = r.Int64()
	m.DataWatches = r.paths()
	m.ExistWatches = r.paths()
	m.ChildWatches = r.paths()
	return r.Err()
}

// SetWatches2 is the request of setWatches2: all the watches that a reconnecting client still has. A nil list is null,
// which servers refuse. A null path is NullPath.
type SetWatches2 struct {
	SetWatches
	PersistentWatches          []string
	PersistentRecursiveWatches []string
}

// Append adds the encoding of m to dst.
func (m *SetWatches2) Append(dst []byte) []byte {
	dst = m.SetWatches.Append(dst)
	dst = appendPaths(dst, m.PersistentWatches)
	return appendPaths(dst, m.PersistentRecursiveWatches)
}

// Decode reads m from r.
func (m *SetWatches2) Decode(r *Reader) error {
	if err := m.SetWatches.Decode(r); err != nil {
		return err
	}
	m.PersistentWatches = r.paths()
	m.PersistentRecursiveWatches = r.paths()
	return r.Err()
}

// GetEphemeralsRequest is the request of getEphemerals.
type GetEphemeralsRequest struct {
	PrefixPath     string // plain string prefix
	PrefixPathNull bool   // all paths
}

// Append adds the encoding of m to dst.
func (m *GetEphemeralsRequest) Append(dst []byte) []byte {
	return AppendNullString(dst, m.PrefixPath, m.PrefixPathNull)
}

// Decode reads m from r.
func (m *GetEphemeralsRequest) Decode(r *Reader) error {
	m.PrefixPath, m.PrefixPathNull = r.NullString()
	return r.Err()
}

// GetAllChildrenNumberRequest is the request of getAllChildrenNumber.
type GetAllChildrenNumberRequest struct {
	Path     string
	PathNull bool
}

// Append adds the encoding of m to dst.
func (m *GetAllChildrenNumberRequest) Append(dst []byte) []byte {
	return AppendNullString(dst, m.Path, m.PathNull)
}

// Decode reads m from r.
func (m *GetAllChildrenNumberRequest) Decode(r *Reader) error {
	m.Path, m.PathNull = r.NullString()
	return r.Err()
}
