package sim

import (
	"errors"
	"strconv"
	"strings"
)

// parser takes a schedule part by part: settings, steps, and repeats, which it unrolls.
type parser struct {
	sc    *Scenario
	known map[string]setting
	loop  *repeat
}

// repeat is "repeat NAME FROM TO … end": the lines between are taken once for each number, which stands where they say $NAME.
type repeat struct {
	name     string
	from, to int
	depth    int // of repeats inside
	body     []string
}

func newRepeat(f []string) (*repeat, error) {
	if len(f) != 4 {
		return nil, errors.New("repeat wants NAME FROM TO")
	}
	from, err := strconv.Atoi(f[2])
	if err != nil {
		return nil, err
	}
	to, err := strconv.Atoi(f[3])
	return &repeat{name: f[1], from: from, to: to}, err
}

func (p *parser) take(part string) (err error) {
	f := strings.Fields(part)
	switch {
	case len(f) == 0:
		return nil
	case p.loop == nil && f[0] == "repeat":
		p.loop, err = newRepeat(f)
		return err
	case p.loop == nil:
		return p.sc.line(f, p.known)
	case f[0] == "repeat":
		p.loop.depth++
	case f[0] == "end" && p.loop.depth > 0:
		p.loop.depth--
	case f[0] == "end":
		return p.unroll()
	}
	p.loop.body = append(p.loop.body, part)
	return nil
}

func (p *parser) unroll() error {
	r := p.loop
	p.loop = nil
	for i := r.from; i <= r.to; i++ {
		for _, part := range r.body {
			if err := p.take(strings.ReplaceAll(part, "$"+r.name, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
	return nil
}
