"""Where samples come from: feeders of batches, and the cache of data sets by checksum on a worker's disk."""

from nn.data.feeder import DataFeeder
from nn.data.store import load_arrays, save_arrays

__all__ = ["DataFeeder", "load_arrays", "save_arrays"]
