"""Benchmarks: what the scheduler costs, alone and on a real API server."""
