// Package load drives servers that speak the client protocol and measures what they do: rates, latencies, the servers' CPU per
// operation and their memory. `zkcli bench` and bench/compare are built on it.
//
// It knows the protocol through proto only, and costs a fraction of what a server spends on a request: a connection is one goroutine
// that reads whatever has come, makes the requests that follow from it in one buffer, and writes that once.
//
//	closed loop   InFlight requests wait on each connection; a reply makes the next request. Latency is service time as one of that
//	              many clients sees it, from the moment the request was made to the moment its reply was read.
//	open loop     Rate requests per second are due at fixed instants, whatever the server does. Latency counts from the instant the
//	              request was due, so time spent waiting behind a server that stands still is in the histogram: the usual correction
//	              for coordinated omission, without having to invent samples.
//
// Goroutines: Run starts one per connection (two in an open loop) and one that reports progress, and returns when all have ended.
package load
