package main

import "syscall"

// reservedFiles is how many descriptors clients cannot have: the log, snapshots being written, read and sent, links to the other servers
// and whoever knocks at their ports. A server that cannot open its next log segment has to stop.
func reservedFiles(servers int) int { return 64 + 16*servers }

// openFiles is how many descriptors this process may have, 0 if there is no bound. The runtime has raised it to the hard limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > 1<<30 {
		return 0
	}
	return int(limit.Cur)
}

// clientLimit is how many client connections one of share servers of this process may have: what is configured (0: no bound), as far
// as files allows. Of few files it leaves the server half.
func (c *zooConfig) clientLimit(files, share int) int {
	files /= share
	if files == 0 {
		return c.MaxCnxns
	}
	room := max(files-reservedFiles(len(c.Servers)), files/2, 1)
	if c.MaxCnxns > 0 {
		return min(c.MaxCnxns, room)
	}
	return room
}
