package zab

// Leave is how a leader or follower core says that its role is over. The core has already asked to close its connections and
// emits nothing any more; quorum freezes the edge, waits for the log barrier and chooses what comes next.
type Leave struct {
	Reason string
	// Lost: a follower of an established leader lost its connection; it may try once to rejoin without an election (§5.7).
	Lost bool
	// Unreachable: the elected leader's data port could not be reached.
	Unreachable bool
	// Designated: a handover names the next leader, possibly oneself (§16.1); 0 otherwise.
	Designated ServerID
	// Full: a learner has no space for what its leader sends (§18.6). It would be sent the same again at once.
	Full bool
	// Fatal, if not empty: the process must end, as soon as the others have had time to hear why this role is over.
	Fatal string
	// Stopped: a graceful stop is complete.
	Stopped bool
}
