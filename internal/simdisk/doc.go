// Package simdisk is a disk in memory that lies as real ones do: power cuts between any two steps, failed syncs, full file systems,
// rotten bits. It is a package of its own because the tests of txnlog, snapshot and peer use it, and internal/sim, which drives it too,
// imports peer.
//
// It keeps two pictures of every file in sectors of 512 bytes:
//
//	WriteAt ──▶ page cache ── Sync ──▶ platter ── Crash keeps this, and any part of what was not synced ──▶
//	Create, Rename, Remove ──▶ names ── SyncDir ──▶ durable names
//
// Nothing in here reads a clock or draws a number that it was not given the source of.
package simdisk
