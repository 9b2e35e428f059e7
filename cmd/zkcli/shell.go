package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// shell carries out commands. Its own goroutine runs them; one more follows the session's state, and one each watch. All of
// them print through screen.
type shell struct {
	ctx      context.Context
	cfg      config
	c        *client.Client // nil before the first open; the shell's own goroutine's
	server   string         // connect string of c
	json     bool
	stdin    io.Reader // as it was given, for programs that the shell runs
	keys     *input    // reads stdin, and no longer than the command that runs
	data     io.Reader // what commands read
	screen   *screen
	patience time.Duration // how long a command waits for a lost server
	past     *pastLines
	quitting bool
	hideWatches
	role    roleCache
	minors  map[string]int // versions of servers by address, see olderThan
	helpers sync.WaitGroup

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the command that runs, nil if none does
}

// hideWatches is what printwatches off sets.
type hideWatches struct{ hidden atomic.Bool }

func newShell(ctx context.Context, cfg config, stdin io.Reader, stdout, stderr io.Writer) *shell {
	keys := newInput(ctx, stdin)
	return &shell{ctx: ctx, cfg: cfg, json: cfg.json, stdin: stdin, keys: keys, data: keys, patience: cfg.timeout,
		screen: newScreen(stdout, stderr, cfg.color), past: loadHistory(cfg.history)}
}

// open opens a session; it gives up after the configured timeout, or when the user does. An open one has to be closed
// before.
func (sh *shell) open(server string) error {
	sh.screen.stderr("Connecting to " + server + "\n")
	ctx, stop := signal.NotifyContext(sh.ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, sh.cfg.timeout)
	defer cancel()
	c, err := sh.dial(ctx, server)
	if err != nil {
		return err
	}
	sh.c, sh.server = c, server
	states := c.States()
	sh.showState(<-states)
	sh.helpers.Go(func() { sh.followStates(states) })
	return nil
}

func (sh *shell) dial(ctx context.Context, server string, more ...client.Option) (*client.Client, error) {
	opts, err := sh.cfg.options()
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, server, append(opts, more...)...)
}

// openQuietly is open for completion, which has no patience and shows nothing.
func (sh *shell) openQuietly() {
	ctx, cancel := context.WithTimeout(sh.ctx, completionPatience)
	defer cancel()
	sh.c, _ = sh.dial(ctx, sh.cfg.server)
}

// openFailed tells why there is no session, and returns the exit code.
func (sh *shell) openFailed(err error) int {
	sh.screen.fault(errorText(err) + "\n")
	sh.screen.stderr(sh.hint("", "", err))
	if errors.Is(err, client.ErrBadArguments) {
		return exitUsage
	}
	return exitFailed
}

// close ends the session. There is nothing to do about a server that does not confirm it.
func (sh *shell) close() {
	if sh.c == nil {
		return
	}
	sh.c.Close()
	sh.helpers.Wait()
	if sh.quitting {
		sh.showState(sh.c.State())
	}
}

func (sh *shell) showState(s client.State) {
	sh.screen.stderr(eventText(s, client.EventNone, "null", 0))
}

// followStates reports changes of the session's state, and ends the command that runs when there has been no server for
// too long. It ends with the session.
func (sh *shell) followStates(states <-chan client.State) {
	lost := time.NewTicker(sh.patience)
	defer lost.Stop()
	lost.Stop()
	for {
		select {
		case s, ok := <-states:
			switch {
			case !ok:
				return
			case s == client.StateDisconnected:
				lost.Reset(sh.patience)
			default:
				lost.Stop()
			}
			if s != client.StateClosed {
				sh.screen.newPrompt()
				sh.showState(s)
			}
			if s == client.StateExpired {
				sh.screen.stderr(expiredText)
			}
		case <-lost.C:
			sh.interrupt(client.ErrConnectionLoss)
		}
	}
}

// expiredText is what there is to know when the servers have given the session up, because they heard nothing of it for too
// long. The shell opens no other by itself: what the user believes to have would be gone silently.
const expiredText = "The session has expired, and with it its ephemeral nodes, watches and identities. " + connectAgain

const connectAgain = "connect opens a new session.\n"

func (sh *shell) interrupt(cause error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.cancel != nil {
		sh.cancel(cause)
	}
}

func (sh *shell) setCancel(cancel context.CancelCauseFunc) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.cancel = cancel
}

// follow prints the event of w when it comes; w may be nil. The session's end needs no report here.
func (sh *shell) follow(w *client.Watch) {
	if w == nil {
		return
	}
	sh.helpers.Go(func() {
		if e := <-w.C(); e.Err == nil && e.Type != 0 {
			sh.showEvent(e)
		}
	})
}

// followStream prints the events of s until it ends.
func (sh *shell) followStream(s *client.Stream) {
	sh.helpers.Go(func() {
		for e := range s.C() {
			if e.Err == nil {
				sh.showEvent(e)
			}
		}
	})
}

func (sh *shell) showEvent(e client.Event) {
	switch {
	case sh.hidden.Load():
	case sh.json:
		sh.screen.stdout(jsonLine(eventFields(e)))
	default:
		sh.screen.stdout(eventText(e.State, eventName(e.Type), e.Path, e.Zxid))
	}
}

// execute carries out one command and returns its exit code.
func (sh *shell) execute(words []string) int {
	cmd := findCommand(words[0])
	if cmd == nil {
		sh.screen.stderr(helpText())
		return sh.fail(words[0], "", checkCommand(words[0]), exitUsage, result{})
	}
	if cmd.wantsHelp(words[1:]) {
		sh.screen.stdout(cmd.explain())
		return exitOK
	}
	a, err := cmd.parse(words[1:])
	if err != nil {
		return sh.fail(cmd.name, "", err, exitUsage, result{})
	}
	if !cmd.offline && (sh.c == nil || sh.c.Err() != nil) {
		return sh.fail(cmd.name, "", errNotConnected, exitFailed, result{})
	}
	return sh.conclude(cmd, a)
}

// errNotConnected says that there is no session for a command that needs one.
const errNotConnected = spoken("Not connected")

// conclude runs a command and shows what became of it.
func (sh *shell) conclude(cmd *command, a *arguments) int {
	res, err := sh.perform(cmd, a)
	sh.screen.stderr(res.note)
	if !sh.json || res.asIs {
		sh.show(res.text) // what there is, even of a command that then failed
	}
	path := ""
	if cmd.paths > 0 {
		path = a.path()
	}
	var usage *usageError
	var no *negative
	switch {
	case errors.As(err, &usage):
		return sh.fail(cmd.name, path, err, exitUsage, res)
	case errors.As(err, &no):
		return sh.fail(cmd.name, path, err, exitNo, res)
	case err != nil:
		return sh.fail(cmd.name, path, err, exitFailed, res)
	case sh.json && !res.quiet && !res.asIs:
		sh.report(cmd.name, path, res)
	}
	return res.code
}

// negative is an error of a command that worked and whose answer is no.
type negative struct{ text string }

func (n *negative) Error() string { return n.text }

// perform runs cmd with a context that ends on Ctrl-C and when the server stays away.
func (sh *shell) perform(cmd *command, a *arguments) (result, error) {
	ctx, stop := signal.NotifyContext(sh.ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sh.setCancel(cancel)
	defer sh.setCancel(nil)
	sh.keys.ctx = ctx
	defer func() { sh.keys.ctx = sh.ctx }()
	res, err := cmd.run(ctx, sh, a)
	var oe *client.OpError
	if errors.As(err, &oe) && oe.Err == context.Canceled && context.Cause(ctx) == error(client.ErrConnectionLoss) {
		lost := *oe
		lost.Err = client.ErrConnectionLoss
		err = &lost
	}
	return res, err
}

// userStopped reports whether Ctrl-C has ended a command's context, and not the server's absence.
func userStopped(ctx context.Context) bool {
	return ctx.Err() == context.Canceled && context.Cause(ctx) != error(client.ErrConnectionLoss)
}

func (sh *shell) report(name, path string, res result) {
	res.field("command", name)
	if _, own := res.fields["path"]; path != "" && !own {
		res.field("path", path)
	}
	sh.screen.stdout(jsonLine(res.fields))
}

func (sh *shell) fail(name, path string, err error, code int, res result) int {
	sh.screen.fault(errorText(err) + "\n")
	hint := sh.hint(name, path, err)
	sh.screen.stderr(hint)
	if sh.json {
		f := errorFields(err)
		if hint != "" {
			f["hint"] = strings.TrimSpace(hint)
		}
		res.field("error", f)
		sh.report(name, path, res)
	}
	return code
}

// line takes one line of input. Its exit code is exitOK for an empty one.
func (sh *shell) line(text string) int {
	words, err := split(text)
	if err != nil {
		sh.screen.fault(err.Error() + "\n")
		return exitUsage
	}
	if len(words) == 0 {
		return exitOK
	}
	sh.past.add(text)
	return sh.execute(words)
}

// prompt shows the server, the session's state, the server's role and the number of the line.
func (sh *shell) prompt(number int) string {
	server, state, tint := sh.server, "CLOSED", red
	if sh.c != nil {
		switch s := sh.c.State(); {
		case s == client.StateConnected:
			state, tint = "CONNECTED", green
		case s == client.StateReadOnly:
			state, tint = "CONNECTEDREADONLY", yellow
		case !s.Final():
			state, tint = "CONNECTING", yellow
		case s == client.StateExpired:
			state = "EXPIRED"
		case s == client.StateAuthFailed:
			state = "AUTH_FAILED"
		}
		server = cmp.Or(sh.c.Server(), server)
	}
	if role := sh.role.of(sh.ctx, sh.cfg.dialer(), server); role != "" && tint == green {
		state += ", " + role
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", server, sh.screen.paint(tint, state), number)
}

// roleCache remembers the role of the server that the prompt names, for a while.
type roleCache struct {
	mu         sync.Mutex // guards what follows: two goroutines make prompts
	addr, role string
	asked      time.Time
}

const (
	roleKept     = 5 * time.Second
	rolePatience = 200 * time.Millisecond
)

func (r *roleCache) of(ctx context.Context, dial dialer, addr string) string {
	if addr == "" {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if addr != r.addr || time.Since(r.asked) > roleKept {
		ctx, cancel := context.WithTimeout(ctx, rolePatience)
		defer cancel()
		answer, _ := fourLetters(ctx, dial, addr, "srvr")
		r.addr, r.role, r.asked = addr, parseWords(answer, ": ")["Mode"], time.Now()
	}
	return r.role
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// fourLetters asks a server one of its four-letter words.
func fourLetters(ctx context.Context, dial dialer, addr, word string) (string, error) {
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	if _, err := nc.Write([]byte(word)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(nc, 1<<20))
	if err == nil && len(answer) == 0 {
		err = fmt.Errorf("%s: no answer to %s", addr, word)
	}
	return string(answer), err
}

// parseWords reads lines of key, separator, value.
func parseWords(text, separator string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

func eventName(t client.EventType) fmt.Stringer {
	if t == client.EventMissed {
		return word("Missed")
	}
	return t
}

type word string

func (w word) String() string { return string(w) }

func eventFields(e client.Event) map[string]any {
	f := map[string]any{"event": eventName(e.Type).String(), "path": e.Path}
	if e.Zxid != 0 {
		f["zxid"] = hex(e.Zxid)
	}
	return f
}

// noNode is the error of a command that wants a node which is not there.
func noNode(path string) error {
	return &client.OpError{Op: proto.OpExists, Path: path, Err: client.ErrNoNode}
}
