// Package chaos hurts ensembles of real zkd processes while real clients record what they were told, and then checks the histories.
//
//	sessions (pkg/client) ──▶ client ports
//	                          zkd 1 ◀──▶ proxy ◀──▶ zkd 2 …     every peer connection passes a proxy of the test,
//	nemesis ── signals, wiped folders, full disks, proxies ──▶      which blocks, delays or resets each direction by itself
//
// Each server's zoo.cfg names the proxies in place of the other servers' addresses. A round of the nemesis begins a fault, waits until
// writes go on under it (a majority is always left, but for the faults that say otherwise), ends it and waits for writes again.
// Afterwards all servers must hold the same tree, and the history must pass the checkers of check_test.go, which know nothing of zkd.
//
// ZKD_LONG=1 asks for the longer form, ZKD_SEED repeats the draws of a run (not its timing), ZKD_HISTORY names a folder where
// histories are kept in any case; that of a failed run is always kept.
package chaos
