package server

import "github.com/zkd-project/zkd/statemachine"

// Clear makes the state that of the empty history: a start that found no usable snapshot begins here.
func (r *Replica) Clear() error {
	fresh := statemachine.New(r.machineCfg)
	if r.starting {
		fresh.Postpone()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine = fresh
	return nil
}

// Begin says that a start begins: until Ready nobody reads the state, waits for it or watches it.
func (r *Replica) Begin() { r.starting = true }

// Ready ends the start.
func (r *Replica) Ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting = false
	r.machine.Settle()
	r.awaitOrder(r.machine)
}

// awaitOrder has those who asked for lists too early answered when the order of m's znodes is there.
func (r *Replica) awaitOrder(m *statemachine.Machine) {
	ended := m.Filling()
	if ended == nil {
		return
	}
	go func() {
		ended(true)
		for _, c := range r.reg.attached() {
			c.goOn()
		}
	}()
}
