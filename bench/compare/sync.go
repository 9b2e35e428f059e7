package main

import (
	"os"
	"syscall"
)

// dataSync makes a file's data durable as the servers do.
func dataSync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return err
		}
	}
}
