"""Simulated nodes: the workers of a job in this process, on one clock, over a network that may take time."""
