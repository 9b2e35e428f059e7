package client

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// DefaultPort is the port of a server that is named without one.
const DefaultPort = 2181

// parseConnectString cuts "host1:2181,host2/chroot" into addresses and the chroot, which is "" if there is none. The
// error wraps ErrBadArguments.
func parseConnectString(s string) (addrs []string, chroot string, err error) {
	servers := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		servers, chroot = s[:i], s[i:]
		if chroot == "/" {
			chroot = ""
		} else if err := proto.ValidatePath(chroot); err != nil {
			return nil, "", fmt.Errorf("chroot %q: %w", chroot, err)
		}
	}
	for host := range strings.SplitSeq(servers, ",") {
		addr, err := parseAddr(strings.TrimSpace(host))
		if err != nil {
			return nil, "", err
		}
		addrs = append(addrs, addr)
	}
	return addrs, chroot, nil
}

// parseAddr adds the default port to host, host:port, [v6], [v6]:port or a bare v6 address.
func parseAddr(s string) (string, error) {
	host, port := s, strconv.Itoa(DefaultPort)
	switch {
	case net.ParseIP(s) != nil:
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		host = s[1 : len(s)-1]
	case strings.Contains(s, ":"):
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", fmt.Errorf("server %q: %w: %w", s, ErrBadArguments, err)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if host == "" || err != nil || n == 0 {
		return "", fmt.Errorf("server %q: %w", s, ErrBadArguments)
	}
	return net.JoinHostPort(host, port), nil
}

// hosts hands out the servers in turn, in an order that was drawn once. It belongs to the session loop.
type hosts struct {
	addrs []string
	next  int
}

func newHosts(addrs []string) *hosts {
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return &hosts{addrs: addrs}
}

func (h *hosts) take() string {
	addr := h.addrs[h.next]
	h.next = (h.next + 1) % len(h.addrs)
	return addr
}
