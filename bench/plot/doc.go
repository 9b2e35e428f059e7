// Package plot draws two kinds of charts as SVG, without any library: bars in groups and lines through points, both on axes that may
// be logarithmic. The text is the viewer's own sans-serif; colours are told apart by everybody and on white and dark pages alike.
package plot
