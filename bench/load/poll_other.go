//go:build !linux

package load

import "time"

// poller is not to be had here: a goroutine waits for each connection.
type poller struct{}

func newPoller([]*conn) *poller { return nil }

func (*poller) wait(time.Duration) ([]int32, error) { return nil, nil }

func (*poller) close() {}
