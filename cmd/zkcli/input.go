package main

import (
	"context"
	"io"
	"os"
)

// input reads for a context: when that ends a Read returns, though nobody has typed anything. What the read below it then
// gets later is there for the next Read, so that no key is lost. One goroutine may read at a time.
type input struct {
	r       io.Reader
	ctx     context.Context
	answers chan answer // of the read that runs
	running bool
	last    answer // what is left of the answer before
}

type answer struct {
	bytes []byte
	err   error
}

const inputBytes = 32 << 10

func newInput(ctx context.Context, r io.Reader) *input {
	return &input{r: r, ctx: ctx, answers: make(chan answer, 1)}
}

func (in *input) Read(b []byte) (int, error) {
	if len(in.last.bytes) == 0 && in.last.err == nil {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	if n := copy(b, in.last.bytes); n > 0 {
		in.last.bytes = in.last.bytes[n:]
		return n, nil
	}
	err := in.last.err
	in.last.err = nil // a terminal goes on after its Ctrl-D
	return 0, err
}

// fill waits for one read. The goroutine that does it ends with it, or with the process.
func (in *input) fill() error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	if !in.running {
		in.running = true
		go func() {
			b := make([]byte, inputBytes)
			n, err := in.r.Read(b)
			in.answers <- answer{b[:n], err}
		}()
	}
	select {
	case in.last = <-in.answers:
		in.running = false
		return nil
	case <-in.ctx.Done():
		return in.ctx.Err()
	}
}

// readFile is os.ReadFile that ends with ctx: the file may be a pipe in which nothing comes.
func readFile(ctx context.Context, name string) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) { return os.ReadFile(name) })
}

// writeFile is os.WriteFile that ends with ctx: the file may be a pipe that nobody reads.
func writeFile(ctx context.Context, name string, data []byte) error {
	_, err := interruptible(ctx, func() (struct{}, error) { return struct{}{}, os.WriteFile(name, data, 0o666) })
	return err
}

// interruptible does not wait for f longer than ctx lives; f then ends with the process at the latest.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
