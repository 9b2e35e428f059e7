package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
)

// watchCommand prints a line for every event until Ctrl-C, or until it has seen as many as it should.
func watchCommand(ctx context.Context, sh *shell, a *arguments) (result, error) {
	res := result{quiet: true}
	mode, err := watchMode(a.str("m"))
	if err != nil {
		return res, wrongUsage("watch", "")
	}
	s, err := sh.c.AddWatch(ctx, a.path(), mode)
	if err != nil {
		return res, err
	}
	defer s.Stop()
	limited, cancel := withTimeout(ctx, a)
	defer cancel()
	wanted := a.number("n", 0)
	seen := int64(0)
	for e, err := range s.Events(limited) {
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled) && userStopped(ctx):
			return res, nil // Ctrl-C is how it ends
		case errors.Is(err, context.DeadlineExceeded):
			return res, &negative{fmt.Sprintf("%s within %v", plural(seen, "event"), a.duration("timeout", 0))}
		default:
			return res, err
		}
		sh.printEvent(e)
		if seen++; seen == wanted {
			break
		}
	}
	return res, nil
}

func (sh *shell) printEvent(e client.Event) {
	now := time.Now()
	if sh.json {
		f := eventFields(e)
		f["time"] = now.UTC().Format(time.RFC3339Nano)
		sh.screen.stdout(jsonLine(f))
		return
	}
	name := eventName(e.Type).String()
	color := map[client.EventType]string{client.EventNodeCreated: green, client.EventNodeDeleted: red, client.EventMissed: bold}[e.Type]
	sh.screen.stdout(fmt.Sprintf("%s %s %s\n", now.Format("15:04:05.000"), sh.screen.paint(color, fmt.Sprintf("%-19s", name)), e.Path))
}

// withTimeout bounds ctx by --timeout, if it was given.
func withTimeout(ctx context.Context, a *arguments) (context.Context, context.CancelFunc) {
	if !a.has("timeout") {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.duration("timeout", 0))
}

// wait ends when its condition is true, or with exit code 3 when the time is over.
func wait(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	for _, extra := range a.rest[1:] { // wait /a gone
		switch extra {
		case "exists", "gone":
			a.values[extra] = "true"
		default:
			return res, wrongUsage("wait", "unknown condition: "+extra)
		}
	}
	if len(a.values)-map[bool]int{true: 1}[a.has("timeout")] > 1 {
		return res, wrongUsage("wait", "one condition at a time")
	}
	limited, cancel := withTimeout(ctx, a)
	defer cancel()
	err := sh.await(limited, a)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return res, &negative{"not within " + a.duration("timeout", 0).String()}
	}
	return res, err
}

func (sh *shell) await(ctx context.Context, a *arguments) error {
	for node, err := range sh.c.FollowNode(ctx, a.path()) {
		switch {
		case err != nil:
			return err
		case a.has("gone"):
			if !node.Exists {
				return nil
			}
		case !node.Exists:
		case a.has("value"):
			if string(node.Data) == a.str("value") {
				return nil
			}
		case a.has("children"):
			met, err := sh.awaitChildren(ctx, a)
			if met || err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return ctx.Err()
}

// awaitChildren returns false when the node goes before it has enough children.
func (sh *shell) awaitChildren(ctx context.Context, a *arguments) (bool, error) {
	for names, err := range sh.c.FollowChildren(ctx, a.path()) {
		switch {
		case errors.Is(err, client.ErrNoNode):
			return false, nil
		case err != nil:
			return false, err
		case int64(len(names)) >= a.number("children", 0):
			return true, nil
		}
	}
	return false, ctx.Err()
}

// edit writes the data to a temporary file, runs the editor, and sets the data if nobody did meanwhile. What was edited is
// kept if it cannot be stored.
func edit(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	data, st, err := sh.c.Get(ctx, a.path())
	if err != nil {
		return res, err
	}
	f, err := os.CreateTemp("", "zkcli-*")
	if err != nil {
		return res, err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return res, err
	}
	if err := sh.runEditor(f.Name()); err != nil {
		return res, errors.Join(err, os.Remove(f.Name()))
	}
	edited, err := os.ReadFile(f.Name())
	if err != nil {
		return res, err
	}
	if string(edited) == string(data) {
		res.note = "Unchanged\n"
		res.field("changed", false)
		return res, os.Remove(f.Name())
	}
	st, err = sh.c.Set(ctx, a.path(), edited, st.Version)
	if err != nil {
		return res, errors.Join(err, spoken("What you wrote is in "+f.Name()))
	}
	res.field("changed", true)
	res.stat(&st)
	res.note = fmt.Sprintf("Set %s, version %d\n", a.path(), st.Version)
	return res, os.Remove(f.Name())
}

func (sh *shell) runEditor(file string) error {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		if _, tty := terminalOf(sh.stdin); !tty {
			return errors.New("there is no terminal for vi; $EDITOR names another editor")
		}
		editor = "vi"
	}
	words := append(strings.Fields(editor), file)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = sh.stdin, sh.screen.out, sh.screen.err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %s: %w", words[0], err)
	}
	return nil
}
