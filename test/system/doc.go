// Package system tests real zkd processes: it builds the binary, starts servers from zoo.cfg files on loopback, lets clients work, and
// kills, stops and wipes servers meanwhile. Each test prints what it saw. ZKD_LONG=1 runs the longer forms.
package system
