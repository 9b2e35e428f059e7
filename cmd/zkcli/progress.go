package main

import (
	"fmt"
	"sync"
	"time"
)

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress shows on a terminal how far a command is that takes longer than a second.
type progress struct {
	sh    *shell
	what  string
	total int // 0 if unknown
	began time.Time

	mu    sync.Mutex
	done  int
	stop  chan struct{}
	ended chan struct{}
}

// progress starts to count towards total. end has to be called.
func (sh *shell) progress(what string, total int) *progress {
	p := &progress{sh: sh, what: what, total: total, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if _, tty := terminalOf(sh.screen.err); !tty {
		close(p.ended)
		return p
	}
	go p.run()
	return p
}

// add counts n more.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

func (p *progress) end() {
	close(p.stop)
	<-p.ended
}

func (p *progress) run() {
	defer close(p.ended)
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	shown := false
	for {
		select {
		case <-wait.C:
			p.mu.Lock()
			line := progressLine(p.what, p.done, p.total, time.Since(p.began))
			p.mu.Unlock()
			p.sh.screen.stderr("\r" + line + "\x1b[K")
			shown = true
			wait.Reset(progressEvery)
		case <-p.stop:
			if shown {
				p.sh.screen.stderr("\r\x1b[K")
			}
			return
		}
	}
}

// progressLine is "copied 1200 of 5000, 24%, 400/s, 9s left".
func progressLine(what string, done, total int, took time.Duration) string {
	rate := float64(done) / took.Seconds()
	line := fmt.Sprintf("%s %d", what, done)
	if total > 0 {
		line += fmt.Sprintf(" of %d, %d%%", total, done*100/total)
	}
	line += fmt.Sprintf(", %.0f/s", rate)
	if total > done && rate > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		line += ", " + left.Round(time.Second).String() + " left"
	}
	return line
}
