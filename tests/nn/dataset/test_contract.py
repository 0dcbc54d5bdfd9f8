"""What holds for every data set; a new kind needs a row in `ROWS`."""

import re

import numpy as np
import pytest

import nn.dataset
from nn.dataset import MNIST, AbsDataset, ArrayDataset, Digits, checksum_of

from .idx_files import put, small_mnist
from .kinds import public_kinds

ROWS = {
    ArrayDataset: lambda folder: ArrayDataset(np.ones((4, 2)), [0, 1, 1, 0], np.ones((1, 2)), [1]),
    Digits: lambda folder: Digits(),
    MNIST: lambda folder: MNIST(put(folder / "mnist", small_mnist())),
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
