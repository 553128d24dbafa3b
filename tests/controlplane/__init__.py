"""A real etcd, kube-apiserver and friends for tests: built from Go modules, on free ports."""
