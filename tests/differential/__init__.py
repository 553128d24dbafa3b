"""Our scheduler beside kube-scheduler, on random clusters."""
