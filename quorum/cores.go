package quorum

import (
	"github.com/zkd-project/zkd/follower"
	"github.com/zkd-project/zkd/leader"
	"github.com/zkd-project/zkd/zab"
)

// cores makes role cores. Tests of the election alone put others in.
type cores struct {
	leader   func(local *zab.Local, fx *zab.Effects, now zab.Instant) roleCore
	follower func(local *zab.Local, fx *zab.Effects, lead zab.ServerID, observer bool, now zab.Instant) roleCore
}

var concrete = cores{
	leader: func(local *zab.Local, fx *zab.Effects, now zab.Instant) roleCore { return leader.New(local, fx, now) },
	follower: func(local *zab.Local, fx *zab.Effects, lead zab.ServerID, observer bool, now zab.Instant) roleCore {
		return follower.New(local, fx, lead, observer, now)
	},
}
