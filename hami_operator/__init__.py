"""hami-operator: shares GPUs and other AI accelerators between pods, over the HAMi protocol."""

__version__ = "0.1.0"
