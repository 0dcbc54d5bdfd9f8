"""Data sets: what a data set is, the built-in ones, and (in `transforms`) what may be done to them before training."""

from nn.dataset import transforms
from nn.dataset.array import ArrayDataset
from nn.dataset.character_text import CharacterText
from nn.dataset.checksum import checksum_of
from nn.dataset.cifar import CIFAR10, CIFAR100
from nn.dataset.csv_dataset import CSVDataset
from nn.dataset.digits import Digits
from nn.dataset.fashion_mnist import FashionMNIST
from nn.dataset.interface import AbsDataset
from nn.dataset.kmnist import KMNIST
from nn.dataset.mnist import MNIST
from nn.dataset.npz_dataset import NpzDataset
from nn.dataset.published import PublishedDataset
from nn.dataset.sim_data import SimData

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
