// Command gozk runs the suite "gozk": the Go client github.com/go-zookeeper/zk
// through every member of a connect string.
//
//	go run ./test/foreign/gozk HOST:PORT[,HOST:PORT...]
//
// With ZKD_FOREIGN_CORE set it asks for nothing beyond ZooKeeper 3.4's requests.
// TOUR_TTL set says that the servers take TTL nodes.
// It prints a line per check and the sum; exit code 1 if a check failed, 2 for
// wrong usage.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/zkd-project/zkd/test/foreign/gozk/tour"
)

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintf(os.Stderr, "usage: %s HOST:PORT[,HOST:PORT...]\n", os.Args[0])
		os.Exit(2)
	}
	var passed, failed int
	servers := strings.Split(os.Args[1], ",")
	report := func(ok bool, name, detail string) {
		if ok {
			passed++
			fmt.Printf("ok gozk %s\n", name)
			return
		}
		failed++
		fmt.Printf("FAIL gozk %s: %s\n", name, strings.Join(strings.Fields(detail), " "))
	}
	tour.Run(servers, report)
	if os.Getenv("ZKD_FOREIGN_CORE") == "" {
		tour.Extra(servers, os.Getenv("TOUR_TTL") != "", report)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}
