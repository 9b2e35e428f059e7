// Package sim runs whole ensembles inside one goroutine, exactly repeatable from a seed, and looks for broken invariants.
//
//	Swarm(seed) ─▶ Scenario ─▶ World ─▶ Result          zkdsim run, replay
//	schedule file ─▶ Parse ──────┘                      zkdsim play, testdata/schedules
//	Shrink(Scenario) ─▶ a smaller Scenario that fails in the same way
//
// What is real: quorum, leader, follower, zab's codec, peer.Storage with txnlog and snapshot, peer.SnapshotPlan, statemachine, session. What is played:
//
//	world.go, agenda.go    time: one heap of happenings by (time, order of entry)
//	network.go             connections: FIFO, delay, half-open, lost suffixes, one-way blocks, refusal
//	node.go, writer.go     a server's shell: turns, effects in order, disk operations with latency and completions, snapshots
//	stream.go, mesh.go     hellos, the newest connection counts, snapshots in chunks
//	edge.go, clientconn.go the client port: sessions, pipelines, freeze and hold, as package server has them
//	client.go              users: create, delete, set, multi, sequences, ephemerals, reads, sync; they move and fall asleep
//	watches.go             one-shot watches at the server, and taken along by clients that move
//	strays.go              frames of connections that are gone, and of other epochs, told once more
//	flap.go                runs in which only a minority is in trouble
//	folders.go             what people do to data folders: old copies, another cluster's
//	space.go               the guard of the free space
//	simdisk                the disk under a server: power cuts, failed syncs, a full file system, rotten bits
//
// What watches (it shares no code with what it watches; invariants I-n are numbered in docs/protocol.md):
//
//	checks.go, frames.go   books kept from effects, frames and completed disk operations: the shadow of every disk, proposals, promises,
//	                       the one committed history
//	orders.go              the order of epochs and counters, the barrier between roles, failed disks, calm
//	history.go, model.go   every answer to a client against a slow plain tree that carries out the clients' requests in the order of that history
//	porcupine.go           the same answers, znode by znode, by somebody else's checker; only where it is asked for
//	watchcheck.go          every event and every reply against what the client watches
//	suffixes.go            the numbers of sequential znodes
//
// A run that fails prints one line that replays it. Everything random comes from the seed, a source of its own for each component, so that
// taking a line out of a schedule leaves the other components' draws as they were. Result.Hash covers every event.
//
// # Schedules
//
// A schedule is text: one word and its arguments per line or between semicolons, # begins a comment. Settings come first:
//
//	seed 0x17; nodes 3; observers 1; clients 2; rate 50ms; depth 2; watches 3; net 1ms; disk 2ms; drift 0.001; length 20s; budgeted
//	segment 16384; snaptxns 5; tail 1; inflight 1; batch 1; maxpending 3; …                  limits, see Limits
//
// Then the steps, carried out one after the other; "at 1.5s" in front lets one wait until that moment. Servers are numbers, letters A to I,
// leader, followers, all, or minority: some voters that did not lead when the word was first used.
//
//	start, kill, power, stop, freeze, thaw SERVER…     processes and machines
//	pause SERVER…                                      freeze, and the clock stands still too, as under a hypervisor; thaw ends it
//	wipe, rot SERVER…                                  a disk that loses its promises; no more than a minority does
//	scrub SERVER…                                      old files are read through; damage found is mended from memory
//	backup, restore SERVER…                            copies the folder; puts the copy back, if everybody else has what it lacks
//	swap, return SERVER…                               starts on the folder of another cluster's member; on its own again
//	forget, lose SERVER…                               one slot of its promises becomes unreadable; the newest log segment is gone; no more than a minority
//	spoil SERVER remove|empty|flip PREFIX [NEWEST [BUT]]
//	                                                   files of a server that is down, in ways no crash explains
//	disk SERVER ok|hang|failsync|full|room BYTES|free|slow D|cut N|fail N
//	                                                   cut N: the power goes off in the N-th step from now; fail N: that step fails
//	partition A B | C; block FROM TO; mute FROM TO (elections only); starve FROM TO (data only); open FROM TO; refuse FROM TO; admit FROM TO; reset A B; slow FROM TO D; heal
//	garble FROM TO                                     the next frame on this way comes with a byte changed
//	stray SERVER                                       a frame of a connection that is gone, or of another epoch, comes once more
//	calm on|off                                        on: waits until all serve; from then on the leader has to go on (I-48)
//	lie SERVER…                                        it applies the next data as another (I-17)
//	handover SERVER [TARGET]; snapshot SERVER… (demands one); wall SERVER BY; move CLIENT
//	write, ephemeral PATH DATA; delete, read, sync PATH; close     by a client of the schedule's own, and at the end of the line
//	… [through SERVER] [as NAME]                       through which server, and what the request is called from then on;
//	                                                   DATA is a word, or so many bytes: 9000-bytes
//	catch PACKET FROM TO [after N]                     blocks the way when such a packet (propose, newleader, ack, …) is about to go it
//	catch OPERATION SERVER [after N]                   lets the disk hang before an append, savehardstate, truncate, installsnapshot
//	catch nothing                                      takes back what was not caught; a trap that is left at the end fails the run
//	await [not] CONDITION [within D]                   until it is so
//	is [not] CONDITION                                 or the run fails
//	mark                                               joined and synced begin anew
//	wait D
//	repeat NAME FROM TO … end                          the lines between once for each number, which stands in the place of $NAME
//	lead SERVER                                        waits until all who are up serve and this one leads; has the leader hand over
//	blackout SERVER…                                   power, and of what was not synced nothing survives
//	narrow FROM TO N                                   so many bytes a second go this way
//	forge ack|commit FROM TO N                         a lie on the data connection: of a record N beyond the leader's end
//	multi create:PATH:DATA set:PATH:DATA delete:PATH check:PATH:VERSION…
//	visit SERVER…; hush SERVER…; redirect FROM TO      a client through this server opens a session; falls silent for ever; goes to another
//	vary FROM TO                                       the whole schedule for each number, which stands in the place of $
//	expect ok | expect I-33                            how the run must end; ok if there is no such line
//
// Conditions; of several servers all must fulfil them, with not none:
//
//	caught                                             everything that was to be caught
//	leader [SERVER]; serving, up, down, recovering, leading, following, looking, observing SERVER…
//	NAME; answered NAME…                               a request has its outcome; has its answer
//	stored, applied NAME SERVER…                       what a write became is certainly on the disk; is in the state
//	accepted, current EPOCH SERVER…                    Ea and Ec, on disk
//	synced diff|trunc|snap SERVER…; joined N SERVER…   how its leader last set out to synchronise it; how often since the mark
//	there, gone PATH…                                  in the committed history
//	ahead OTHER SERVER…                                has promised a later epoch than the other
//	counts WHAT LEAST [MOST]                           an entry of Counts, or epochs: established leaderships
//	files SERVER PREFIX LEAST [MOST]                   so many files have such a name
//	learners SERVER LEAST [MOST]                       so many are in step with this leader
//	counted EVENT                                      an entry of Counts, as exit-4
//
// A run with a length ends then; a budgeted one is healed there and must come together: one leader, everybody serving, one digest, no
// request without an outcome; then a client gets something committed (I-47). Without a length it ends with its last step.
package sim
