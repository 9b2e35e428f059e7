package difftest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind says how a field is compared.
type kind uint8

const (
	exact   kind = iota // equal
	zxid                // corresponding, in order
	session             // corresponding
	moment              // milliseconds since 1970: on both sides or on neither, and not far apart
	secret              // of equal length
)

// field is one value of a frame.
type field struct {
	name string
	kind kind
	num  int64
	text string // if not "", the value; num is then unused
}

func (f field) String() string {
	switch {
	case f.text != "":
		return f.name + "=" + f.text
	case f.kind == zxid || f.kind == session:
		return f.name + "=0x" + strconv.FormatUint(uint64(f.num), 16)
	}
	return f.name + "=" + strconv.FormatInt(f.num, 10)
}

// frame is what a server sent at once: the answer to a handshake, a reply, an event, or the text of a four-letter word.
type frame struct {
	what   string
	fields []field
}

func (f frame) String() string {
	parts := []string{f.what}
	for _, fd := range f.fields {
		parts = append(parts, fd.String())
	}
	return strings.Join(parts, " ")
}

// get returns the number of the first field of that name, 0 if there is none.
func (f frame) get(name string) int64 {
	for _, fd := range f.fields {
		if fd.name == name {
			return fd.num
		}
	}
	return 0
}

// answer is all that one server did about a step.
type answer struct {
	frames []frame
	closed bool // the connection ended
	silent bool // something was still awaited when patience ended
}

func (a answer) String() string {
	var b strings.Builder
	for _, f := range a.frames {
		fmt.Fprintf(&b, "      %s\n", f)
	}
	if a.closed {
		b.WriteString("      closed\n")
	}
	if a.silent {
		b.WriteString("      silence\n")
	}
	if b.Len() == 0 {
		return "      nothing\n"
	}
	return b.String()
}

// inOrder returns the answer with the events of one closing session, whose order nobody promises, in a fixed one. all: every event is of such a one.
func (a answer) inOrder(closing map[int64]bool, all bool) answer {
	frames := slices.Clone(a.frames)
	for i := 0; i < len(frames); {
		j := i + 1
		for j < len(frames) && frames[i].what == event && frames[j].what == event && frames[i].get("zxid") == frames[j].get("zxid") {
			j++
		}
		if all || closing[frames[i].get("zxid")] {
			slices.SortStableFunc(frames[i:j], func(x, y frame) int { return cmp.Compare(x.String(), y.String()) })
		}
		i = j
	}
	a.frames = frames
	return a
}
