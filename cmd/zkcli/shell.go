package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/zkd-project/zkd/pkg/client"
)

// shell carries out commands on one client. Its own goroutine runs them; one more follows the session's state, and one
// each watch. All of them print through screen.
type shell struct {
	ctx      context.Context
	c        *client.Client
	json     bool
	screen   *screen
	patience time.Duration // how long a command waits for a lost server
	past     []string      // lines of this run
	quitting bool
	helpers  sync.WaitGroup

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the command that runs, nil if none does
}

// screen serialises what goroutines print. While a line is being edited everything goes through the terminal, which
// redraws the line.
type screen struct {
	mu       sync.Mutex
	out, err io.Writer
	editing  *term.Terminal // nil if no line is being edited
}

func (s *screen) stdout(text string) { s.print(s.out, text) }
func (s *screen) stderr(text string) { s.print(s.err, text) }

func (s *screen) print(w io.Writer, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editing != nil {
		w = s.editing
	}
	io.WriteString(w, text) // a reader that is gone is no reason to stop: the command may be a write
}

func (s *screen) edit(t *term.Terminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editing = t
}

// open connects; it gives up after the configured timeout, or when the user does.
func open(ctx context.Context, cfg config, stdout, stderr io.Writer) (*shell, error) {
	sh := &shell{ctx: ctx, json: cfg.json, patience: cfg.timeout, screen: &screen{out: stdout, err: stderr}}
	sh.screen.stderr("Connecting to " + cfg.server + "\n")
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, cfg.timeout)
	defer cancel()
	c, err := client.Dial(ctx, cfg.server, append(cfg.client, client.WithSessionTimeout(cfg.timeout))...)
	if err != nil {
		return nil, err
	}
	sh.c = c
	states := c.States()
	sh.showState(<-states)
	sh.helpers.Go(func() { sh.followStates(states) })
	return sh, nil
}

// close ends the session. There is nothing to do about a server that does not confirm it.
func (sh *shell) close() {
	sh.c.Close()
	sh.helpers.Wait()
	if sh.quitting {
		sh.showState(sh.c.State())
	}
}

func (sh *shell) showState(s client.State) {
	sh.screen.stderr(eventText(s, client.EventNone, "null"))
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
				sh.showState(s)
			}
		case <-lost.C:
			sh.interrupt(client.ErrConnectionLoss)
		}
	}
}

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
		e := <-w.C()
		switch {
		case e.Err != nil:
		case sh.json:
			sh.screen.stdout(jsonLine(map[string]any{"event": e.Type.String(), "path": e.Path}))
		default:
			sh.screen.stdout(eventText(e.State, e.Type, e.Path))
		}
	})
}

// execute carries out one command and returns its exit code.
func (sh *shell) execute(words []string) int {
	cmd := findCommand(words[0])
	if cmd == nil {
		sh.screen.stderr(helpText())
		return sh.fail(words[0], "", checkCommand(words[0]), exitUsage, result{})
	}
	a, err := cmd.parse(words[1:])
	if err != nil {
		return sh.fail(cmd.name, "", err, exitUsage, result{})
	}
	res, err := sh.perform(cmd, a)
	sh.screen.stderr(res.note)
	if !sh.json {
		sh.screen.stdout(res.text) // what there is, even of a command that then failed
	}
	path := ""
	if len(a.rest) > 0 && cmd.name != "addauth" {
		path = a.path()
	}
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return sh.fail(cmd.name, path, err, exitUsage, res)
	case err != nil:
		return sh.fail(cmd.name, path, err, exitFailed, res)
	case sh.json:
		sh.report(cmd.name, path, res)
	}
	return exitOK
}

// perform runs cmd with a context that ends on Ctrl-C and when the server stays away.
func (sh *shell) perform(cmd *command, a *arguments) (result, error) {
	ctx, stop := signal.NotifyContext(sh.ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sh.setCancel(cancel)
	defer sh.setCancel(nil)
	res, err := cmd.run(ctx, sh, a)
	var oe *client.OpError
	if errors.As(err, &oe) && oe.Err == context.Canceled && context.Cause(ctx) == error(client.ErrConnectionLoss) {
		lost := *oe
		lost.Err = client.ErrConnectionLoss
		err = &lost
	}
	return res, err
}

func (sh *shell) report(name, path string, res result) {
	res.field("command", name)
	if _, own := res.fields["path"]; path != "" && !own {
		res.field("path", path)
	}
	sh.screen.stdout(jsonLine(res.fields))
}

func (sh *shell) fail(name, path string, err error, code int, res result) int {
	sh.screen.stderr(errorText(err) + "\n")
	if sh.json {
		res.field("error", errorFields(err))
		sh.report(name, path, res)
	}
	return code
}

// line takes one line of input. Its exit code is exitOK for an empty one.
func (sh *shell) line(text string) int {
	words, err := split(text)
	if err != nil {
		sh.screen.stderr(err.Error() + "\n")
		return exitUsage
	}
	if len(words) == 0 {
		return exitOK
	}
	sh.past = append(sh.past, text)
	if len(sh.past) > maxPast {
		sh.past[len(sh.past)-maxPast-1] = "" // keep the numbers, not the text
	}
	return sh.execute(words)
}

// maxPast is how many lines history remembers.
const maxPast = 1000

func (sh *shell) prompt() string {
	state := "CONNECTING"
	switch s := sh.c.State(); {
	case s == client.StateConnected:
		state = "CONNECTED"
	case s.Final():
		state = "CLOSED"
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", sh.c.Server(), state, len(sh.past))
}
