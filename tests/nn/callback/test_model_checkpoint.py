from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.callback import Callback, CSVLogger, EarlyStopping, LearningRateScheduler, ModelCheckpoint, ReduceOnPlateau
from nn.model import Model
from tests.nn.model.models import classifier, samples

X, Y = samples(60)
VALIDATION = samples(30, seed=1)


class Killed(Callback):
    """Ends the process, as far as the run can tell, in the middle of an epoch, or after its end but before it is saved."""

    def __init__(self, epoch: int, *, at_end: bool = False) -> None:
        self.epoch, self.at_end = epoch, at_end

    def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        if not self.at_end and self.model.epochs_trained == self.epoch - 1 and batch == 1:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """All callbacks before this one have heard of the epoch, nobody has saved it."""
        if self.at_end and self.model.epochs_trained == self.epoch:
            raise KeyboardInterrupt


def callbacks(folder: Path, patience: int) -> list[Callback]:
    """Return everything that decides how training goes on, made anew; the checkpoint does not stand at the end."""
    return [
        ModelCheckpoint(folder / "last.model"),
        ModelCheckpoint(folder / "best.model", "val_Loss", save_best_only=True),
        CSVLogger(folder / "log.csv"),
        ReduceOnPlateau("val_Loss", factor=0.5, patience=2, min_delta=0.01),
        EarlyStopping("val_Loss", patience, min_delta=0.02, restore_best=True),
    ]


def run(folder: Path, patience: int, *more: Callback, epochs: int = 16) -> Model:
    path = folder / "last.model"
    if path.exists():
        model: Model = Model.load(path)
    else:
        model = classifier(dropout=0.3, width=8)
        model.compile(nn.gradient_descent.ADAMOptimizer(0.1))
    made = [*callbacks(folder, patience), *more]
    model.fit(X, Y, None, 16, VALIDATION, made, until_epoch=epochs, verbose=0, seed=3)
    return model


@pytest.mark.parametrize("patience", [3, 99], ids=["stopped early", "all epochs"])
@pytest.mark.parametrize("at_end", [False, True], ids=["killed in an epoch", "killed before saving"])
def test_a_killed_run_that_is_continued_equals_one_never_stopped(tmp_path: Path, at_end: bool, patience: int) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    straight = run(whole, patience)
    trained = straight.epochs_trained
    assert (trained < 16) == (patience == 3)
    for epoch in range(2, trained + 1, 2):
        with pytest.raises(KeyboardInterrupt):
            run(broken, patience, Killed(epoch, at_end=at_end))
    resumed = run(broken, patience)
    assert np.array_equal(resumed.store.values, straight.store.values)
    assert resumed.fit_history().rows == straight.fit_history().rows
    for name in ("last.model", "best.model", "log.csv"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    again = run(broken, patience)
    assert again.epochs_trained == trained
    assert np.array_equal(again.store.values, straight.store.values)


def test_only_the_best_is_kept(tmp_path: Path) -> None:
    model, checkpoint = classifier(), ModelCheckpoint(tmp_path / "best.model", "val_accuracy", save_best_only=True)
    history = model.fit(X, Y, 12, 16, VALIDATION, [checkpoint], verbose=0)
    best = Model.load(tmp_path / "best.model")
    assert checkpoint.best == max(history["val_accuracy"])
    assert best.epochs_trained == history["val_accuracy"].index(checkpoint.best) + 1
    assert best.evaluate(*VALIDATION)["accuracy"] == checkpoint.best


def test_a_file_for_each_epoch(tmp_path: Path) -> None:
    model = classifier()
    path = str(tmp_path / "run-{epoch:03d}-{Loss:.2f}.model")
    history = model.fit(X, Y, 5, callbacks=[checkpoint := ModelCheckpoint(path, every=2)], verbose=0)
    losses = history["Loss"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"run-{n:03d}-{losses[n - 1]:.2f}.model" for n in (2, 4)]
    assert checkpoint.saved == str(tmp_path / f"run-004-{losses[3]:.2f}.model")
    with pytest.raises(ValueError, match=r"'path' may have the fields epoch, Loss, accuracy, got '\{val_Loss\}'"):
        model.fit(X, Y, 1, callbacks=[ModelCheckpoint("{val_Loss}")], verbose=0)


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = classifier(), tmp_path / "m.model"
    model.fit(X, Y, 1, callbacks=[ModelCheckpoint(path)], verbose=0)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        model.fit(X, Y, 1, callbacks=[ModelCheckpoint(path)], verbose=0)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_states_are_those_of_the_running_fit_only(tmp_path: Path) -> None:
    model, (x, y) = classifier(), samples(20)
    two = [EarlyStopping("Loss", 5), EarlyStopping("accuracy", 7)]
    model.fit(x, y, 3, callbacks=[*two, ModelCheckpoint(tmp_path / "m")], verbose=0)
    assert model.callback_states.current() == {}
    again = Model.load(tmp_path / "m")
    states = again.callback_states.current()
    assert set(states) == {"EarlyStopping", "EarlyStopping_2"}
    assert states["EarlyStopping_2"]["best"] == two[1].best
    again.fit(x, y, 1, callbacks=[LearningRateScheduler(lambda epoch: 0.1)], verbose=0)
    assert again.callback_states.current() == {}


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match="ModelCheckpoint 'path' must be the path of a file, got 3"):
        ModelCheckpoint(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ModelCheckpoint 'every' must be a positive integer, got 0"):
        ModelCheckpoint("m", every=0)
