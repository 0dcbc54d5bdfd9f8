"""Layers that change images at random, in jobs: any number of workers trains to the same bits, and each step draws anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nn.dataset import ArrayDataset
from nn.layer import Conv2D, Dense, Flatten, RandomContrast, RandomCrop, RandomFlip, RandomRotation, RandomTranslation
from nn.model import SequentialModel
from nn.random import keyed
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.codec.plain import Plain
from parallel_sgd.profiles import FixedBlockAssignment

IMAGES = keyed(0, "random layers").random((80, 6, 6, 1), dtype=np.float32)
KINDS = np.arange(80) % 3


def model() -> Any:
    changes = [
        RandomFlip(),
        RandomRotation(0.2),
        RandomTranslation(0.2, 0.2, "constant"),
        RandomContrast(0.3, (0, 1)),
        RandomCrop(5, 5),
    ]
    made: Any = SequentialModel(
        [-1, 6, 6, 1], [*changes, Conv2D(3, 3, activation="relu"), Flatten(), Dense(3, "softmax")], seed=5
    )
    made.compile("adam", "crossentropy")
    return made


def test_any_number_of_workers_trains_to_the_same_bits(tmp_path: Path) -> None:
    def run(count: int) -> bytes:
        result = ParallelSGD(model(), ArrayDataset(IMAGES, KINDS, test_fraction=0.2)).parallel(
            in_process(count),
            codec=Plain,
            epoch=2,
            block_size=8,
            assignment_type=FixedBlockAssignment.of(blocks=4),
            seed=7,
            directory=tmp_path / str(count),
        )
        return b"".join(each.store.values.tobytes() for each in result.models.values())[: result.models[0].store.values.nbytes]

    assert len({run(count) for count in (1, 2, 4)}) == 1


def test_each_step_draws_anew_and_predictions_do_not() -> None:
    made = model()
    losses = [made.compute_gradients(IMAGES, KINDS, key=(1, 0, batch, 0))[0] for batch in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    assert np.array_equal(made.predict(IMAGES), made.predict(IMAGES))
