package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// result is what a command has to say: text is data, note is for the reader, fields are the data for --output json.
type result struct {
	text   string
	note   string
	fields map[string]any
	code   int  // exit code of a command that did not fail
	quiet  bool // everything is printed already
	asIs   bool // text is all there is to print, for --output json too
}

func (r *result) field(name string, value any) {
	if r.fields == nil {
		r.fields = make(map[string]any)
	}
	data, ok := value.([]byte)
	switch {
	case !ok:
		r.fields[name] = value
	case data == nil:
		r.fields[name] = nil
	case utf8.Valid(data):
		r.fields[name] = string(data)
	default:
		r.fields[name+"Base64"] = base64.StdEncoding.EncodeToString(data)
	}
}

func (r *result) stat(s *client.Stat) { r.field("stat", statFields(s)) }

// statFields has the names of the text form. Numbers of 64 bits are hexadecimal strings, because readers of JSON round
// them.
func statFields(s *client.Stat) map[string]any {
	return map[string]any{
		"cZxid": hex(s.Czxid), "ctime": s.Ctime.UTC().Format(time.RFC3339Nano),
		"mZxid": hex(s.Mzxid), "mtime": s.Mtime.UTC().Format(time.RFC3339Nano),
		"pZxid": hex(s.Pzxid), "cversion": s.Cversion, "dataVersion": s.Version, "aclVersion": s.Aversion,
		"ephemeralOwner": hex(s.EphemeralOwner), "dataLength": s.DataLength, "numChildren": s.NumChildren,
	}
}

// javaDate is how zkCli.sh prints a time.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func statText(s *client.Stat) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cZxid = %s\n", hex(s.Czxid))
	fmt.Fprintf(&b, "ctime = %s\n", s.Ctime.Format(javaDate))
	fmt.Fprintf(&b, "mZxid = %s\n", hex(s.Mzxid))
	fmt.Fprintf(&b, "mtime = %s\n", s.Mtime.Format(javaDate))
	fmt.Fprintf(&b, "pZxid = %s\n", hex(s.Pzxid))
	fmt.Fprintf(&b, "cversion = %d\n", s.Cversion)
	fmt.Fprintf(&b, "dataVersion = %d\n", s.Version)
	fmt.Fprintf(&b, "aclVersion = %d\n", s.Aversion)
	fmt.Fprintf(&b, "ephemeralOwner = %s\n", hex(s.EphemeralOwner))
	fmt.Fprintf(&b, "dataLength = %d\n", s.DataLength)
	fmt.Fprintf(&b, "numChildren = %d\n", s.NumChildren)
	return b.String()
}

func hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }

func dataText(data []byte) string {
	if data == nil {
		return "null\n"
	}
	return string(data) + "\n"
}

// eventText is zkCli.sh's report of an event: that of 3.9 if the zxid is known, otherwise, for 0, that of older ones. path is
// "null" for one of the session.
func eventText(state, typ fmt.Stringer, path string, zxid int64) string {
	text := fmt.Sprintf("\nWATCHER::\n\nWatchedEvent state:%s type:%s path:%s", state, typ, path)
	if zxid != 0 {
		text += fmt.Sprintf(" zxid: %d", zxid) // the blank and the decimal number are zkCli.sh's own
	}
	return text + "\n"
}

// spoken is an error in zkCli.sh's words, capitals and all.
type spoken string

func (s spoken) Error() string { return string(s) }

// explain puts the failure of an operation on path into zkCli.sh's words.
func explain(path string, err error) error {
	var code proto.ErrCode
	var conflict *client.QuotaConflict
	switch {
	case errors.As(err, &conflict):
		return conflict
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, client.ErrTooLarge), errors.Is(err, client.ErrClosed), !errors.As(err, &code):
		return err
	}
	words := ""
	switch code {
	case client.ErrNoNode:
		words = "Node does not exist: "
	case client.ErrNodeExists:
		words = "Node already exists: "
	case client.ErrNotEmpty:
		words = "Node not empty: "
	case client.ErrNoChildrenForEphemerals:
		words = "Ephemerals cannot have children: "
	case client.ErrNoAuth:
		words = "Insufficient permission : "
	case client.ErrBadVersion:
		words = "version No is not valid : "
	case client.ErrInvalidACL:
		words = "Acl is not valid : "
	case client.ErrQuotaExceeded:
		words = "Quota has exceeded : "
	case client.ErrBadArguments:
		if fault := pathFault(path); fault != "" {
			return spoken(fault)
		}
		words = "Arguments are not valid : "
	case client.ErrNoWatcher:
		words = "KeeperErrorCode = No such watcher for "
	case client.ErrReconfigDisabled:
		return spoken("KeeperErrorCode = Reconfig is disabled")
	default:
		words = "KeeperErrorCode = " + code.Name() + " for "
		if path == "" {
			words = "KeeperErrorCode = " + code.Name()
		}
	}
	return spoken(words + path)
}

// pathFault says what is wrong with the form of a path, "" if nothing is.
func pathFault(path string) string {
	switch {
	case path == "":
		return "Path length must be > 0"
	case path[0] != '/':
		return "Path must start with / character"
	case path == "/":
		return ""
	case strings.HasSuffix(path, "/"):
		return "Path must not end with / character"
	}
	at := 1
	for name := range strings.SplitSeq(path[1:], "/") {
		reason := ""
		switch name {
		case "":
			reason = "empty node name specified"
		case ".", "..":
			reason = "relative paths not allowed"
			at += len(name) - 1
		default:
			if proto.ValidatePath("/"+name) != nil {
				reason = "invalid character"
			}
		}
		if reason != "" {
			return fmt.Sprintf("Invalid path string %q caused by %s @%d", path, reason, at)
		}
		at += len(name) + 1
	}
	return ""
}

// errorText is everything to tell about the failure of a command, without a final newline.
func errorText(err error) string {
	var trouble *client.ConnectError
	if errors.As(err, &trouble) {
		if len(trouble.Attempts) > 1 {
			return "no server gave a session" // the hint has a line for each
		}
		return trouble.Error()
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return manyTexts(many.Unwrap())
	}
	var there *elsewhereError
	var oe *client.OpError
	switch {
	case errors.As(err, &there):
		return errorText(there.err) + " on " + there.servers
	case err == context.Canceled:
		return "interrupted"
	case !errors.As(err, &oe):
		return err.Error()
	}
	text := explain(oe.Path, oe.Err).Error()
	if oe.MaybeApplied {
		text += "\nIt may have been carried out nevertheless."
	}
	return text
}

// manyTexts tells each fault once, and of very many the first ones: a thousand requests may fail for one reason.
func manyTexts(errs []error) string {
	const enough = 10
	var texts []string
	more := 0
	for _, e := range errs {
		text := errorText(e)
		switch {
		case slices.Contains(texts, text):
		case len(texts) < enough:
			texts = append(texts, text)
		default:
			more++
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("… and %d more like these", more))
	}
	return strings.Join(texts, "\n")
}

// partly tells how far a command came before it failed.
func partly(err error, what string, done, all int) error {
	if err == nil || done == 0 {
		return err
	}
	return errors.Join(err, spoken(fmt.Sprintf("%d of %s %s before that.", done, plural(int64(all), "node"), what)))
}

// errorFields is errorText for --output json.
func errorFields(err error) map[string]any {
	f := map[string]any{"message": errorText(err)}
	var code proto.ErrCode
	if errors.As(err, &code) {
		f["code"] = code.Name()
	}
	var oe *client.OpError
	if errors.As(err, &oe) {
		f["maybeApplied"] = oe.MaybeApplied
	}
	return f
}

// jsonLine returns fields as one line. The keys are sorted.
func jsonLine(fields map[string]any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		panic(fmt.Sprintf("zkcli: fields that are no JSON: %v", err)) // they are strings, numbers, lists and maps of these
	}
	return b.String()
}
