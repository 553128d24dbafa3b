// Package controlplane has no code of its own: go.mod names the servers that the tests run on, and the
// folder oracle is a program on the packages of one of them.
package controlplane
