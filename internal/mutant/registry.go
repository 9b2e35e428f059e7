package mutant

// Mutant is one rule that a test build can break.
type Mutant struct {
	Name     string   // what On is asked, and what zkdsim --mutant takes
	Rules    []string // of docs/protocol.md that it breaks: the first for its own sake, others when one covers for the other
	Breaks   string   // what the code does instead, a sentence
	Failures []string // entries of the catalogue of known failures that it stands for
}

// All returns every mutant, orders first, then rules.
func All() []Mutant { return append(append([]Mutant(nil), orders...), rules...) }

// Find returns the mutant of a name.
func Find(name string) (Mutant, bool) {
	for _, m := range All() {
		if m.Name == name {
			return m, true
		}
	}
	return Mutant{}, false
}

// orders break what must be on disk before what is said.
var orders = []Mutant{
	{"O1", []string{"O1"}, "LEADERINFO leaves before the leader's own promise is on disk.", []string{"K26"}},
	{"O2", []string{"O2"}, "ACKEPOCH leaves before the follower's promise is on disk.", nil},
	{"O3", []string{"O3"}, "NEWLEADER leaves before the leader's Ec is on disk.", []string{"K08", "K25"}},
	{"O4", []string{"O4", "X9"}, "A cut below the watermark does not lower the watermark first.", []string{"K43"}},
	{"O5", []string{"O5", "R-4"}, "The follower writes Ec when the sync begins, before the history.", []string{"K03"}},
	{"O6", []string{"O6", "R-4"}, "The follower acks NEWLEADER before its Ec is on disk.", []string{"K08", "K28"}},
	{"O7", []string{"O7"}, "The follower acks what it has been sent, before its fsync.", []string{"K01", "K02", "K06"}},
	{"O7-leader", []string{"O7", "R-40"}, "The leader counts itself for records that its own disk does not have yet.", []string{"K40"}},
	{"O8", []string{"O8"}, "The leader counts what it has sent to a learner instead of what was acked.", nil},
	{"O9", []string{"O9", "R-40"}, "What is committed is applied and answered before the own disk has it.", []string{"K40"}},
	{"O10", []string{"O10", "R-59"}, "Purge counts snapshots that nobody has read back.", []string{"K39"}},
	{"O11", []string{"O11"}, "The old log is removed before the manifest names the new generation.", []string{"K16", "K21"}},
	{"O12", []string{"O12", "D1"}, "A vote states the start of the promised epoch, a position that no record has.", []string{"K30"}},
	{"O14", []string{"O14", "X5"}, "A start that finds damage moves and cuts before it has written down that it is recovering.", nil},
	{"O15", []string{"O15", "X6", "R-55"}, "A start states the hard state and the manifest as it has read them, without writing them anew.", nil},
	{"R-55", []string{"R-55", "O15"}, "After an unclean stop the log's last segment is believed as it reads.", nil},
	{"R-6", []string{"R-6", "R-53"}, "A failed fsync of the hard state is tried again.", nil},
	{"R-53", []string{"R-53"}, "A failed fsync of the log is tried again.", []string{"K38"}},
	{"no-fsync", []string{"O7", "R-41"}, "The log is written and never synced.", []string{"K01"}},
	{"K16", []string{"O5", "O10"}, "A snapshot is neither synced nor read back.", []string{"K16", "K63"}},
	{"R-56", []string{"R-56"}, "The folder is not synced when a log segment is made.", []string{"K44"}},
	{"R-56-manifest", []string{"R-56"}, "The folder is not synced when manifest or hard state are replaced.", []string{"K44"}},
	{"R-73", []string{"R-73"}, "With one slot of the hard state unreadable, the other one will do.", nil},
	{"R-76", []string{"R-76"}, "A sealed last segment is taken for the end of the log.", nil},
	{"K12", []string{"S5"}, "A cut takes one record too many.", []string{"K12"}},
	{"K33", []string{"§18.5"}, "A start that finds damage goes on with what is left as if nothing had been lost.", []string{"K33"}},
	{"K41", []string{"O7", "I-15"}, "A cut leaves the durable mark where it was.", []string{"K41"}},
	{"D2", []string{"D2"}, "A start replays the whole log into the tree, committed or not.", []string{"K15", "K20"}},
	{"D3", []string{"D3"}, "A snapshot is written from the live tree.", []string{"K45"}},
}

// rules break what is decided in memory.
var rules = []Mutant{
	{"R-1", []string{"R-1"}, "A role begins while disk operations of the last one are on their way.", []string{"K06", "K46"}},
	{"R-2", []string{"R-2"}, "Leaving a role does not freeze the clients.", nil},
	{"R-7", []string{"R-7"}, "A third of the voters is a quorum.", nil},
	{"R-7-zxid", []string{"R-7", "O8"}, "The commit is where the fastest voter is, not the median.", nil},
	{"R-8", []string{"R-8"}, "Observers count.", []string{"K36"}},
	{"R-10", []string{"R-10"}, "Who leads or follows goes to elections when somebody looks.", []string{"K69"}},
	{"R-12", []string{"R-12"}, "A candidate whose port cannot be reached is elected again and again.", []string{"K69"}},
	{"R-13", []string{"R-13"}, "The leader does nothing for a voter that has promised more than its epoch.", []string{"K37"}},
	{"R-20", []string{"R-20"}, "The new epoch is the largest promised one, not one above.", []string{"K27"}},
	{"R-22", []string{"R-22"}, "An epoch that was promised to one leader is promised to another.", nil},
	{"R-22-count", []string{"R-22"}, "The leader counts an ACKEPOCH that is no vote.", nil},
	{"R-24", []string{"R-24"}, "Who comes after discovery is not told the epoch.", []string{"K52"}},
	{"R-26", []string{"R-26"}, "What is proposed while a learner is being synchronised is jumped over.", []string{"K09", "K10", "K13"}},
	{"R-29", []string{"R-29"}, "A follower takes the position of a snapshot when it is announced.", []string{"K15", "K17"}},
	{"R-31", []string{"R-31", "§8.2"}, "The leader asks for a cut to nothing, and the follower cuts what it has applied.", []string{"K19"}},
	{"R-32", []string{"R-32"}, "NEWLEADER is sent ahead of the records.", []string{"K07"}},
	{"R-33", []string{"R-33"}, "Records are acked before NEWLEADER is.", []string{"K04"}},
	{"R-34", []string{"R-34"}, "A leader counts as established by its own ack.", nil},
	{"R-36", []string{"R-36"}, "UPTODATE is sent before establishment.", nil},
	{"R-42", []string{"R-42"}, "A multi that fails leaves its changes among the outstanding ones.", []string{"K55"}},
	{"R-46", []string{"R-46"}, "A leader without contact to a quorum proposes expiries, of sessions that have just got time back too: either rule alone hides that the other is gone.", []string{"K58"}},
	{"R-47", []string{"R-47"}, "Sessions do not get the time back that the leader did not run.", []string{"K58"}},
	{"R-48", []string{"R-48"}, "That a session is unknown is told without a round.", []string{"K60"}},
	{"R-49", []string{"R-49"}, "The leader does not know to which server a session belongs.", nil},
	{"R-50", []string{"R-50"}, "The time in a txn is the wall clock's, though it sinks.", nil},
	{"R-51", []string{"R-51"}, "New session ids do not look at those in the table.", nil},
	{"R-63", []string{"R-63"}, "The counter of an epoch is not bounded.", []string{"K62"}},
	{"R-66", []string{"R-66", "D10"}, "An empty voter votes and counts at once.", []string{"K32"}},
	{"R-67", []string{"R-67", "X1"}, "A snapshot may take a learner below the common point; neither side looks.", nil},
	{"R-68", []string{"R-68", "X2"}, "A durable position counts before the ack of NEWLEADER.", nil},
	{"R-69", []string{"R-69", "X3"}, "A commit that is named has its effect before UPTODATE.", nil},
	{"R-71", []string{"R-71", "§5.1"}, "Votes are ordered by id alone, and a follower that is ahead is counted.", []string{"K68"}},
	{"R-74", []string{"R-74", "D13"}, "A wiped voter counts as soon as it is synchronised.", nil},
	{"R-74-id", []string{"R-74"}, "A record that re-admitted an earlier loss ends a later one.", nil},
	{"X4", []string{"R-74", "X4"}, "The leader counts a wiped voter that is synchronised, before the record.", nil},
	{"X7", []string{"R-71", "X7"}, "Anybody who is ahead ends the attempt, counted or not.", nil},
	{"S6", []string{"S5", "S6", "S7"}, "Who has records that the leader lacks is sent a DIFF.", []string{"K11"}},
	{"S17", []string{"S17", "X8"}, "Two whole histories without a common epoch are taken for strangers.", nil},
	{"D7", []string{"D7"}, "An epoch is not acked a second time, not even to the same leader.", nil},
	{"D8", []string{"D8"}, "sync is answered without a round.", []string{"K50", "K64"}},
	{"D9", []string{"D9", "I-49"}, "A learner's window has no bound.", []string{"K52"}},
	{"L1", []string{"L1"}, "A leader that hears no quorum goes on.", nil},
	{"K31", []string{"O12", "R-71"}, "Votes state what is applied, and a follower that is ahead is counted.", []string{"K31"}},
	{"K47", []string{"§12"}, "A session is in the table when it is prepared.", []string{"K47"}},
	{"K48", []string{"§13.1"}, "A round is confirmed by answers to a wave that began before the question.", []string{"K48"}},
	{"K61", []string{"§12"}, "Followers do not report what their clients touched.", []string{"K61"}},
	{"K66", []string{"§10", "R-58"}, "What was prepared and not applied is not forgotten when a leadership ends.", []string{"K66"}},
	{"vote-order", []string{"§5.1"}, "Votes are ordered by zxid before the accepted epoch.", []string{"K25"}},
	{"gather", []string{"§17"}, "Requests that are held back are not let go.", nil},
	{"admission", []string{"§17"}, "Requests are admitted without a bound.", nil},
}
