package quorum

import "time"

// random is splitmix64: enough for jitter, and the same from the same seed everywhere.
type random struct{ state uint64 }

func newRandom(seed uint64) random { return random{state: seed} }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// around returns d moved by up to a quarter in either direction.
func (r *random) around(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d - d/4 + time.Duration(r.next()%uint64(d/2+1))
}
