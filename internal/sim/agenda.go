package sim

import "time"

// happening is something that is due at a moment; what is due at the same moment happens in the order in which it was entered.
type happening struct {
	at  time.Duration
	seq uint64
	do  func()
}

// agenda is a heap of happenings, the earliest on top.
type agenda []happening

func (a agenda) before(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}

func (a *agenda) push(h happening) {
	q := append(*a, h)
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.before(i, up) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	*a = q
}

func (a *agenda) pop() happening {
	q := *a
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q[last] = happening{}
	q = q[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q); c++ {
			if q.before(c, least) {
				least = c
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	*a = q
	return top
}
