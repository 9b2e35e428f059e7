package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	require.NoError(t, testConfig().Validate())
	bad := Config{SelfID: 255, TickTime: time.Millisecond, MinSessionTimeout: time.Hour, MaxSessionTimeout: time.Minute, MaxConns: -1,
		MaxHandshaking: -1, MaxFrame: 1, GlobalOutstanding: -1, MaxInFlight: -1, MaxUnsent: 1, HandshakeTimeout: -1, RequestTimeout: -1, ClientHold: -1}
	err := bad.Validate()
	for _, want := range []string{"server id 255", "tickTime 1ms", "below minSessionTimeout", "maxCnxns -1", "handshakes -1", "jute.maxbuffer 1:",
		"globalOutstandingLimit -1", "in flight -1", "unsent 1:", "handshake timeout -1ns", "request timeout -1ns", "client hold -1ns", "no clock"} {
		require.ErrorContains(t, err, want)
	}
}

func TestDefaults(t *testing.T) {
	c := testConfig().withDefaults()
	require.Equal(t, 4*time.Second, c.MinSessionTimeout)
	require.Equal(t, 40*time.Second, c.MaxSessionTimeout)
	require.Equal(t, time.Second, c.ClientHold)
	require.Equal(t, 1048575, c.MaxFrame)
	c = Config{TickTime: time.Second, MinSessionTimeout: time.Second}.withDefaults()
	require.Equal(t, time.Second/3, c.ClientHold, "a third of the smallest session timeout at most")
	require.Equal(t, 60, c.MaxClientCnxns)
}
