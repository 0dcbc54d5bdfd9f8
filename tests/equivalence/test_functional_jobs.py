"""Models of several inputs and outputs in jobs: any number of workers, in one process or several, trains to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.data import load_arrays, save_arrays
from nn.dataset import ArrayDataset
from nn.dataset.interface import leaves, of_leaves
from nn.dataset.transforms import AbsTransformer, Normalize, Shuffle
from nn.layer import BatchNorm, Concatenate, Dense, Dropout
from nn.model import Model
from nn.random import keyed
from parallel_sgd import JobResult, ParallelSGD, in_process, local_workers
from parallel_sgd.codec.plain import Plain
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.record.kept_data import keep, load_kept

DRAW = keyed(0, "jobs")
TITLE, BODY = DRAW.random((150, 6), np.float32), DRAW.random((150, 5))
LABELS = {"urgent": TITLE[:, :1] > 0.5, "kind": (BODY[:, 0] * 3).astype(np.int64)}


def data(**other: Any) -> ArrayDataset:
    return ArrayDataset({"body": BODY, "title": TITLE}, {**LABELS, **other}, test_fraction=0.2)


def two() -> Model:
    """Return a model with an output that goes on, a penalty of activations, noise, and statistics."""
    title, body = nn.Input([-1, 6], name="title"), nn.Input([-1, 5], name="body")
    hidden = Dense(4, "tanh")(title)
    x = BatchNorm()(Concatenate()([hidden, Dropout(0.2)(Dense(4, "tanh")(body))]))
    urgent = Dense(1, "sigmoid", name="urgent")(x + nn.function.normal(x) * 0.1)
    model: Any = Model([title, body], [urgent, Dense(3, "softmax", name="kind")(Concatenate()([x, urgent]))], seed=5)
    model.add_loss((hidden**2).sum(axis=1) * 0.01)
    losses = ["binary_crossentropy", "categorical_crossentropy"]
    model.compile(nn.gradient_descent.ADAMOptimizer(0.02), losses, ["accuracy"], loss_weights=[0.3, 1])
    made: Model = model
    return made


def run(nodes: Any, folder: Path, **options: Any) -> JobResult:
    job = ParallelSGD(two(), data(), Shuffle())
    settings = {"codec": Plain, "epoch": 2, "block_size": 8, "assignment_type": FixedBlockAssignment.of(blocks=4), "seed": 7}
    return job.parallel(nodes, directory=folder, **{**settings, **options})


def bits(result: JobResult) -> set[bytes]:
    return {model.store.values.tobytes() + model.store.buffer_values.tobytes() for model in result.models.values()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> JobResult:
    with in_process(1) as nodes:
        return run(nodes, tmp_path_factory.mktemp("alone"))


NAMES = ["Loss", "urgent_Loss", "kind_Loss", "urgent_accuracy", "kind_accuracy"]


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bits(workers: int, alone: JobResult, tmp_path: Path) -> None:
    with in_process(workers) as nodes:
        result = run(nodes, tmp_path)
    assert list(result) == NAMES
    assert bits(result) == bits(alone)
    assert dict(result) == dict(alone)
    assert bits(alone) != {two().store.values.tobytes()}


@pytest.mark.processes
def test_two_workers_of_their_own_give_the_same_bits(alone: JobResult, tmp_path: Path) -> None:
    with local_workers(2) as nodes:
        result = run(nodes, tmp_path)
    assert bits(result) == bits(alone)
    assert dict(result) == dict(alone)
    (steps,) = [path for path in result.files[0] if path.name.startswith("TR-")]
    assert [name in steps.read_text().splitlines()[0] for name in NAMES] == [True] * 5


def test_a_data_set_by_name_is_kept_and_found_again(tmp_path: Path) -> None:
    arrays = data().load()
    assert arrays[0].dtype.names == ("body", "title")
    (tmp_path / "cache").mkdir()
    save_arrays(tmp_path / "cache", arrays)
    found = load_arrays(tmp_path / "cache", data().checksum())
    assert found is not None
    kept = load_kept(tmp_path / keep(tmp_path, data().load(), 1.0).file, None)
    for others in (found, kept.load(), of_leaves(leaves(arrays))):
        assert [other.dtype for other in others] == [array.dtype for array in arrays]
        assert all(map(np.array_equal, others, arrays))
    assert kept.checksum() == data().checksum()
    changed = data(kind=(BODY[:, 0] * 3).astype(np.int64) + 1)
    assert changed.checksum() != data().checksum()
    assert changed.row_checksums()["train_x"] == data().row_checksums()["train_x"]


def renamed() -> ArrayDataset:
    return ArrayDataset({"titel": TITLE, "body": BODY}, LABELS)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (renamed, ValueError, "'model' does not take train_x of the job: .* for each of title, body, got none for 'title'"),
        (lambda: data(kind=np.full(150, 3)), ValueError, "'model' does not go with train_y .* output 'kind': .* lie in 0..2"),
        (lambda: ArrayDataset({"title": TITLE, "body": BODY}, {"urgent": LABELS["urgent"]}), ValueError, "got none for 'kind'"),
        (lambda: ArrayDataset({"title": TITLE, "body": np.where(BODY > 0.99, np.nan, BODY)}, LABELS), ValueError,
         r"sample \d+ has nan at (train|test)_x\['body'\]"),
        (lambda: ArrayDataset({"title": TITLE, "body": BODY[:9]}, LABELS), ValueError,
         r"ArrayDataset 'x' must hold as many rows for each name, got shape \(150, 6\) for 'title' and \(9, 5\) for 'body'"),
        (lambda: ArrayDataset({"a/b": TITLE}, LABELS), ValueError, "must have texts without '/' as names, got 'a/b'"),
        (lambda: ArrayDataset({}, LABELS), ValueError, "must hold at least one array by name, got none"),
        (lambda: ArrayDataset({"title": TITLE.astype(str)}, LABELS), TypeError, r"'x\['title'\]' must hold booleans"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_refused(
    given: Callable[[], ArrayDataset], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text), in_process(1) as nodes:
        ParallelSGD(two(), given()).parallel(nodes, epoch=1, block_size=8, directory=tmp_path)


def test_a_transform_of_one_array_says_that_it_is_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Normalize takes samples and labels of one array each, got parts body, title; "):
        job = ParallelSGD(two(), data(), Shuffle().add(Normalize()))
        job.parallel(in_process(1), epoch=1, block_size=8, directory=tmp_path)


class Halved(AbsTransformer):
    """A transform of one part, as a program writes it."""

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Any:
        train_x, test_x = train_x.copy(), test_x.copy()
        parts: Any = train_x, test_x
        for part in parts:
            part["title"] *= 0.5
        return train_x, train_y, test_x, test_y


def test_a_transform_of_one_part(tmp_path: Path) -> None:
    first = ParallelSGD(two(), data(), Halved()).parallel(in_process(2), epoch=1, block_size=8, directory=tmp_path, seed=7)
    halves = ArrayDataset({"body": BODY, "title": TITLE * np.float32(0.5)}, LABELS, test_fraction=0.2)
    second = ParallelSGD(two(), halves).parallel(in_process(2), epoch=1, block_size=8, directory=tmp_path, seed=7)
    assert bits(first) == bits(second)


def test_common_tables_have_the_columns_of_a_workers_own(tmp_path: Path) -> None:
    """Past 16 workers in equal states: those of the losses of each output, too."""
    title = nn.Input([-1, 6], name="title")
    model: Any = Model(title, {"urgent": Dense(1, "sigmoid")(title), "kind": Dense(3, "softmax")(title)}, seed=5)
    model.setup({"urgent": "binary_crossentropy", "kind": "categorical_crossentropy"}, {"kind": "accuracy"})
    data = ArrayDataset({"title": TITLE}, LABELS, test_fraction=0.2)
    ParallelSGD(model, data).parallel(in_process(18), codec=Plain, epoch=1, block_size=2, directory=tmp_path)
    own, common = ((tmp_path / "runs" / "P-SGD-1" / "Node-0-Retrieve" / name).read_text("utf-8").splitlines() for name in
                   ("TR-P-SGD-N(0).csv", "TR-P-SGD.csv"))  # fmt: skip
    assert common[0] == f"{own[0]},Node" and {line.count(",") for line in common} == {common[0].count(",")}
