package server

import "github.com/zkd-project/zkd/statemachine"

// Clear makes the state that of the empty history: a start that found no usable snapshot begins here.
func (r *Replica) Clear() error {
	fresh := statemachine.New(r.machineCfg)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine = fresh
	return nil
}
