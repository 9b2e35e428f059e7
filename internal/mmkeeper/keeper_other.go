//go:build !linux || !amd64

package mmkeeper

import "errors"

// Start does nothing here.
func Start() (pid int, err error) { return 0, errors.ErrUnsupported }

// End has nothing to end here.
func End(int) {}
