package main

import (
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/mmkeeper"
	"github.com/zkd-project/zkd/peer"
)

// Package initialization runs on the main thread, and so does what follows until somebody unlocks it.
func init() { runtime.LockOSThread() }

// keepMemory starts the process that lets this one, should it be killed, close its sockets before its memory is freed (ADR 0026). end ends it: a
// server that ends by itself has closed them, and leaves nothing behind that its operator would have to wait for.
func keepMemory(cfg *zooConfig, log *zap.Logger) (end func()) {
	defer runtime.UnlockOSThread()
	if cfg.ZKD["mmKeeper"] == "false" {
		return func() {}
	}
	pid, err := mmkeeper.Start()
	if err != nil {
		log.Info("no memory keeper: if this server is killed, the others notice when the system has freed its memory", zap.Error(err))
		return func() {}
	}
	log.Info("memory keeper", zap.Int("pid", pid))
	return func() { mmkeeper.End(pid) }
}

// mmKeeper says whether there is a keeper; keepMemory looks itself.
func mmKeeper(_ *peer.Config, v string) error {
	if v != "true" && v != "false" {
		return fmt.Errorf("%q: want true or false", v)
	}
	return nil
}
