package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/zkd-project/zkd/bench/echo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "echo" {
		return runEcho(ctx, args[1:])
	}
	return compare(ctx, args)
}

// runEcho is what this command runs as the floor: echo ADDRESS SIZE.
func runEcho(ctx context.Context, args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compare echo ADDRESS SIZE")
		return 2
	}
	size, err := strconv.Atoi(args[1])
	if err != nil || size < 0 {
		fmt.Fprintf(os.Stderr, "echo: size %q\n", args[1])
		return 2
	}
	ln, err := net.Listen("tcp", args[0])
	if err == nil {
		err = (&echo.Server{Size: size}).Serve(ctx, ln)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		return 1
	}
	return 0
}
