package load

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// Pest is a client that behaves badly.
type Pest string

// The pests.
const (
	NeverReads   Pest = "never reads"          // asks for data without end and takes no reply
	LargeWrites  Pest = "1 MiB writes"         // sets as much data as the default of jute.maxbuffer lets it, without waiting for replies
	ManyWatches  Pest = "100 000 watches"      // holds them, each on a path of its own
	pestReply         = 16 << 10               // bytes of data that NeverReads asks for
	pestWrite         = 1<<20 - 4<<10          // bytes of data of a LargeWrites
	pestWatches       = 100_000                // of ManyWatches
	pestPatience      = 500 * time.Millisecond // how long a server may refuse to read before NeverReads comes again
)

// Pests are all of them.
var Pests = []Pest{NeverReads, LargeWrites, ManyWatches}

// Pester is one pest until ctx ends. It comes back when it is thrown out. settled is called once it is at its worst. It makes a znode
// root/pest. The error is about the first connection only.
func Pester(ctx context.Context, server string, pest Pest, root string, settled func()) error {
	for first := true; ; first = false {
		err := pesterOnce(ctx, server, pest, root, settled)
		if ctx.Err() != nil {
			return nil
		}
		if first && err != nil && pest != NeverReads {
			return err
		}
		settled = func() {}
	}
}

func pesterOnce(ctx context.Context, server string, pest Pest, root string, settled func()) error {
	c, err := dial(ctx, server, 30*time.Second, 0, nil)
	if err != nil {
		return err
	}
	defer c.drop()
	defer context.AfterFunc(ctx, func() { c.nc.Close() })()
	path := root + "/pest"
	if err := c.create(path, make([]byte, pestReply)); err != nil && !errors.Is(err, proto.ErrNodeExists) {
		return err
	}
	switch pest {
	case NeverReads:
		get, mark := c.begin(nil, proto.OpGetData)
		get = proto.EndFrame(append(proto.AppendString(get, path), 0), mark)
		settled()
		for {
			c.nc.SetWriteDeadline(time.Now().Add(pestPatience))
			if _, err := c.nc.Write(get); err != nil {
				return err
			}
		}
	case LargeWrites:
		data := make([]byte, pestWrite)
		go io.Copy(io.Discard, c.nc) // ends with the connection
		settled()
		for {
			set, mark := c.begin(nil, proto.OpSetData)
			set = proto.AppendInt32(proto.AppendBuffer(proto.AppendString(set, path), data), -1)
			if _, err := c.nc.Write(proto.EndFrame(set, mark)); err != nil {
				return err
			}
		}
	default:
		watch := func(dst []byte, i int) []byte {
			dst, mark := c.begin(dst, proto.OpExists)
			return proto.EndFrame(append(proto.AppendString(dst, path+"/"+strconv.Itoa(i)), 1), mark)
		}
		if err := c.pipeline(pestWatches, watch, func(int, reply) error { return nil }); err != nil {
			return err
		}
		settled()
		for ctx.Err() == nil { // it goes on to live, as clients do
			rest := time.NewTimer(5 * time.Second)
			select {
			case <-ctx.Done():
				rest.Stop()
				return nil
			case <-rest.C:
			}
			if _, err := c.call(proto.OpSync, func(dst []byte) []byte { return proto.AppendString(dst, "/") }); err != nil {
				return err
			}
		}
		return nil
	}
}
