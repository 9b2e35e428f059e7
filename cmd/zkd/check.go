package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/peer"
)

// runConfigCheck tells what a zoo.cfg comes to, without touching anything but myid.
func runConfigCheck(_ context.Context, args []string, out, _ io.Writer) error {
	path, err := oneFile("config check", args, out)
	if err != nil {
		return err
	}
	c, err := loadZooConfig(path)
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
	for _, key := range slices.Sorted(maps.Keys(c.Given)) {
		switch key {
		case "clientPort", "dataDir", "dataLogDir", "tickTime", "initLimit", "syncLimit", "snapCount", "maxClientCnxns", "jute.maxbuffer", "autopurge.snapRetainCount":
		case "DigestAuthenticationProvider.superDigest":
			row(key, "(not shown)")
		default:
			row(key, c.Given[key])
		}
	}
	if c.Self != 0 {
		row("myid", c.Self)
	}
	for _, s := range c.Servers {
		if s.PeerAddr != "" {
			fmt.Fprintln(out, "used    ", serverLine(s))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.ZKD)) {
		row("zkd."+name, c.ZKD[name])
	}
	for _, w := range c.Warnings {
		fmt.Fprintln(out, "warning ", w)
	}
}
