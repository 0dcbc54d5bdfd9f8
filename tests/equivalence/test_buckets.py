"""Jobs that deal sequences by their lengths: the bits do not depend on the workers, and one block is what `fit` computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.dataset import ArrayDataset
from nn.dataset.transforms import Buckets, Shuffle
from nn.model.runner import Runner
from nn.random import keyed
from parallel_sgd import Clients, ParallelSGD, in_process
from parallel_sgd.profiles import FixedBlockAssignment

LONGEST, LIMITS, SAMPLES = 10, [2, 4, 7], 61


def texts() -> tuple[Any, Any]:
    draw = keyed(0, "texts")
    ids = [draw.integers(1, 9, length) for length in draw.integers(1, LONGEST + 1, SAMPLES)]
    return nn.dataset.pad_sequences(ids, LONGEST, padding="post"), draw.integers(0, 2, (SAMPLES, 1)).astype(np.float32)


def reader() -> Any:
    layers = [nn.layer.Embedding(9, 4, mask_zero=True), nn.layer.GRU(3), nn.layer.Dropout(0.2), nn.layer.Dense(1, "sigmoid")]
    model = nn.model.SequentialModel([-1, None], layers, seed=4)
    model.compile("sgd", "binary_crossentropy")
    return model


def trained(workers: int, blocks: int, folder: Path, size: int = 4, **options: Any) -> list[Any]:
    x, y = texts()
    with in_process(workers) as nodes:
        result = ParallelSGD(reader(), ArrayDataset(x, y, x[:8], y[:8]), Shuffle().add(Buckets(LIMITS))).parallel(
            nodes,
            epoch=2,
            block_size=size,
            assignment_type=FixedBlockAssignment.of(blocks),
            gd_type="sgd",
            directory=folder,
            **options,
        )
    weights: list[Any] = result.models[0].get_weights()
    return weights


def test_bits_do_not_depend_on_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: set[int] = set()
    step = Runner.step

    def noted(self: Any, x: Any, *rest: Any, **more: Any) -> Any:
        lengths.add(x[0].shape[1])
        return step(self, x, *rest, **more)

    monkeypatch.setattr(Runner, "step", noted)
    alone = trained(1, 4, tmp_path / "alone")
    assert lengths == {*LIMITS, LONGEST}
    several = trained(2, 4, tmp_path / "several")
    assert all(np.array_equal(one, other) for one, other in zip(alone, several, strict=True))


def test_one_block_is_what_fit_computes(tmp_path: Path) -> None:
    found = trained(1, 1, tmp_path, 16, seed=7)
    x, y = texts()
    model = reader()
    order = keyed(7, "shuffle").permutation(SAMPLES)
    model.compile(nn.gradient_descent.SGDOptimizer())
    model.fit(x[order], y[order], epochs=2, batch_size=16, seed=7, buckets=LIMITS, verbose=0)
    for one, other in zip(found, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_a_job_cannot_cut_is_refused(tmp_path: Path) -> None:
    x, y = texts()
    closed = nn.model.SequentialModel([-1, LONGEST], [nn.layer.Dense(1, "sigmoid")])
    closed.compile("sgd", "binary_crossentropy")
    with in_process(2) as nodes:
        with pytest.raises(ValueError, match=r"'transform' Buckets cuts sequences, so .* \[-1, None, \.\.\.\], got \(-1, 10\)"):
            ParallelSGD(closed, ArrayDataset(x, y, x, y), Buckets(LIMITS)).parallel(nodes, block_size=4)
        with pytest.raises(
            ValueError, match="'transform' Buckets deals samples by their lengths, and 'clients' by their owners"
        ):
            ParallelSGD(reader(), ArrayDataset(x, y, x, y), Buckets(LIMITS)).parallel(
                nodes, block_size=4, clients=Clients(6, sample=2)
            )
