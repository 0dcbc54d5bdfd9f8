"""Data sets: what a data set is, the built-in ones, and (in `transforms`) what may be done to them before training."""

from nn.dataset import transforms
from nn.dataset.array import ArrayDataset
from nn.dataset.character_text import CharacterText
from nn.dataset.cifar import CIFAR10, CIFAR100
from nn.dataset.csv_dataset import CSVDataset
from nn.dataset.files import PublishedDataset
from nn.dataset.interface import AbsDataset, checksum_of
from nn.dataset.mnist import KMNIST, MNIST, FashionMNIST
from nn.dataset.npz import NpzDataset
from nn.dataset.toy import Digits, SimData

CIFAR = CIFAR10  # its name in version 0.9

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "AbsDataset",
    "ArrayDataset",
    "CSVDataset",
    "CharacterText",
    "Digits",
    "FashionMNIST",
    "NpzDataset",
    "PublishedDataset",
    "SimData",
    "checksum_of",
    "transforms",
]
