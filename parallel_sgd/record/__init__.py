"""Record of a run: the identity of the processes that trained, and the comparison of a folder with a new computation."""
