"""Data sets: what a data set is, the built-in ones, and (in `transforms`) what may be done to them before training."""

from nn.dataset.array import ArrayDataset
from nn.dataset.checksum import checksum_of
from nn.dataset.digits import Digits
from nn.dataset.interface import AbsDataset
from nn.dataset.mnist import MNIST

__all__ = ["MNIST", "AbsDataset", "ArrayDataset", "Digits", "checksum_of"]
