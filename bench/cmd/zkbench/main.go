// Command zkbench runs one workload of package bench/load on servers that run already and prints what it found:
//
//	go run ./bench/cmd/zkbench get -server 127.0.0.1:2181 -conns 16 -inflight 64 -duration 10s -pids "$(pidof zkd | tr ' ' ,)"
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/zkd-project/zkd/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := load.Command(ctx, "zkbench", load.Config{Servers: []string{"127.0.0.1:2181"}}, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
