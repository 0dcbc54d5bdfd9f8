"""Callbacks of a job: the same decisions on every worker, whatever their number, when a job goes on, and what they leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.callback import Callback, CSVLogger, EarlyStopping, LearningRateScheduler, ModelCheckpoint, ReduceOnPlateau
from nn.gradient_descent import Cosine
from nn.model import Model
from nn.optimizer import LocalUpdateOptimizer, ShardedPSGDOptimizer
from parallel_sgd import JobResult, in_process
from parallel_sgd.batch_sync import StaleSynchronous
from parallel_sgd.codec import DummyCodec
from tests.processes.training.jobs import FOUR_BLOCKS, line_job

RATE = {"learn_rate": 0.05}


class Notes(Callback):
    """One's own: the rate of each epoch and what the epoch gave, in a file of the node."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        with open(self.folder / "notes.txt", "a", encoding="utf-8") as file:
            file.write(f"{self.model.epochs_trained} {self.model.optimizer.rule.learn_rate!r} {dict(logs)!r}\n")


def callbacks() -> list[Callback]:
    """They make the rate smaller after some epochs, stop after some more, and go back to the best epoch."""
    return [
        ReduceOnPlateau(factor=0.5, patience=2, min_delta=0.2),
        EarlyStopping(patience=3, min_delta=0.03, restore_best=True),
        ModelCheckpoint("best.model", save_best_only=True),
        CSVLogger("log.csv"),
        Notes(),
    ]


def run(folder: Path, workers: int, epochs: int = 60, **settings: Any) -> JobResult:
    settings = {"callbacks": callbacks(), "gd_params": RATE, "assignment_type": FOUR_BLOCKS, "block_size": 3, **settings}
    with in_process(workers) as nodes:
        return line_job().parallel(nodes, epoch=epochs, directory=folder, **settings)


def left(result: JobResult, name: str) -> dict[int, bytes]:
    """What each node has left in the file of this name."""
    found = {node: [path for path in paths if path.name == name] for node, paths in result.files.items()}
    return {node: path.read_bytes() for node, paths in found.items() for path in paths}


@pytest.mark.long
def test_all_workers_decide_alike_whatever_their_number(tmp_path: Path) -> None:
    """One worker or four: training ends after the same epoch, with the bits of the best one; files are the same everywhere."""
    results = [run(tmp_path, workers) for workers in (1, 2, 4)]
    models = [model.store.values.tobytes() for result in results for model in result.models.values()]
    notes = [text for result in results for text in left(result, "notes.txt").values()]
    tables = [text for result in results for text in left(result, "log.csv").values()]
    assert len(models) == len(notes) == len(tables) == 7
    assert len(set(models)) == len(set(notes)) == len(set(tables)) == 1
    lines = notes[0].decode().splitlines()
    assert 5 < len(lines) < 60 and len(results[0].history) == len(lines) and results[2].ledger is not None
    assert results[2].ledger.problems == ()
    rates = [line.split()[1] for line in lines]
    assert rates[0] == "0.05" and float(rates[-1]) < 0.05
    assert results[0] == run(tmp_path, 2), "the result is that of the best epoch"
    best = Model.from_bytes(left(results[1], "best.model")[1])
    assert 1 < best.epochs_trained <= len(lines) and type(best.optimizer).__name__ == "GDOptimizer"


class Freezing(Callback):
    """One that freezes the model, which a job does not heed."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        self.model.trainable = False


def test_a_callback_that_freezes_layers_of_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"parallel\(\) of .* needs another compile\(\) or setup\(\): '.*' was frozen"):
        run(tmp_path, 1, epochs=3, callbacks=[Freezing()])


@pytest.mark.share(3)
@pytest.mark.parametrize("cut", [2, 7, "in an epoch"])
def test_a_job_that_goes_on_decides_as_one_that_never_stopped(tmp_path: Path, cut: int | str) -> None:
    """With the counts and the best weights so far, and the rate that was reduced; also from the middle of an epoch."""
    whole = run(tmp_path, 2)
    every: int | str = "epoch"
    begun = 4
    if isinstance(cut, int):
        begun = cut
    else:
        every = 1
    part = run(tmp_path, 2, epochs=begun, checkpoint_every=every)
    folder = next(iter(part.files.values()))[0].parents[1]
    if every == 1:
        for newest in folder.glob("Node-*-Retrieve/checkpoints/checkpoint-000004-*"):
            newest.unlink()
    rest = run(tmp_path, 2, resume=folder, checkpoint_every="epoch")
    assert rest.models[1].store.values.tobytes() == whole.models[1].store.values.tobytes() and rest == whole
    done = run(tmp_path, 2, resume=next(iter(rest.files.values()))[0].parents[1])
    assert done == whole and done.models[0].store.values.tobytes() == whole.models[0].store.values.tobytes()


def test_rates_by_the_epoch_and_the_users_own_objects_stay_as_they_are(tmp_path: Path) -> None:
    stop = EarlyStopping(patience=1, min_delta=100.0)
    result = run(tmp_path, 2, callbacks=[stop, LearningRateScheduler(lambda epoch, rate: rate / 2), Notes()])
    rates = [float(line.split()[1]) for line in left(result, "notes.txt")[0].decode().splitlines()]
    assert rates == [0.025, 0.0125] and stop.best is None
    assert result.models[0].rule is None and result.models[0].epochs_trained == 0


class OfBatches(Callback):
    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None: ...


class Locked(Callback):
    def __init__(self) -> None:
        import threading

        self.lock = threading.Lock()


ALONE = "'callbacks' need results that are equal on all workers, but under .*{} each trains a model of its own"


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("must be a list of callbacks, got Notes; write", {"callbacks": Notes()}),
        ("must be a list of callbacks, got int", {"callbacks": 3}),
        ("'callbacks' must be an instance of Callback, got the class; write Notes", {"callbacks": [Notes]}),
        (r"'monitor' is 'val_mes', but the results are val_Loss, val_mse; did you mean 'val_mse'\?",
         {"callbacks": [EarlyStopping("val_mes", mode="min")]}),
        ("'monitor' is 'Loss', but the results are val_Loss, val_mse", {"callbacks": [ReduceOnPlateau("Loss")]}),
        (r"OfBatches has on_batch_end\(\): no worker of a job sees a whole batch", {"callbacks": [OfBatches()]}),
        ("'callbacks' must hold what may travel, but Locked cannot: .*lock", {"callbacks": [Locked()]}),
        ("CSVLogger 'path' must be the name of a file in a job", {"callbacks": [CSVLogger("logs/log.csv")]}),
        ("ModelCheckpoint 'path' must be the name of a file in a job", {"callbacks": [ModelCheckpoint("/tmp/a.model")]}),
        ("may have the fields epoch, val_Loss, val_mse, got '{accuracy}.model'",
         {"callbacks": [ModelCheckpoint("{accuracy}.model")]}),
        ("ReduceOnPlateau sets the learning rate, but that of ADAMOptimizer comes from Cosine",
         {"callbacks": [ReduceOnPlateau()], "gd_params": {"learn_rate": Cosine(0.1, 9)}}),
        ("cannot have a ModelCheckpoint where each worker has a shard",
         {"callbacks": [ModelCheckpoint("a.model")], "op_type": ShardedPSGDOptimizer}),
        (ALONE.format(r"StaleSynchronous\(2\)"), {"sync_type": StaleSynchronous(2)}),
        (ALONE.format("DummyCodec"), {"codec": DummyCodec}),
        (ALONE.format("LocalUpdateOptimizer"), {"op_type": LocalUpdateOptimizer}),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_alike_is_refused(tmp_path: Path, message: str, settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        run(tmp_path, 2, **settings)
    assert not list(tmp_path.iterdir())


def test_a_sharded_rule_stops_alike(tmp_path: Path) -> None:
    few: list[Callback] = [EarlyStopping(patience=1, min_delta=0.05, restore_best=True), Notes()]
    whole, sharded = (run(tmp_path, 2, callbacks=few, **more) for more in ({}, {"op_type": ShardedPSGDOptimizer}))
    assert np.array_equal(whole.models[0].store.values, sharded.models[1].store.values) and whole == sharded
