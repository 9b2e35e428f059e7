package difftest

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settleTime is how long two answers to a four-letter word may differ: servers forget a connection a moment after its client does.
const settleTime = 2 * time.Second

// askBoth sends a four-letter word to both servers, each time on connections of their own, until the answers are the same or it takes
// too long.
func (r *runner) askBoth(word string) [2]answer {
	for end := time.Now().Add(settleTime); ; time.Sleep(settleTime / 100) {
		var answers [2]answer
		for side, addr := range r.addrs {
			text, err := fourLetters(addr, word)
			if err != nil {
				answers[side] = answer{silent: true}
				continue
			}
			f := frame{what: words}
			for _, line := range r.known.comparableLines(word, text, side) {
				f.fields = append(f.fields, field{name: "line", text: strconv.Quote(line)})
			}
			answers[side] = answer{closed: true, frames: []frame{f}}
		}
		if answers[0].String() == answers[1].String() || time.Now().After(end) {
			return answers
		}
	}
}

// mntrKeys are the figures that do not depend on time, memory or what the word itself does. An ensemble has another mode, and its own
// configuration in its tree.
var (
	mntrKeys      = []string{"zk_znode_count", "zk_ephemerals_count", "zk_watch_count", "zk_global_sessions", "zk_local_sessions", "zk_num_alive_connections"}
	mntrAloneKeys = []string{"zk_server_state"}
)

// comparableLines is what two servers share of the answer to a word, sorted. Numbers of A are written as those of B.
func (k *known) comparableLines(word, text string, side int) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			out = append(out, line)
		}
	}
	switch word {
	case "mntr":
		out = keep(out, func(line string) bool {
			key, _, _ := strings.Cut(line, "\t")
			return slices.Contains(mntrKeys, key) || !k.ensemble && slices.Contains(mntrAloneKeys, key)
		})
	case "srvr", "stat":
		out = keep(out, func(line string) bool {
			key, _, _ := strings.Cut(line, ": ")
			return key == "Node count" || key == "Connections" || key == "Outstanding" || key == "Clients:" || key == "Mode" && !k.ensemble
		})
	case "wchs": // the original goes on counting connections that watched something once
		for i, line := range out {
			if _, rest, ok := strings.Cut(line, " connections watching "); ok {
				out[i] = rest
			}
		}
	case "cons":
		out = k.consLines(out, side)
	case "dump":
		out = k.dumpLines(out, side)
	case "wchc", "wchp":
		out = k.grouped(out, side)
	}
	slices.Sort(out)
	return out
}

func keep(lines []string, f func(string) bool) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return !f(line) })
}

var hexNumber = regexp.MustCompile(`^0x[0-9a-f]+:?$`)

// asB replaces a session or zxid by what B calls it; one of an earlier episode has no name.
func asB(p *pairing, text string, side int) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return text
	}
	b, ok := p.forth[int64(n)]
	if side != 0 {
		b = int64(n)
		_, ok = p.back[b]
	}
	if !ok {
		return "an older one"
	}
	return "0x" + strconv.FormatUint(uint64(b), 16)
}

var consLine = regexp.MustCompile(`\(queued=\d+,recved=(\d+),sent=\d+,sid=(0x[0-9a-f]+),lop=(\w+),est=\d+,to=(\d+),(?:lcxid=(0x[0-9a-f]+),)?lzxid=(0x[0-9a-f]+),`)

// consLines leaves out connections without a session, times, what was sent, which is counted after it is read, and what is queued: after
// some refusals the original counts one too many for ever.
func (k *known) consLines(lines []string, side int) []string {
	var out []string
	for _, line := range lines {
		if m := consLine.FindStringSubmatch(line); m != nil {
			m[3] = strings.Replace(m[3], "null", "NA", 1) // nothing was answered yet
			m[5] = cmp.Or(m[5], "0x0")
			m[6] = strings.Replace(m[6], "0xffffffffffffffff", "0x0", 1)
			out = append(out, strings.Join([]string{asB(k.sessions, m[2], side), m[1], m[3], m[4], m[5], asB(k.zxids, m[6], side)}, " "))
		}
	}
	return out
}

// dumpLines are the sessions, and who owns which ephemeral. The forms of the rest are the servers' own.
func (k *known) dumpLines(lines []string, side int) []string {
	owned := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ephemeral nodes dump") })
	conns := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Connections dump") })
	if owned < 0 || conns < owned {
		return append(lines, "unknown form")
	}
	var out []string
	for _, line := range lines[:owned] {
		if id, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); hexNumber.MatchString(id) {
			out = append(out, "session "+asB(k.sessions, id, side))
		}
	}
	return append(out, k.grouped(lines[owned+1:conns], side)...)
}

// grouped joins each line that is set in with the last one that is not.
func (k *known) grouped(lines []string, side int) []string {
	var out []string
	head := ""
	named := func(s string) string {
		if hexNumber.MatchString(s) {
			return asB(k.sessions, strings.TrimSuffix(s, ":"), side)
		}
		return s
	}
	for _, line := range lines {
		if item, in := strings.CutPrefix(line, "\t"); in {
			out = append(out, head+" "+named(item))
		} else {
			head = named(line)
		}
	}
	return out
}
