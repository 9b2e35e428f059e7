// Package sim holds simulated twins of what internal/env offers, so that whole servers can be run, starved, cut off and
// restarted inside one goroutine, exactly repeatable from a seed.
//
// Disk (disk.go, diskfile.go) keeps two pictures of every file in sectors of 512 bytes:
//
//	WriteAt ──▶ page cache ── Sync ──▶ platter ── Crash keeps this, and any part of what was not synced ──▶
//	Create, Rename, Remove ──▶ names ── SyncDir ──▶ durable names
//
// Nothing in here reads a clock or draws a number that it was not given the source of.
package sim
