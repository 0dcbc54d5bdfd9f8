"""The file of a checkpoint: what comes back, and what is refused with which reason."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import safetensors.numpy

from nn.tensor_files import dump, parse
from parallel_sgd.checkpoint import CheckpointError, Position, Progress, Snapshot
from parallel_sgd.checkpoint.snapshot import FORMAT
from parallel_sgd.checkpoint.state import state_of
from parallel_sgd.progress import History, Stretch
from tests.parallel_sgd.checkpoint.states import content, snapshot

from ...statements import covers


def test_everything_comes_back() -> None:
    made = snapshot(2, 3, loss=None, batch_size=128, batches=11, optimizer="PSGDOptimizer", rule="SGDOptimizer")
    read = Snapshot.read(content(made), job="a-job")
    assert read.header == made.header
    assert read.numbers == made.numbers
    assert {name: (a.dtype, a.tolist()) for name, a in read.arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in made.arrays.items()
    }
    assert read.part("codec").keys() == {"0.up.0,0.residual", "0.age", "1.name", "1.none", "1.on"}
    assert read.header.position == Position(2, 3) and read.header.workers == 2


def test_the_batches_behind_it_come_back() -> None:
    """And a checkpoint that says nothing of them has none."""
    history = History(3, (Stretch(3, 0, 0, 11, (0, 1)), Stretch(4, 1, 0, 3, (1, 1))))
    made = snapshot(progress=Progress(Position(1, 3), 7, 1.5, {}, history))
    read = Snapshot.read(content(made))
    assert read.header == made.header and read.arrays.keys() == made.arrays.keys()
    arrays, metadata = parse(content(made))
    description = json.loads(metadata["snapshot"])
    del description["header"]["progress"]["history"], description["header"]["commit"]
    text = json.dumps(description)
    bare = dump({name: arrays[name] for name in made.arrays}, {"format": FORMAT, "snapshot": text})
    assert Snapshot.read(bare).header.progress.history == History()
    with pytest.raises(CheckpointError, match="its description is malformed: 'history'"):
        Snapshot.read(dump(arrays, {"format": FORMAT, "snapshot": text}))


def test_so_many_batches_come_back() -> None:
    """Where blocks are redundant each batch may have other nodes: a long training still fits into a checkpoint."""
    stretches = tuple(Stretch(0, n // 1000, n % 1000, n % 1000 + 1, (n % 2, 1, 2 + n % 2, 3)) for n in range(60_000))
    made = snapshot(progress=Progress(Position(60, 0), 7, 1.5, {}, History(0, stretches)))
    assert Snapshot.read(content(made)).header.progress.history.stretches == stretches


def test_a_loss_that_is_no_number_comes_back() -> None:
    """A model that diverged is still saved."""
    assert math.isnan(Snapshot.read(content(snapshot(1, loss=math.nan))).header.loss or 0.0)


def test_the_safetensors_library_reads_it() -> None:
    """README of safetensors, "Format": names, types and shapes; our description is metadata."""
    tensors = safetensors.numpy.load(content(snapshot()))
    assert tensors["value/dense_1/kernel"].shape == (5, 3)
    assert tensors["optimizer/rule:momentum"].dtype == np.float64


@covers("INV-5")
@pytest.mark.parametrize("kind", ["empty", "short", "longer"])
def test_other_lengths_are_refused(kind: str) -> None:
    """Truncated anywhere, empty, or with something behind the end."""
    whole = content(snapshot())
    cuts = {"empty": [0], "short": [1, 8, 100, len(whole) // 2, len(whole) - 1], "longer": []}[kind]
    for damaged in [whole[:cut] for cut in cuts] + ([whole + b"\0"] if kind == "longer" else []):
        with pytest.raises(CheckpointError):
            Snapshot.read(damaged)


@covers("FLT-11")
def test_every_flipped_bit_is_refused() -> None:
    """The SHA-256 covers all bytes; one bit in each of 200 places, and in the hash itself."""
    whole = content(snapshot())
    for place in [*range(0, len(whole), max(1, len(whole) // 200)), whole.index(b'"sha256":"') + 12]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(CheckpointError):
            Snapshot.read(bytes(damaged))


def test_other_formats_versions_and_jobs_are_refused() -> None:
    """The reason says what it is and what was expected."""
    tensors, metadata = parse(content(snapshot()))
    fields = {name: text for name, text in metadata.items() if name != "sha256"}
    with pytest.raises(
        CheckpointError, match=r"its format is 'psgd.checkpoint/2', of another version than 'psgd.checkpoint/1'"
    ):
        Snapshot.read(dump(tensors, {**fields, "format": "psgd.checkpoint/2"}))
    with pytest.raises(CheckpointError, match=r"it is no checkpoint: its format is 'psgd.model/2'"):
        Snapshot.read(dump(tensors, {**fields, "format": "psgd.model/2"}))
    with pytest.raises(CheckpointError, match=r"it is of job 'a-job', not of 'another'"):
        Snapshot.read(content(snapshot()), job="another")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("header"),
        lambda d: d["header"].pop("job"),
        lambda d: d["header"].update(surprise=1),
        lambda d: d["header"].update(node="0"),
        lambda d: d["header"].update(personal=1),
        lambda d: d["header"].update(blocks=[["0"]]),
        lambda d: d["header"]["progress"].update(position=[-1, 0]),
        lambda d: d["header"]["progress"].update(position=7),
        lambda d: d["header"]["progress"].update(steps=None),
        lambda d: d["header"]["progress"].update(evaluation={"Loss": "low"}),
        lambda d: d.update(numbers={"codec/0.a": [1]}),
        lambda d: d.update(numbers=3),
    ],
)
def test_a_malformed_description_is_refused(change: object) -> None:
    """Sealed or not: what others wrote is checked field by field."""
    tensors, metadata = parse(content(snapshot()))
    description = json.loads(metadata["snapshot"])
    change(description)  # type: ignore[operator]
    with pytest.raises(CheckpointError, match="its description is malformed"):
        Snapshot.read(dump(tensors, {"format": FORMAT, "snapshot": json.dumps(description)}))


def test_a_state_that_cannot_be_stored_is_named() -> None:
    """Codecs of users may remember anything; what a file cannot hold is an error that says what and where."""
    with pytest.raises(TypeError, match=r"The state 'codec/3.history' must be an array, a number, a text or None .* got list"):
        state_of({"codec": {"3.history": [1, 2]}})
    arrays, numbers = state_of({"codec": {"0.a": np.float32(0.1), "0.b": np.zeros(()), "0.c": np.int64(3)}})
    assert numbers == {"codec/0.a": float(np.float32(0.1)), "codec/0.c": 3} and arrays["codec/0.b"].shape == ()
