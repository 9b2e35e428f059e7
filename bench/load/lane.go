package load

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// lane is one connection's part of a run.
type lane struct {
	id     int
	cfg    *Config
	clock  clock
	c      *conn
	data   []byte
	keys   string // path of a key up to its number
	parent string // of the ten children, and of what this lane creates

	ops  atomic.Int64 // replies since the connection began, for progress and for the rate
	want int64        // requests to send; 0: until the run ends

	// The reader's.
	hist   Histogram
	errs   map[proto.ErrCode]int64
	last   time.Duration // when the newest reply came
	failed error

	silence *silence // of all lanes; nil of a closed loop

	created    int64 // creates that were sent
	unanswered int64 // of an open loop, when it was over

	// sent holds when each request in flight was made or due; replies come in that order.
	//
	//	head <= tail <= head + len(sent), a power of two
	sent       []time.Duration
	head, tail atomic.Int64
}

// clock is the run's time: durations since a common start. Phases are fixed before the lanes start.
type clock struct {
	base       time.Time
	begin, end time.Duration // of the measurement
}

func (k *clock) now() time.Duration { return time.Since(k.base) }

func (k *clock) measuring(now time.Duration) bool { return now >= k.begin && now < k.end }

// openWindow bounds how many requests of an open loop may wait on one connection. Beyond it the sender stands still, but what it
// sends late still counts from when it was due.
const openWindow = 1 << 16

// openPatience is how long after its end an open loop waits for answers.
const openPatience = 5 * time.Second

func (l *lane) window(n int) {
	size := 1
	for size < n {
		size *= 2
	}
	l.sent = make([]time.Duration, size)
}

// put adds a request's time. The caller knows that there is room.
func (l *lane) put(at time.Duration) {
	t := l.tail.Load()
	l.sent[int(t)&(len(l.sent)-1)] = at
	l.tail.Store(t + 1)
}

// waiting is how many requests are in flight.
func (l *lane) waiting() int { return int(l.tail.Load() - l.head.Load()) }

// closed runs the closed loop: InFlight requests, and a new one for each reply.
func (l *lane) closed() error {
	l.window(l.cfg.InFlight)
	next := l.maker()
	buf := make([]byte, 0, readChunk)
	now := l.clock.now()
	left := l.want
	more := func(n int) {
		for ; n > 0 && now < l.clock.end && (l.want == 0 || left > 0); n-- {
			buf = next(buf)
			l.put(now)
			left--
		}
	}
	more(l.cfg.InFlight)
	l.c.nc.SetDeadline(l.lastMoment())
	for l.waiting() > 0 {
		if len(buf) > 0 {
			if _, err := l.c.nc.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if err := l.c.fill(); err != nil {
			return err
		}
		now = l.clock.now()
		n, err := l.take(now)
		if err != nil {
			return err
		}
		more(n)
	}
	return nil
}

// lastMoment is when the servers have been silent for too long, whatever happens.
func (l *lane) lastMoment() time.Time {
	if l.want > 0 {
		return time.Now().Add(24 * time.Hour)
	}
	return l.clock.base.Add(l.clock.end + l.cfg.Timeout)
}

// take counts the replies that were read and returns how many there were.
func (l *lane) take(now time.Duration) (n int, err error) {
	head, tail := l.head.Load(), l.tail.Load()
	counts := l.clock.measuring(now)
	for {
		f, ok, err := l.c.ready()
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		r, err := parseReply(f)
		if err != nil {
			return n, err
		}
		if r.xid == proto.XidNotification || r.xid == proto.XidPing {
			continue
		}
		if head == tail {
			return n, errors.New("a reply to nothing")
		}
		if at := l.sent[int(head)&(len(l.sent)-1)]; counts && at < l.clock.end {
			l.hist.Record(now - at)
		}
		head++
		n++
		if r.err != proto.OK {
			l.errs[r.err]++
		}
	}
	if n > 0 {
		l.last = now
		if l.silence != nil && now >= l.clock.begin { // also behind the end, so that a silence which lasts beyond it counts
			l.silence.heard(now)
		}
		l.head.Store(head)
		l.ops.Add(int64(n))
	}
	return n, nil
}

// open runs the open loop: a sender that keeps to the schedule, and a reader.
func (l *lane) open() error {
	l.window(2 * openWindow)
	l.c.nc.SetDeadline(l.clock.base.Add(l.clock.end + openPatience))
	over := make(chan error, 1)
	var stop atomic.Bool
	go func() {
		err := l.send(&stop)
		if err != nil {
			l.c.nc.Close() // wakes the reader
		}
		over <- err
	}()
	err := errors.Join(l.receive(), endSender(&stop, over))
	if errors.Is(err, os.ErrDeadlineExceeded) && l.clock.now() >= l.clock.end {
		l.giveUp()
		return nil
	}
	return err
}

func endSender(stop *atomic.Bool, over <-chan error) error {
	stop.Store(true)
	return <-over
}

// giveUp counts what was due in time and has no answer with the time that it has waited.
func (l *lane) giveUp() {
	now := l.clock.now()
	l.silence.heard(now)
	for at := l.head.Load(); at < l.tail.Load(); at++ {
		if due := l.sent[int(at)&(len(l.sent)-1)]; due >= 0 && due < l.clock.end {
			l.hist.Record(now - due)
			l.unanswered++
		}
	}
}

// send sends each request when it is due, in batches of what is due by then.
func (l *lane) send(stop *atomic.Bool) error {
	next := l.maker()
	every := time.Duration(float64(time.Second) * float64(l.cfg.Conns) / l.cfg.Rate)
	due := every * time.Duration(l.id) / time.Duration(l.cfg.Conns)
	buf := make([]byte, 0, readChunk)
	for due < l.clock.end && !stop.Load() {
		now := l.clock.now()
		buf = buf[:0]
		for due <= now && due < l.clock.end && l.waiting() < openWindow && len(buf) < readChunk {
			buf = next(buf)
			l.put(due)
			due += every
		}
		if len(buf) == 0 {
			time.Sleep(max(due-now, 50*time.Microsecond)) // due, or the window is full
			continue
		}
		if _, err := l.c.nc.Write(buf); err != nil {
			return err
		}
	}
	// A last request without a place in the schedule: when its reply is there, everything is.
	b, mark := l.c.begin(buf[:0], proto.OpExists)
	b = proto.EndFrame(append(proto.AppendString(b, "/"), 0), mark)
	for l.waiting() >= openWindow && !stop.Load() {
		time.Sleep(time.Millisecond)
	}
	l.put(l.clock.end)
	l.put(lastMark)
	_, err := l.c.nc.Write(b)
	return err
}

// lastMark in sent, behind the last request: nothing follows.
const lastMark = time.Duration(-1)

// receive counts replies until the one to the last request.
func (l *lane) receive() error {
	for {
		if err := l.c.fill(); err != nil {
			return fmt.Errorf("%d requests in flight: %w", l.waiting(), err)
		}
		if _, err := l.take(l.clock.now()); err != nil {
			return err
		}
		head := l.head.Load()
		if l.tail.Load() == head+1 && l.sent[int(head)&(len(l.sent)-1)] == lastMark {
			return nil
		}
	}
}

func (l *lane) run() {
	l.errs = map[proto.ErrCode]int64{}
	if l.cfg.Rate > 0 {
		l.failed = l.open()
	} else {
		l.failed = l.closed()
	}
}
