package peer

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/zab"
)

// spaceEvery is how often the free space is looked at, apart from whenever the log or a snapshot has grown by a quarter of a segment.
const spaceEvery = time.Second

// Space is what there is room for. Full: another segment may not fit, so nothing may be given a zxid any more. Low: it is time that
// somebody else leads (docs/protocol.md §18.6).
type Space struct{ Low, Full bool }

// Bounds are free bytes below which there is little space, and too little.
type Bounds struct{ Soft, Hard int64 }

// Judge compares free bytes with the bounds. What was low or full stays so until there is a quarter more than the bound: a server must not
// flutter at the edge.
func (s Space) Judge(free int64, b Bounds) Space {
	below := func(was bool, bound int64) bool {
		if was {
			bound += bound / 4
		}
		return free < bound
	}
	return Space{Low: below(s.Low, b.Soft), Full: below(s.Full, b.Hard)}
}

// SpaceBounds are two segments and a snapshot, and one segment, unless the configuration says otherwise (not 0). All are bytes.
func SpaceBounds(soft, hard, segment, snapshot int64) Bounds {
	if soft == 0 {
		soft = 2*segment + snapshot
	}
	if hard == 0 {
		hard = segment
	}
	return Bounds{Soft: max(soft, hard), Hard: hard}
}

func (p *Peer) spaceBounds() Bounds {
	_, snap, _ := p.store.Newest()
	return SpaceBounds(p.cfg.DiskSoft, p.cfg.DiskHard, p.cfg.SegmentBytes, snap)
}

// watchSpace tells the core when the disk gets low or full and when there is space again. It ends with ctx.
func (p *Peer) watchSpace(ctx context.Context) {
	timer := p.cfg.Clock.NewTimer(spaceEvery)
	defer timer.Stop()
	var was Space
	for {
		if free, dir, err := p.freeSpace(); err != nil {
			p.warnPeer("free space is not known", p.cfg.Core.Self, err)
		} else {
			if now := was.Judge(free, p.spaceBounds()); now != was {
				was = now
				p.logSpace(now, dir, free)
				p.inbox.put(zab.Disk{Low: now.Low, Full: now.Full})
			}
		}
		timer.Reset(spaceEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-p.disk.grown:
		}
	}
}

// freeSpace is that of the folder with the least.
func (p *Peer) freeSpace() (free int64, dir string, err error) {
	dir = p.store.dir
	free, err = p.cfg.Disk.Free(dir)
	if log := p.store.logDir; err == nil && log != dir {
		var other int64
		if other, err = p.cfg.Disk.Free(log); other < free {
			free, dir = other, log
		}
	}
	return free, dir, err
}

func (p *Peer) logSpace(s Space, dir string, free int64) {
	fields := []zap.Field{zap.String("dir", dir), zap.Int64("freeBytes", free)}
	switch {
	case s.Full:
		p.log.Error("disk is full: writes are refused until there is space", fields...)
	case s.Low:
		p.log.Warn("disk is low: another server leads if one can", fields...)
	default:
		p.log.Info("there is space on the disk again", fields...)
	}
}
