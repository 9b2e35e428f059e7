package chaos

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// rot flips a bit in some file of a running server's log and snapshots. It reports whether there was one to flip. The page at the end of a
// log is left alone, for the server may be writing it.
func (p *process) rot(rng *rand.Rand) bool {
	var files []string
	_ = filepath.WalkDir(filepath.Join(p.data, "zkd"), func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err == nil && !d.IsDir() && (strings.HasPrefix(name, "log.") || strings.HasPrefix(name, "snap.")) && !strings.Contains(path, "damaged.") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return false
	}
	f, err := os.OpenFile(files[rng.IntN(len(files))], os.O_RDWR, 0)
	if err != nil {
		return false // it is gone meanwhile
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	size := int64(len(content))
	if strings.HasPrefix(filepath.Base(f.Name()), "log.") {
		size = int64(len(bytes.TrimRight(content, "\x00"))) &^ 4095
	}
	if err != nil || size == 0 {
		return false
	}
	at, bit := rng.Int64N(size), byte(1)<<rng.IntN(8)
	done, err := flip(f.Name(), at, bit)
	require.NoError(p.t, err)
	return done
}

// flip inverts one bit of a file; false if that is gone. A log is read and written past the page cache, where the file system can, a whole page at
// a time: servers write it so, and a page that this test made dirty would collide with that, not only if it were the same page, since the cache may keep
// many as one. The kernel would tell the server of an error, which a disk that rots does not.
func flip(name string, at int64, bit byte) (bool, error) {
	const page = 4096
	flags, first, b := os.O_RDWR, at, make([]byte, 1)
	if strings.HasPrefix(filepath.Base(name), "log.") {
		flags |= syscall.O_DIRECT
		first, b = at&^(page-1), make([]byte, 2*page)
		b = b[page-int(uintptr(unsafe.Pointer(&b[0]))%page):][:page] // aligned in memory, too
	}
	f, err := os.OpenFile(name, flags, 0)
	if errors.Is(err, syscall.EINVAL) {
		f, err = os.OpenFile(name, os.O_RDWR, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.ReadAt(b, first); err != nil {
		return false, nil // cut short meanwhile
	}
	b[at-first] ^= bit
	_, err = f.WriteAt(b, first)
	return err == nil, err
}

// One server's disk rots under it, log and snapshots, the newest too. It goes on, and neither it nor anybody whom it sends something to, as a
// leader too, ever has another tree; killed, it comes back.
func TestADiskThatRotsUnderAServer(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("ZKD_SEED"), 10, 64); err == nil {
		seed = s
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	e := newEnsemble(t, layout{voters: 3}, append([]string{"zkd.scrubInterval=1000"}, tiny...)...)
	e.start()
	w := startWorkload(t, e, seed)
	p, flipped := e.procs[rng.IntN(3)], 0
	for i := range rounds(4, 40) {
		for range 10 {
			if p.rot(rng) {
				flipped++
			}
			pause(nil, time.Duration(rng.IntN(60))*time.Millisecond)
		}
		require.True(t, p.running(), "seed %d", seed)
		switch i % 4 {
		case 0:
			p.kill()
			p.start()
		case 1: // whoever comes back empty may be sent what has rotted
			x := e.procs[(p.i+1)%3]
			x.kill()
			x.wipe()
			x.start()
		case 2:
			p.stop()
			p.start()
		default:
			e.leader().stop()
			for _, x := range e.procs {
				if !x.running() {
					x.start()
				}
			}
		}
		e.waitServing()
		if _, ok := w.goesOn(patience); !ok {
			t.Fatalf("no writes; seed %d", seed)
		}
	}
	w.finish()
	t.Logf("saw: %d bits flipped, %d writes acknowledged; seed %d", flipped, w.h.acked.Load(), seed)
}
