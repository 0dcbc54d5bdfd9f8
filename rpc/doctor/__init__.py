"""Doctor of a cluster: its state, seen from here and from each of its workers: `worker.py --doctor`."""
