package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkd-project/zkd/peer"
)

// runConfigCheck tells what a zoo.cfg comes to, without touching anything but myid.
func runConfigCheck(_ context.Context, args []string, out, _ io.Writer) error {
	if len(args) != 1 {
		return &usageError{errors.New("config check takes one file")}
	}
	c, err := loadZooConfig(args[0])
	if c != nil {
		printConfig(out, c)
	}
	if err == nil {
		_, err = c.peerConfig()
		err = c.inFile(err)
	}
	if err == nil {
		err = c.inFile(c.serverConfig(devClock).Validate())
	}
	if err != nil {
		return &peer.FatalError{Code: exitConfig, Err: fmt.Errorf("configuration: %w", err)}
	}
	fmt.Fprintln(out, "ok")
	return nil
}

func printConfig(out io.Writer, c *zooConfig) {
	row := func(key string, value any) { fmt.Fprintf(out, "used     %s=%v\n", key, value) }
	row("clientPort", c.ClientPort)
	row("dataDir", c.DataDir)
	row("dataLogDir", c.LogDir)
	row("tickTime", c.TickTime.Milliseconds())
	row("initLimit", c.InitLimit)
	row("syncLimit", c.SyncLimit)
	row("snapCount", c.SnapCount)
	row("maxClientCnxns", c.MaxClientCnxns)
	row("jute.maxbuffer", c.JuteMaxBuffer)
	row("autopurge.snapRetainCount", c.RetainSnaps)
	if c.Self != 0 {
		row("myid", c.Self)
	}
	for _, s := range c.Servers {
		if s.PeerAddr != "" {
			fmt.Fprintln(out, "used    ", serverLine(s))
		}
	}
	names := make([]string, 0, len(c.ZKD))
	for name := range c.ZKD {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row("zkd."+name, c.ZKD[name])
	}
	for _, w := range c.Warnings {
		fmt.Fprintln(out, "ignored ", w)
	}
}
