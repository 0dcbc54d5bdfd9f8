"""Masked arrays in a job: a data set or a transform that gives some is refused before anything is trained."""

from pathlib import Path

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.dataset.interface import Arrays
from parallel_sgd import ParallelSGD, in_process


class Grid(nn.dataset.AbsDataset):
    """Numbers, of which one may be masked."""

    def __init__(self, masked: bool) -> None:
        self.masked = masked

    def load(self, download: bool = True) -> Arrays:
        x = np.arange(64.0).reshape(32, 2)
        y = np.arange(32) % 2
        return np.ma.masked_equal(x, 7) if self.masked else x, y, x, y


class Masking(nn.dataset.transforms.AbsTransformer):
    """Masks a number."""

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        return np.ma.masked_equal(train_x, 7), train_y, test_x, test_y


@pytest.mark.parametrize("transform", [None, Masking()])
def test_what_masks_numbers_starts_no_training(transform: Masking | None, tmp_path: Path) -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    steps = () if transform is None else (transform,)
    with in_process(2) as nodes, pytest.raises(ValueError, match="must not be masked, got 1 masked of 64 numbers"):
        ParallelSGD(model, Grid(masked=transform is None), *steps).parallel(nodes, block_size=4, epoch=1, directory=tmp_path)
