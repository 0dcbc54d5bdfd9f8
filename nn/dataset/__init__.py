"""Data sets: their base class, the built-in ones, and (in `transforms`) changes of their samples before training."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.dataset import idx, plan, transforms
    from nn.dataset.array import ArrayDataset
    from nn.dataset.byte_pairs import BytePairs
    from nn.dataset.character_text import CharacterText
    from nn.dataset.cifar import CIFAR as CIFAR  # the name of CIFAR10 in version 0.9
    from nn.dataset.cifar import CIFAR10, CIFAR100
    from nn.dataset.clients import LEAF, ClientDataset, ClientFolders, SyntheticClients
    from nn.dataset.csv_dataset import CSVDataset
    from nn.dataset.files import PublishedDataset
    from nn.dataset.folders import ImageFolder, TextFolder
    from nn.dataset.interface import AbsDataset, checksum_of
    from nn.dataset.mnist import KMNIST, MNIST, FashionMNIST
    from nn.dataset.npz import NpzDataset
    from nn.dataset.padding import pad_sequences
    from nn.dataset.plan import Plan
    from nn.dataset.token_text import TokenText
    from nn.dataset.toy import Digits, SimData

__all__ = [
    "CIFAR10", "CIFAR100", "KMNIST", "LEAF", "MNIST", "AbsDataset", "ArrayDataset", "BytePairs", "CSVDataset", "CharacterText",
    "ClientDataset", "ClientFolders", "Digits", "FashionMNIST", "ImageFolder", "NpzDataset", "Plan", "PublishedDataset",
    "SimData", "SyntheticClients", "TextFolder", "TokenText", "checksum_of", "idx", "pad_sequences", "plan", "transforms",
]  # fmt: skip
lazily(__name__, {
    "array": "ArrayDataset", "byte_pairs": "BytePairs", "character_text": "CharacterText", "cifar": "CIFAR CIFAR10 CIFAR100",
    "clients": "LEAF ClientDataset ClientFolders SyntheticClients", "csv_dataset": "CSVDataset",
    "files": "PublishedDataset", "folders": "ImageFolder TextFolder", "idx": "idx", "interface": "AbsDataset checksum_of",
    "mnist": "KMNIST MNIST FashionMNIST", "npz": "NpzDataset", "padding": "pad_sequences", "plan": "Plan plan",
    "token_text": "TokenText", "toy": "Digits SimData", "transforms": "transforms",
})  # fmt: skip
