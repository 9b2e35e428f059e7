// Package lock has a lock, a read-write lock and a semaphore that clients of one ensemble share.
//
// Guarantee: at any moment of the servers' history at most one place is first, so at most one Held of a lock is held; of a
// read-write lock either one writer or any number of readers; of a semaphore at most n. Places are served in the order in
// which they were taken. A holder that dies is succeeded when its session expires.
//
// Failure modes:
//
//   - A holder that was stopped or cut off learns too late that its session has expired; meanwhile another one holds the
//     lock. Work under Held.Context, and let the resource refuse a Held.Token lower than the highest it has seen.
//   - A connection that is lost for less than the session timeout loses nothing.
//   - A cancelled Acquire gives its place back in the background; until then, or until the session ends, others wait.
//   - A semaphore's limit is whatever each client says: all have to say the same.
//
// Layouts: by default the nodes are named as Python's kazoo names them (Lock, ReadLock, WriteLock); with WithCurator as
// Java's Curator does (InterProcessMutex, InterProcessReadWriteLock), which go-zookeeper's Lock understands too. All clients
// of one lock have to use one layout: kazoo and Curator do not see each other's nodes. The semaphore has a layout of its own.
package lock
