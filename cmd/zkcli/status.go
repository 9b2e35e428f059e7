package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
)

// memberPatience bounds how long one server may take to answer.
const memberPatience = 2 * time.Second

// memberStatus is what one server says about itself. Fields that it does not tell are "".
type memberStatus struct {
	addr, role, zxid, epochWord, latency, connections, outstanding, version string
	received                                                                int64
	err                                                                     error
	lag                                                                     string
}

// members are the addresses of all servers: of the configuration if a session tells it, else of the connect string. With TLS
// only the latter are of use: the configuration has the ports without.
func (sh *shell) members(ctx context.Context) []string {
	var addrs []string
	if sh.c != nil && sh.c.Err() == nil && !sh.cfg.usesTLS() {
		limited, cancel := context.WithTimeout(ctx, memberPatience)
		defer cancel()
		if data, _, err := sh.c.Config(limited); err == nil {
			if list, _, err := client.ParseConfig(data); err == nil {
				for _, m := range list {
					if m.Client != "" {
						addrs = append(addrs, m.Client)
					}
				}
			}
		}
	}
	named := serversOf(cmp.Or(sh.server, sh.cfg.server))
	if len(addrs) >= len(named) {
		return addrs
	}
	return named
}

// serversOf cuts a connect string; ports default to 2181.
func serversOf(connect string) []string {
	servers, _, _ := strings.Cut(connect, "/")
	var addrs []string
	for s := range strings.SplitSeq(servers, ",") {
		if s = strings.TrimSpace(s); s != "" && !strings.Contains(s, ":") {
			s += ":" + strconv.Itoa(client.DefaultPort)
		}
		if s != "" {
			addrs = append(addrs, s)
		}
	}
	return addrs
}

// ask asks all servers at once.
func (sh *shell) ask(ctx context.Context, addrs []string) []memberStatus {
	all := make([]memberStatus, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { all[i] = sh.askMember(ctx, addr) })
	}
	wg.Wait()
	lags(all)
	return all
}

func (sh *shell) askMember(ctx context.Context, addr string) memberStatus {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	m := memberStatus{addr: addr}
	answer, err := fourLetters(ctx, sh.cfg.dialer(), addr, "srvr")
	if err != nil {
		m.err = err
		return m
	}
	w := parseWords(answer, ": ")
	if w["Mode"] == "" {
		m.err = fmt.Errorf("%s", strings.TrimSpace(answer))
		return m
	}
	m.role, m.zxid, m.latency, m.connections = w["Mode"], w["Zxid"], w["Latency min/avg/max"], w["Connections"]
	m.outstanding = w["Outstanding"]
	m.version, _, _ = strings.Cut(w["Zookeeper version"], ",")
	if answer, err := fourLetters(ctx, sh.cfg.dialer(), addr, "mntr"); err == nil { // a word that few servers permit
		m.epochWord = parseWords(answer, "\t")["zk_epoch"]
	}
	m.received, _ = strconv.ParseInt(w["Received"], 10, 64)
	return m
}

// lags fills in how many transactions each server is behind the leader, or behind the one that is furthest along.
func lags(all []memberStatus) {
	var head uint64
	for _, m := range all {
		if z, err := strconv.ParseUint(strings.TrimPrefix(m.zxid, "0x"), 16, 64); err == nil {
			head = max(head, z)
		}
	}
	for i := range all {
		z, err := strconv.ParseUint(strings.TrimPrefix(all[i].zxid, "0x"), 16, 64)
		switch {
		case err != nil:
		case z>>32 != head>>32:
			all[i].lag = "epoch"
		default:
			all[i].lag = strconv.FormatUint(head-z, 10)
		}
	}
}

// epoch is what the server calls so, or else the upper half of its zxid, which is the epoch of its last transaction.
func (m *memberStatus) epoch() string {
	if m.epochWord != "" {
		return m.epochWord
	}
	z, err := strconv.ParseUint(strings.TrimPrefix(m.zxid, "0x"), 16, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(z>>32, 10)
}

func (m *memberStatus) fields() map[string]any {
	f := map[string]any{"server": m.addr, "role": m.role, "epoch": m.epoch(), "zxid": m.zxid, "lag": m.lag, "latency": m.latency,
		"connections": m.connections, "outstanding": m.outstanding, "version": m.version}
	if m.err != nil {
		f = map[string]any{"server": m.addr, "error": m.err.Error()}
	}
	return f
}

// status fails if a server does not serve, so that a script can tell.
func status(ctx context.Context, sh *shell, _ *arguments) (result, error) {
	var res result
	members := sh.ask(ctx, sh.members(ctx))
	fields := []map[string]any{}
	down := 0
	for _, m := range members {
		fields = append(fields, m.fields())
		if m.err != nil {
			down++
		}
	}
	res.field("servers", fields)
	res.text = sh.statusTable(members, nil)
	if down > 0 {
		return res, fmt.Errorf("%d of %s not serving", down, plural(int64(len(members)), "server"))
	}
	return res, nil
}

// statusTable is one line a server; rates, if there are any, are another column.
func (sh *shell) statusTable(members []memberStatus, rates map[string]string) string {
	head := []string{"SERVER", "ROLE", "EPOCH", "ZXID", "LAG", "LATENCY ms", "CONNS", "QUEUED", "VERSION"}
	if rates != nil {
		head = append(head, "REQ/s")
	}
	rows := [][]string{head}
	for _, m := range members {
		row := []string{m.addr, m.role, m.epoch(), m.zxid, m.lag, m.latency, m.connections, m.outstanding, m.version}
		if m.err != nil {
			row = []string{m.addr, "down", "", "", "", "", "", "", m.err.Error()}
		}
		if rates != nil {
			row = append(row, rates[m.addr])
		}
		rows = append(rows, row)
	}
	color := map[string]string{"leader": green, "standalone": green, "down": red, "ROLE": bold, "read-only": yellow}
	return table(rows, func(row []string, text string) string { return sh.screen.paint(color[row[1]], text) })
}

// table sets rows in columns.
func table(rows [][]string, paint func(row []string, text string) string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		b.WriteString(paint(row, strings.TrimRight(line.String(), " ")) + "\n")
	}
	return b.String()
}

// top shows the status with request rates, the paths that change most often and the sessions that ask most, until Ctrl-C.
func top(ctx context.Context, sh *shell, a *arguments) (result, error) {
	res := result{quiet: true}
	rounds := a.number("n", 0)
	t := time.NewTicker(max(a.duration("interval", time.Second), 10*time.Millisecond))
	defer t.Stop()
	changes, stop, err := sh.watchTree(ctx, "/")
	if err != nil {
		return res, err
	}
	defer stop()
	hot, addrs := map[string]int{}, sh.members(ctx)
	talk := sh.sessions(ctx, addrs)
	before, at := sh.ask(ctx, addrs), time.Now()
	_, tty := terminalOf(sh.screen.out)
	for n := int64(1); ; {
		select {
		case e, ok := <-changes:
			if !ok || e.Err != nil {
				return res, e.Err
			}
			hot[e.Path]++
		case <-t.C:
			now := sh.ask(ctx, addrs)
			talkNow := sh.sessions(ctx, addrs)
			sh.showTop(&topView{members: now, rates: ratesOf(before, now, time.Since(at)),
				paths: hottest(hot), sessions: hottest(growth(talk, talkNow)), tty: tty})
			before, talk, at = now, talkNow, time.Now()
			clear(hot)
			if n++; rounds > 0 && n > rounds {
				return res, nil
			}
		case <-ctx.Done():
			if userStopped(ctx) {
				return res, nil // Ctrl-C is how it ends
			}
			return res, context.Cause(ctx)
		}
	}
}

func ratesOf(before, now []memberStatus, took time.Duration) map[string]string {
	rates := map[string]string{}
	for i := range now {
		if now[i].err == nil && before[i].err == nil {
			rates[now[i].addr] = fmt.Sprintf("%.0f", float64(now[i].received-before[i].received)/took.Seconds())
		}
	}
	return rates
}

const hotLines = 10

// heat is a path or a session with what it did since the last look.
type heat struct {
	what string
	n    int
}

// hottest returns the most active ones.
func hottest(counts map[string]int) []heat {
	var list []heat
	for what, n := range counts {
		if n > 0 {
			list = append(list, heat{what, n})
		}
	}
	slices.SortFunc(list, func(a, b heat) int { return cmp.Or(b.n-a.n, strings.Compare(a.what, b.what)) })
	return list[:min(hotLines, len(list))]
}

// growth subtracts the counts of the last look.
func growth(before, now map[string]int) map[string]int {
	grown := map[string]int{}
	for what, n := range now {
		grown[what] = n - before[what]
	}
	return grown
}

// sessions counts the requests of every session, by its id and its client's address, at all servers that tell: cons has to
// be among their permitted words.
func (sh *shell) sessions(ctx context.Context, addrs []string) map[string]int {
	var mu sync.Mutex
	counts := map[string]int{}
	var wg sync.WaitGroup
	for _, addr := range addrs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, memberPatience)
			defer cancel()
			answer, err := fourLetters(ctx, sh.cfg.dialer(), addr, "cons")
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(answer) {
				if session, n, ok := parseSession(line); ok {
					counts[session] += n
				}
			}
		})
	}
	wg.Wait()
	return counts
}

// parseSession reads " /127.0.0.1:4711[1](queued=0,recved=12,sent=12,sid=0x1000,…)".
func parseSession(line string) (session string, received int, ok bool) {
	addr, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "/"), "[")
	_, list, _ := strings.Cut(rest, "(")
	fields := map[string]string{}
	for f := range strings.SplitSeq(strings.TrimSuffix(list, ")"), ",") {
		key, value, _ := strings.Cut(f, "=")
		fields[key] = value
	}
	received, err := strconv.Atoi(fields["recved"])
	if !ok || err != nil || fields["sid"] == "" {
		return "", 0, false
	}
	return fields["sid"] + " from " + addr, received, true
}

// topView is one screen of top.
type topView struct {
	members         []memberStatus
	rates           map[string]string
	paths, sessions []heat
	tty             bool
}

func (sh *shell) showTop(v *topView) {
	if sh.json {
		sh.screen.stdout(jsonLine(v.fields()))
		return
	}
	text := sh.statusTable(v.members, v.rates)
	for _, part := range []struct {
		title string
		list  []heat
	}{{"CHANGES  PATH", v.paths}, {"REQUESTS  SESSION", v.sessions}} {
		text += "\n" + sh.screen.paint(bold, part.title) + "\n"
		width := strings.Index(part.title, " ")
		for _, h := range part.list {
			text += fmt.Sprintf("%*d  %s\n", width, h.n, h.what)
		}
	}
	if v.tty {
		text = "\x1b[H\x1b[2J" + text
	}
	sh.screen.stdout(text)
}

func (v *topView) fields() map[string]any {
	servers, paths, sessions := []map[string]any{}, []map[string]any{}, []map[string]any{}
	for _, m := range v.members {
		s := m.fields()
		s["requestsPerSecond"] = v.rates[m.addr]
		servers = append(servers, s)
	}
	for _, h := range v.paths {
		paths = append(paths, map[string]any{"path": h.what, "changes": h.n})
	}
	for _, h := range v.sessions {
		sessions = append(sessions, map[string]any{"session": h.what, "requests": h.n})
	}
	return map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "servers": servers, "paths": paths, "sessions": sessions}
}
