package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// hintPatience bounds what a hint may ask the servers.
const hintPatience = 2 * time.Second

// hint is the next thing to try after the command name failed with err, with what the servers tell about it; "" if there is
// nothing to say. Each line ends with a newline.
func (sh *shell) hint(name, path string, err error) string {
	var trouble *client.ConnectError
	if errors.As(err, &trouble) {
		return connectHint(trouble)
	}
	if err == errNotConnected || errors.Is(err, client.ErrSessionExpired) {
		return connectAgain
	}
	op, path := failedAt(path, err)
	if errors.Is(err, client.ErrUnimplemented) {
		return unknownHint(op)
	}
	if errors.Is(err, client.ErrTooLarge) {
		return "The limit is the servers' jute.maxbuffer; if theirs is higher, say so with --jute-maxbuffer.\n"
	}
	var code proto.ErrCode
	if err == error(errACL) || errors.Is(err, client.ErrInvalidACL) {
		return aclForm
	}
	if !errors.As(err, &code) || path == "" || !strings.HasPrefix(path, "/") || sh.c == nil {
		return ""
	}
	again := retryHint(name, op, code)
	if errors.As(err, new(*elsewhereError)) {
		return again
	}
	ctx, cancel := context.WithTimeout(sh.ctx, hintPatience)
	defer cancel()
	switch code {
	case client.ErrNoNode:
		return sh.ancestorHint(ctx, path) + fileHint(name, path) + again
	case client.ErrBadVersion:
		if st, found, err := sh.c.Exists(ctx, path); err == nil && found {
			return fmt.Sprintf("Its version is %d, that of its ACL %d.\n", st.Version, st.Aversion)
		}
	case client.ErrNoAuth:
		return sh.aclHint(ctx, asked(op, path))
	case client.ErrNotEmpty:
		if n, err := sh.countDescendants(ctx, path); err == nil {
			return fmt.Sprintf("It has %s below it; deleteall deletes them too.\n", plural(int64(n), "node"))
		}
	}
	return again
}

// unknownHint says what a server needs that does not know an operation.
func unknownHint(op proto.Op) string {
	switch op {
	case proto.OpCreateTTL:
		return "Nodes with a time to live need servers with extendedTypesEnabled=true.\n"
	case proto.OpAddWatch:
		return "Watches that stay need ZooKeeper 3.6; get -w, ls -w and stat -w watch once.\n"
	case proto.OpWhoAmI:
		return "whoami needs ZooKeeper 3.7.\n"
	}
	return "This server does not know the operation.\n"
}

// aclForm explains what an access control list is made of.
const aclForm = "Entries are scheme:id:perms, with commas between: world:anyone:r, ip:10.0.0.0/8:cdrwa, auth::cdrwa for whoever addauth\n" +
	"made this session, digest:user:HASH:cdrwa where HASH is the base64 SHA-1 of user:password. perms are of cdrwa.\n"

// failedAt is the operation that err is about, if it is about one, and its path; path is that of the command.
func failedAt(path string, err error) (proto.Op, string) {
	var oe *client.OpError
	var me *client.MultiError
	switch {
	case errors.As(err, &me):
		return me.Op, me.Path
	case errors.As(err, &oe):
		return oe.Op, oe.Path
	}
	return 0, path
}

// retryHint is what to give the command to make it succeed.
func retryHint(name string, op proto.Op, code proto.ErrCode) string {
	switch {
	case code == client.ErrNodeExists && name == "create":
		return "set replaces its data.\n"
	case code == client.ErrNodeExists && (name == "cp" || name == "import"):
		return name + " -f writes into it. The target is the path of the copy itself, not of the node to put it below.\n"
	case code == client.ErrNodeExists && name == "mv":
		return "The target is the new path itself, not that of the node to put it below.\n"
	case code == client.ErrNoNode && (op == proto.OpCreate || op == proto.OpCreate2 || op == proto.OpCreateContainer || op == proto.OpCreateTTL):
		return name + " -p makes the missing nodes above it.\n"
	}
	return ""
}

func connectHint(trouble *client.ConnectError) string {
	var b strings.Builder
	if len(trouble.Attempts) > 1 {
		for _, a := range trouble.Attempts {
			fmt.Fprintf(&b, "  %-22s %v\n", a.Addr, a.Err)
		}
	}
	closed := func(a client.Attempt) bool { return errors.Is(a.Err, io.EOF) }
	if slices.ContainsFunc(trouble.Attempts, closed) {
		b.WriteString("A server that takes the connection and closes it serves nobody now: it has no majority, or too many clients. status tells more.\n")
		return b.String()
	}
	b.WriteString("Does a server run there? --server names others, --timeout waits longer.\n")
	return b.String()
}

// fileHint tells how to name an export to diff whose path looks like a node's.
func fileHint(name, path string) string {
	if st, err := os.Stat(path); name != "diff" || err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return "A path with / in front is a node's. For the file of that name: file:" + path + "\n"
}

// ancestorHint names the nearest node above path that exists.
func (sh *shell) ancestorHint(ctx context.Context, path string) string {
	if proto.ValidatePath(path) != nil {
		return ""
	}
	for p := proto.Parent(path); ; p = proto.Parent(p) {
		names, _, err := sh.c.Children(ctx, p)
		switch {
		case err == nil:
			return fmt.Sprintf("The nearest node above it is %s, with %s.\n", p, childrenPhrase(names))
		case !errors.Is(err, client.ErrNoNode):
			return ""
		case p == "/":
			return "The chroot itself does not exist; create -p / makes it.\n"
		}
	}
}

func childrenPhrase(names []string) string {
	const few = 5
	switch {
	case len(names) == 0:
		return "no children"
	case len(names) > few:
		return fmt.Sprintf("%d children", len(names))
	}
	return "the children " + strings.Join(sorted(names), ", ")
}

// asked is the node whose ACL a server asks for op on path.
func asked(op proto.Op, path string) string {
	switch op {
	case proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpDelete:
		return proto.Parent(path)
	}
	return path
}

// aclHint tells what the ACL of path asks and who the session is.
func (sh *shell) aclHint(ctx context.Context, path string) string {
	acl, _, err := sh.c.GetACL(ctx, path)
	var hint string
	switch {
	case err == nil:
		hint = fmt.Sprintf("The ACL of %s is %s", path, aclEntries(acl))
	case errors.Is(err, client.ErrNoAuth):
		hint = fmt.Sprintf("The ACL of %s is hidden from this session", path)
	default:
		return "addauth gives the session an identity.\n"
	}
	if sh.olderThan(ctx, knowsWhoAmI) {
		return hint + ". addauth gives the session another identity.\n"
	}
	if ids, err := sh.c.WhoAmI(ctx); err == nil {
		var me []string
		for _, id := range ids {
			me = append(me, id.Scheme+":"+id.User)
		}
		hint += "; this session is " + strings.Join(sorted(me), ", ")
	}
	return hint + ". addauth gives it another identity.\n"
}

// aclEntries is an ACL without its secrets.
func aclEntries(acl []client.ACL) string {
	var entries []string
	for _, e := range acl {
		id := e.ID.ID
		if e.ID.Scheme == "digest" {
			id, _, _ = strings.Cut(id, ":")
		}
		entries = append(entries, fmt.Sprintf("%s:%s:%s", e.ID.Scheme, id, e.Perms))
	}
	return strings.Join(entries, ", ")
}
