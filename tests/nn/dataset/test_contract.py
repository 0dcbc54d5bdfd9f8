"""What holds for every data set; a new kind needs a row in `ROWS`."""

import json
import re

import numpy as np
import pytest

import nn.dataset
from nn.dataset import (
    CIFAR10,
    CIFAR100,
    KMNIST,
    MNIST,
    AbsDataset,
    ArrayDataset,
    CharacterText,
    CSVDataset,
    Digits,
    FashionMNIST,
    NpzDataset,
    SimData,
    checksum_of,
)
from tests.contract.kinds import public_kinds

from .cifar_files import members
from .idx_files import put, small_mnist


def csv_file(folder):
    put(folder, {"table.csv": b"a,b,kind\n1,2,0\n3,4,1\n5,6,1\n"})
    return folder / "table.csv"


def npz_file(folder):
    np.savez(folder / "arrays.npz", x=np.ones((4, 2)), y=[0, 1, 1, 0])
    return folder / "arrays.npz"


def text_file(folder):
    put(folder, {"proverb.txt": "Übung macht den Meister, wie man so sagt, und es stimmt.".encode()})
    return folder / "proverb.txt"


ROWS = {
    ArrayDataset: lambda folder: ArrayDataset(np.ones((4, 2)), [0, 1, 1, 0], np.ones((1, 2)), [1]),
    Digits: lambda folder: Digits(),
    MNIST: lambda folder: MNIST(put(folder / "mnist", small_mnist())),
    FashionMNIST: lambda folder: FashionMNIST(put(folder / "fashionmnist", small_mnist())),
    KMNIST: lambda folder: KMNIST(put(folder / "kmnist", small_mnist())),
    CIFAR10: lambda folder: CIFAR10(put(folder / "cifar10", members(CIFAR10))),
    CIFAR100: lambda folder: CIFAR100(put(folder / "cifar100", members(CIFAR100)), labels="coarse"),
    SimData: lambda folder: SimData("classification", samples=9, features=2, noise=0.1, test_samples=3),
    CSVDataset: lambda folder: CSVDataset(csv_file(folder), label="kind"),
    NpzDataset: lambda folder: NpzDataset(npz_file(folder), test_fraction=0.25),
    CharacterText: lambda folder: CharacterText(text_file(folder), length=4, stride=2),
}
SAMPLES_ARE_ARGUMENTS = {ArrayDataset}


@pytest.fixture(params=ROWS, ids=lambda kind: kind.__name__)
def data(request, tmp_path):
    return ROWS[request.param](tmp_path)


def test_every_kind_has_a_row_and_is_exported():
    kinds = public_kinds(AbsDataset, nn.dataset)
    assert kinds == set(ROWS)
    assert {kind.__name__ for kind in kinds} <= set(nn.dataset.__all__)


def test_four_arrays_that_belong_together(data):
    train_x, train_y, test_x, test_y = data.load(download=False)
    assert len(train_x) == len(train_y) > 0
    assert len(test_x) == len(test_y) > 0
    assert train_x.shape[1:] == test_x.shape[1:]
    assert train_y.shape[1:] == test_y.shape[1:]
    assert train_x.dtype == test_x.dtype


def test_loading_again_gives_the_same(data):
    first, second = data.load(), data.load()
    assert all(np.array_equal(left, right) for left, right in zip(first, second, strict=True))


def test_the_checksum_is_that_of_what_load_returns(data):
    assert re.fullmatch("[0-9a-f]{64}", data.checksum())
    assert data.checksum() == checksum_of(data.load())


def test_the_name_can_be_a_directory(data):
    assert re.fullmatch("[a-z0-9]+", data.name)


def test_the_configuration_builds_an_equal_data_set(data):
    config = data.get_config()
    if type(data) in SAMPLES_ARE_ARGUMENTS:
        assert config == {}
    else:
        assert type(data)(**config).checksum() == data.checksum()
        assert type(data)(**config).get_config() == config
        assert json.loads(json.dumps(config)) == config
