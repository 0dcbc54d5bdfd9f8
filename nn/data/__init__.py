"""Samples on a worker's disk: the cache of data sets by checksum."""

from nn.data.store import load_arrays, save_arrays

__all__ = ["load_arrays", "save_arrays"]
