package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// profileTo writes to a new file, until stop is called, where this process's CPU goes, for go tool pprof. Without a path it does nothing.
func profileTo(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--cpu-profile: %w", err)}
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("--cpu-profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
