"""Doctor of a cluster: its state, seen from here and from each of its workers: `psgd doctor`."""
