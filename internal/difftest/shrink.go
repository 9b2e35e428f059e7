package difftest

import "slices"

// shrink returns a short part of steps for which fails still holds: delta debugging. It asks fails at most budget times.
func shrink(steps []step, budget int, fails func([]step) bool) []step {
	for size := max(1, len(steps)/2); ; {
		shorter := false
		for from := 0; from < len(steps) && budget > 0; {
			less := slices.Delete(slices.Clone(steps), from, min(from+size, len(steps)))
			budget--
			if len(less) > 0 && fails(less) {
				steps, shorter = less, true
			} else {
				from += size
			}
		}
		switch {
		case budget == 0 || size == 1 && !shorter:
			return steps
		case size > 1:
			size = max(1, size/4)
		}
	}
}

// shrinkBursts takes single requests out of bursts, in the same way.
func shrinkBursts(steps []step, budget int, fails func([]step) bool) []step {
	for i := range steps {
		for j := len(steps[i].requests) - 1; j >= 0 && len(steps[i].requests) > 1 && budget > 0; j-- {
			less := slices.Clone(steps)
			less[i].requests = slices.Delete(slices.Clone(steps[i].requests), j, j+1)
			budget--
			if fails(less) {
				steps = less
			}
		}
	}
	return steps
}
