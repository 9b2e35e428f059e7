package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// NoLimit is a limit of a Quota that does not limit.
const NoLimit int64 = -1

// Quota is what a subtree may use, or what it uses: the number of its nodes with its root, and the bytes of their data.
// Exceeding a plain limit is only logged by the servers; a hard one refuses the write with ErrQuotaExceeded if the
// servers have enforceQuota=true.
type Quota struct {
	Count, Bytes         int64
	CountHard, BytesHard int64
}

const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "zookeeper_limits"
	quotaStats  = "zookeeper_stats"
)

// QuotaPath returns the node below which the limits and the usage of path are kept.
func QuotaPath(path string) string { return quotaRoot + path }

// ParseQuota reads the text of a limits or stats node; what it does not name has NoLimit.
func ParseQuota(text []byte) (Quota, error) {
	q := Quota{NoLimit, NoLimit, NoLimit, NoLimit}
	for _, field := range strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(field, "=")
		value = strings.TrimRight(value, "=") // "bytes=9=;byteHardLimit=10" is how the original writes it
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return q, fmt.Errorf("%w: quota %q", ErrMarshalling, text)
		}
		switch key {
		case "count":
			q.Count = n
		case "bytes":
			q.Bytes = n
		case "countHardLimit":
			q.CountHard = n
		case "byteHardLimit":
			q.BytesHard = n
		}
	}
	return q, nil
}

// String returns the text of a limits node, byte for byte as the original writes it.
func (q Quota) String() string {
	return fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", q.Count, q.Bytes, q.BytesHard, q.CountHard)
}

// QuotaConflict says that a node above or below already has a quota. It wraps ErrBadArguments.
type QuotaConflict struct{ Path, Other string }

func (q *QuotaConflict) Error() string {
	if strings.HasPrefix(q.Path, q.Other) {
		return q.Path + " has a parent " + q.Other + " which has a quota"
	}
	return q.Path + " has a child " + q.Other + " which has a quota"
}

// Unwrap returns ErrBadArguments.
func (q *QuotaConflict) Unwrap() error { return ErrBadArguments }

// GetQuota returns the limits of path and its usage. ErrNoNode if it has no quota. It works without a chroot only: quotas
// are kept beside the tree.
func (c *Client) GetQuota(ctx context.Context, path string) (limits, usage Quota, err error) {
	if err := c.quotaPath(path); err != nil {
		return limits, usage, err
	}
	text, _, err := c.Get(ctx, QuotaPath(path)+"/"+quotaLimits)
	if err != nil {
		return limits, usage, err
	}
	if limits, err = ParseQuota(text); err != nil {
		return limits, usage, err
	}
	text, _, err = c.Get(ctx, QuotaPath(path)+"/"+quotaStats)
	if err != nil {
		return limits, usage, err
	}
	usage, err = ParseQuota(text)
	return limits, usage, err
}

// SetQuota replaces the limits of path, or gives it some. path must exist, and neither a node above it nor one below it may
// have a quota: ErrBadArguments.
func (c *Client) SetQuota(ctx context.Context, path string, limits Quota) error {
	if err := c.quotaPath(path); err != nil {
		return err
	}
	if _, found, err := c.Exists(ctx, path); err != nil {
		return err
	} else if !found {
		return &OpError{Op: proto.OpSetData, Path: path, Err: ErrNoNode}
	}
	if other, err := c.otherQuota(ctx, path); err != nil {
		return err
	} else if other != "" {
		return &OpError{Op: proto.OpSetData, Path: path, Err: &QuotaConflict{Path: path, Other: other}}
	}
	if err := c.CreateAll(ctx, QuotaPath(path), nil); err != nil {
		return err
	}
	text := []byte(limits.String())
	_, err := c.Set(ctx, QuotaPath(path)+"/"+quotaLimits, text, AnyVersion)
	if codeOf(err) != ErrNoNode {
		return err
	}
	var m Multi
	m.Create(QuotaPath(path)+"/"+quotaLimits, text, Persistent, nil)
	m.Create(QuotaPath(path)+"/"+quotaStats, []byte("count=0,bytes=0"), Persistent, nil)
	return c.Multi(ctx, &m)
}

// otherQuota finds a quota above or below path.
func (c *Client) otherQuota(ctx context.Context, path string) (string, error) {
	for p := proto.Parent(path); p != "/"; p = proto.Parent(p) {
		if _, found, err := c.Exists(ctx, QuotaPath(p)+"/"+quotaLimits); err != nil || found {
			return p, err
		}
	}
	return c.quotaBelow(ctx, path, true)
}

func (c *Client) quotaBelow(ctx context.Context, path string, top bool) (string, error) {
	names, _, err := c.Children(ctx, QuotaPath(path))
	if codeOf(err) == ErrNoNode {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, name := range names {
		switch {
		case name == quotaStats, name == quotaLimits && top:
		case name == quotaLimits:
			return path, nil
		default:
			if found, err := c.quotaBelow(ctx, path+"/"+name, false); err != nil || found != "" {
				return found, err
			}
		}
	}
	return "", nil
}

// DeleteQuota takes all limits of path away. ErrNoNode if it has no quota.
func (c *Client) DeleteQuota(ctx context.Context, path string) error {
	if err := c.quotaPath(path); err != nil {
		return err
	}
	base := QuotaPath(path)
	var m Multi
	m.Delete(base+"/"+quotaLimits, AnyVersion)
	m.Delete(base+"/"+quotaStats, AnyVersion)
	if err := c.Multi(ctx, &m); err != nil {
		return err
	}
	for base != quotaRoot { // what was made for it alone goes too
		if err := c.Delete(ctx, base, AnyVersion); err != nil {
			if code := codeOf(err); code == ErrNotEmpty || code == ErrNoNode {
				return nil
			}
			return err
		}
		base = proto.Parent(base)
	}
	return nil
}

func (c *Client) quotaPath(path string) error {
	err := proto.ValidatePath(path)
	if err == nil && (path == "/" || c.chroot != "" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/")) {
		err = ErrBadArguments
	}
	if err != nil {
		return &OpError{Op: proto.OpSetData, Path: path, Err: err}
	}
	return nil
}
