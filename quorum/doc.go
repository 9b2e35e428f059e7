// Package quorum decides what one server is: it elects, then drives one leader or one follower core, and takes over again when
// that core's role ends. It is the only owner of the role and is pure: events in, effects out, time an argument.
//
//	         ┌────────── LOOKING ───────────────────────────────────────┐
//	start ──▶│ barrier ─▶ (asking) ─▶ (pause) ─▶ voting ─▶ (marking) ───│─▶ LEADING    leader.Leader
//	         │    ▲        fast        R-11       §5.3      O14         │─▶ FOLLOWING  follower.Follower
//	         └────│─────── rejoin ──────────────────────────────────────┘─▶ OBSERVING  follower.Follower
//	              └──────────────────────── Leave ◀──────────────────────────────┘
//
// barrier: no vote until every disk operation of the old role is done. asking: a follower that lost an established leader
// asks it once, over the election connection, whether it still leads. pause: the gap between failed attempts. marking: an empty voter
// that no founding covers stores that it is recovering before it follows anybody.
//
// Election is ZooKeeper's fast leader election with the differences of docs/protocol.md §5: no wait when no missing voter could change
// the result, established leaders recognised by (leader, establishedEpoch) alone, unreachable candidates left out. It is not
// trusted for safety; discovery, in leader and follower, is.
//
// Invariants, at the end of every Step:
//
//	core != nil  ⇔  stage == inRole
//	a notification carries a vote  ⇒  this server is a votable voter and nothing of an older role is on its way to the disk
//	vote for oneself  =  (Hard.Current, Hist.Durable): what the disk holds (I-24)
//	round and every peer's Seq only grow
//	held connections: at most one a peer, at most one packet each, none while leading
//
// Files: node.go the step, peers.go what is known of others and told to them, looking.go the stages, ballots.go counting,
// join.go established leaders, roles.go entering and leaving, founding.go who may vote, reach.go penalties and gaps, held.go early learners, status.go for
// operators, cores.go which cores, random.go jitter.
package quorum
