package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatFailsTheRunIsAboutZkd(t *testing.T) {
	fault := errors.New("the server closed the connection")
	for _, c := range []struct {
		name   string
		java   bool
		fails  int // so many tries fail
		tries  int
		left   []float64 // samples
		failed bool
	}{
		{name: "nothing fails", tries: 1, left: []float64{1}},
		{name: "zkd has one try", fails: 1, tries: 1, left: []float64{1}, failed: true},
		{name: "ZooKeeper, nothing fails", java: true, tries: 1, left: []float64{1}},
		{name: "ZooKeeper has two, and only the good one counts", java: true, fails: 1, tries: 2, left: []float64{2}},
		{name: "ZooKeeper is left out", java: true, fails: 2, tries: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{rec: &record{Runs: []launch{{}}}}
			r := &runner{bench: b, sys: &system{name: "x", java: c.java}}
			tries := 0
			r.row = &row{name: "r", run: func(context.Context, *runner) error {
				tries++
				r.report("m", "", float64(tries))
				if tries <= c.fails {
					return fault
				}
				return nil
			}}
			err := b.one(t.Context(), r)
			require.Equal(t, c.tries, tries)
			require.Equal(t, c.failed, errors.Is(err, fault))
			var left []float64
			for _, s := range b.rec.Samples {
				left = append(left, s.Value)
			}
			require.Equal(t, c.left, left)
		})
	}
}

func TestARunThatIsStoppedTriesNothingAgain(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := &bench{rec: &record{}}
	tries := 0
	err := b.attempt(ctx, &system{java: true}, "x", func() error {
		tries++
		stop()
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, tries)
}
