"""How a cluster stands, seen from here and from each of its workers: `worker.py --doctor`."""
