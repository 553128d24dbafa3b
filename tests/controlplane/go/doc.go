// Package controlplane has no code of its own: go.mod names the servers that the tests run on.
package controlplane
