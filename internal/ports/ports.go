// Package ports finds ports on loopback for servers that are about to be started: members of an ensemble must know each other's before
// the first one runs.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range lies below the one from which systems take the ports of outgoing connections, so that nobody takes a port by chance between
// its choice and its use.
const (
	first = 15000
	count = 17000
	tries = 1000
)

// claims keeps what this process has been given until it ends.
var (
	mu     sync.Mutex
	claims []net.Listener
)

// take makes the port this process's if nobody has claimed it and nobody listens there. A port that was chosen is free until its server
// starts, and a dozen test programs start servers side by side: so each claims what it chooses, by a name that one process can have in a
// network namespace. It claims before it looks: to look is to listen for a moment, and the server of a port that is another's may start then.
func take(port int) error {
	claim, err := net.Listen("unix", fmt.Sprintf("@zkd-port-%d", port))
	if err != nil {
		return fmt.Errorf("claimed: %w", err)
	}
	ln, err := net.Listen("tcp", Addr(port))
	if err != nil {
		claim.Close()
		return err
	}
	ln.Close()
	mu.Lock()
	defer mu.Unlock()
	claims = append(claims, claim)
	return nil
}

// Free returns n different ports of 127.0.0.1 on which nobody listens now. No other call of it, in this process or another one, returns
// one of them while this process lives.
func Free(n int) ([]int, error) {
	var (
		found []int
		last  = errors.New("none was tried")
	)
	for range tries {
		if len(found) == n {
			return found, nil
		}
		port := first + rand.IntN(count)
		if err := take(port); err != nil {
			last = err
			continue
		}
		found = append(found, port)
	}
	return nil, fmt.Errorf("no free port from %d to %d: %w", first, first+count-1, last)
}

// Addr is the loopback address with a port.
func Addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
