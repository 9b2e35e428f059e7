package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of processor time in /proc; Linux shows a hundredth of a second to everybody.
const tick = 10 * time.Millisecond

// Usage is what processes have used and hold, added up.
type Usage struct {
	CPU time.Duration // user and system time since they began
	RSS int64         // bytes resident now
}

// ProcessUsage adds up what /proc tells about processes. One that is gone is an error.
func ProcessUsage(pids []int) (Usage, error) {
	var u Usage
	for _, pid := range pids {
		cpu, err := processCPU(pid)
		if err != nil {
			return Usage{}, err
		}
		rss, err := processRSS(pid)
		if err != nil {
			return Usage{}, err
		}
		u.CPU += cpu
		u.RSS += rss
	}
	return u, nil
}

func processCPU(pid int) (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// pid (command, which may hold anything) state ppid … ; user and system time are the 12th and 13th field behind the parenthesis.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0, fmt.Errorf("%s: %q", name, b)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%s: %q", name, b)
	}
	return time.Duration(user+system) * tick, nil
}

func processRSS(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no VmRSS line", name)
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
