"""What each callback does to a training, to the epoch; a run that is killed and continued equals one never stopped."""

import csv
import re
import sys
from collections.abc import Mapping
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.callback import (
    Callback,
    CSVLogger,
    EarlyStopping,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceOnPlateau,
    SwapEMA,
    TensorBoard,
)
from nn.gradient_descent import SGDOptimizer as SGD
from nn.model import Model
from tests.nn.model.models import classifier, samples

X, Y = samples(60)
VALIDATION = samples(30, seed=1)


def told(kind, results, **arguments):
    """Return a callback that goes by results that are given, whatever the model does."""

    class Told(kind):
        def on_epoch_end(self, epoch, logs):
            super().on_epoch_end(epoch, {"told": results[self.model.epochs_trained - 1]})

    return Told("told", **{"mode": "min", "min_delta": 0, **arguments})


def fitted(*callbacks, epochs=1, model=None, **arguments):
    model = model or classifier()
    model.fit(X, Y, epoch=epochs, callbacks=callbacks, verbose=0, **arguments)
    return model


class Rates(Callback):
    """Notes the rate with which each epoch was trained."""

    def on_train_begin(self):
        self.noted = []

    def on_batch_end(self, batch, logs):
        if batch == 0:
            self.noted.append(self.model.rule.learn_rate)


def rates(callback, epochs):
    noted, model = Rates(), classifier()
    model.compile(nn.gradient_descent.SGDOptimizer(1.0))
    fitted(callback, noted, epochs=epochs, model=model)
    return noted.noted


class Killed(Callback):
    """Ends the process, as far as the run can tell, in the middle of an epoch, or after its end but before it is saved."""

    def __init__(self, epoch, at_end):
        self.epoch, self.at_end = epoch, at_end

    def on_batch_end(self, batch, logs):
        if not self.at_end and self.model.epochs_trained == self.epoch - 1 and batch == 1:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs):
        """All callbacks before this one have heard of the epoch, nobody has saved it."""
        if self.at_end and self.model.epochs_trained == self.epoch:
            raise KeyboardInterrupt


def run(folder, patience, *more):
    """Train up to epoch 16, from the last file if there is one; the checkpoint does not stand at the end."""
    if (folder / "last.model").exists():
        model = Model.load(folder / "last.model")
    else:
        model = classifier(dropout=0.3, width=8)
        model.compile(nn.gradient_descent.ADAMOptimizer(0.1))
    callbacks = [
        ModelCheckpoint(folder / "last.model"),
        ModelCheckpoint(folder / "best.model", "val_Loss", save_best_only=True),
        CSVLogger(folder / "log.csv"),
        ReduceOnPlateau("val_Loss", factor=0.5, patience=2, min_delta=0.01),
        EarlyStopping("val_Loss", patience, min_delta=0.02, restore_best=True),
        *more,
    ]
    model.fit(X, Y, None, 16, VALIDATION, callbacks, until_epoch=16, verbose=0, seed=3)
    return model


@pytest.mark.share(4)
@pytest.mark.parametrize("patience", [3, 99], ids=["stopped early", "all epochs"])
@pytest.mark.parametrize("at_end", [False, True], ids=["killed in an epoch", "killed before saving"])
def test_a_killed_run_that_is_continued_equals_one_never_stopped(tmp_path, at_end, patience):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    straight = run(whole, patience)
    trained = straight.epochs_trained
    assert (trained < 16) == (patience == 3)
    for epoch in range(2, trained + 1, 2):
        with pytest.raises(KeyboardInterrupt):
            run(broken, patience, Killed(epoch, at_end))
    for resumed in (run(broken, patience), run(broken, patience)):
        assert resumed.epochs_trained == trained
        assert np.array_equal(resumed.store.values, straight.store.values)
        assert resumed.fit_history().rows == straight.fit_history().rows
        for name in ("last.model", "best.model", "log.csv"):
            assert (whole / name).read_bytes() == (broken / name).read_bytes(), name


@pytest.mark.parametrize(
    ("patience", "min_delta", "stopped", "best_epoch"),
    [(0, 0, 3, 2), (1, 0, 3, 2), (2, 0, 6, 4), (3, 0, 7, 4), (4, 0, None, 8), (2, 0.25, 4, 2)],
)
def test_stopping_waits_as_long_as_patience_says(patience, min_delta, stopped, best_epoch):
    callback = told(EarlyStopping, [5, 3, 4, 2.8, 2.8, 3, nan, 1], patience=patience, min_delta=min_delta)
    model = fitted(callback, epochs=8)
    assert (callback.stopped_epoch, callback.best_epoch) == (stopped, best_epoch)
    assert len(model.fit_history()) == (stopped or 8)


def test_stopping_restores_the_best_weights_and_begins_afresh():
    after = {epochs: fitted(epochs=epochs).store.values for epochs in (1, 2, 4)}
    for restore, kept in ((False, 4), (True, 2)):
        callback = told(EarlyStopping, [5, 1, 2, 2, 3], patience=2, restore_best=restore)
        model = fitted(callback, epochs=8)
        assert (callback.best, callback.best_epoch, callback.stopped_epoch) == (1, 2, 4)
        assert np.array_equal(model.store.values, after[kept])
        fitted(callback, model=model)
        assert (callback.stopped_epoch, callback.best) == (None, 3)
    ended_by_itself = fitted(told(EarlyStopping, [1, 2, 3], patience=9, restore_best=True), epochs=3)
    assert np.array_equal(ended_by_itself.store.values, after[1])


def test_results_to_go_by_are_those_of_the_history(tmp_path):
    stop, best = EarlyStopping("val_accuracy", 3), ModelCheckpoint(tmp_path / "best", "val_accuracy", save_best_only=True)
    values = fitted(stop, best, epochs=60, validation_data=VALIDATION).fit_history()["val_accuracy"]
    assert stop.stopped_epoch == len(values) < 60
    assert stop.best == best.best == max(values) == values[-4]
    saved = Model.load(tmp_path / "best")
    assert saved.epochs_trained == values.index(best.best) + 1
    assert saved.evaluate(*VALIDATION)["accuracy"] == best.best


def test_a_rate_is_a_function_of_epochs_over_the_life_of_the_model():
    """As in Keras a function that needs two arguments is given the rate, too; one with a default of its own is not."""
    assert rates(LearningRateScheduler(lambda epoch, rate: rate if epoch < 2 else rate / 2), 4) == [1, 1, 0.5, 0.25]
    assert rates(LearningRateScheduler(lambda epoch, base=0.5: base * 2.0**epoch), 3) == [0.5, 1, 2]
    schedule = LearningRateScheduler(lambda epoch: 0.02 / (1 + epoch))
    first = fitted(schedule)
    parts = fitted(schedule, epochs=3, model=Model.from_bytes(first.to_bytes()))
    assert np.array_equal(fitted(schedule, epochs=4).store.values, parts.store.values)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"patience": 1}, [1, 1, 1, 0.5, 0.25, 0.25, 0.125, 0.0625]),
        ({"patience": 2}, [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25]),
        ({"patience": 1, "cooldown": 2}, [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]),
        ({"patience": 1, "min_rate": 0.3}, [1, 1, 1, 0.5, 0.3, 0.3, 0.3, 0.3]),
        ({"patience": 1, "min_delta": 5}, [1, 1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]),
    ],
)
def test_the_rate_goes_down_on_a_plateau(arguments, expected):
    callback = told(ReduceOnPlateau, [5, 4, 4, 4, 3, 3, 3, 3], factor=0.5, **arguments)
    assert rates(callback, 8) == expected
    drops = [number for number, (one, other) in enumerate(pairwise(expected), 1) if one > other]
    assert callback.reductions[: len(drops)] == drops
    reduced = fitted(told(ReduceOnPlateau, [1, 1], factor=0.5, patience=1), epochs=2)
    assert Model.from_bytes(reduced.to_bytes()).rule.learn_rate == 0.005


@pytest.mark.parametrize("callback", [LearningRateScheduler(lambda epoch: 0.1), ReduceOnPlateau("Loss")])
def test_a_schedule_of_the_rule_is_in_the_way(callback):
    model = classifier()
    model.compile(nn.gradient_descent.SGDOptimizer(nn.gradient_descent.schedule.Cosine(0.1, steps=100)))
    text = f"{type(callback).__name__} sets the learning rate, but that of SGDOptimizer comes from Cos"
    with pytest.raises(ValueError, match=text):
        fitted(callback, model=model)


def test_a_log_has_one_line_per_epoch_with_all_bits_and_goes_on_with_its_model(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("of another run\n")

    def first_cells():
        return " ".join(line.split(",")[0] for line in path.read_text().splitlines())

    model = fitted(CSVLogger(path), epochs=2, validation_split=0.2)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "Loss", "accuracy", "val_Loss", "val_accuracy"]
    assert [{name: float(value) for name, value in row.items()} for row in rows] == model.fit_history().rows
    assert [row["epoch"] for row in rows] == ["1", "2"]
    model = Model.from_bytes(model.to_bytes())
    fitted(CSVLogger(path), model=model, validation_split=0.2)
    assert first_cells() == "epoch 1 2 3"
    fitted(CSVLogger(path, append=False), model=model)
    assert first_cells() == "epoch 4"
    for append in (False, True):  # a model that begins anew replaces the lines of the other run
        model = fitted(CSVLogger(path, append=append), epochs=2)
        assert first_cells() == "epoch 1 2"
    whole = path.read_text()
    path.write_text(whole + "3,0.5,0.5\n4,0.25,0.")  # what a killed run left is cut off
    model.fit(X, Y, until_epoch=2, callbacks=[CSVLogger(path, append=True)], verbose=0)
    assert path.read_text() == whole
    for without_a_header in ("", "epoch,Lo"):
        path.write_text(without_a_header)
        fitted(CSVLogger(path, append=True))
        assert path.read_text().startswith("epoch,Loss,accuracy\n1,")


def test_a_checkpoint_for_each_epoch_and_none_that_a_full_disk_spoils(tmp_path, monkeypatch):
    checkpoint = ModelCheckpoint(str(tmp_path / "run-{epoch:03d}-{Loss:.2f}.model"), every=2)
    losses = fitted(checkpoint, epochs=5).fit_history()["Loss"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"run-{n:03d}-{losses[n - 1]:.2f}.model" for n in (2, 4)]
    assert checkpoint.saved == str(tmp_path / f"run-004-{losses[3]:.2f}.model")
    path = tmp_path / "other" / "m.model"
    path.parent.mkdir()
    model = fitted(ModelCheckpoint(path))
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        fitted(ModelCheckpoint(path), model=model)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_states_in_a_file_are_those_of_the_running_fit_only(tmp_path):
    two = [EarlyStopping("Loss", 5), EarlyStopping("accuracy", 7)]
    model = fitted(*two, ModelCheckpoint(tmp_path / "m"), epochs=3)
    assert model.callback_states.current() == {}
    again = Model.load(tmp_path / "m")
    states = again.callback_states.current()
    assert set(states) == {"EarlyStopping", "EarlyStopping_2"}
    assert states["EarlyStopping_2"]["best"] == two[1].best
    fitted(LearningRateScheduler(lambda epoch: 0.1), model=again)
    assert again.callback_states.current() == {}


SMALL = "Loss val_Loss mse val_relative_error eer false_positive"
LARGE = "accuracy val_top_5_accuracy auc precision recall f1 true_negative"


@pytest.mark.parametrize("name", f"{SMALL} {LARGE}".split())
def test_better_is_what_is_good_by_more_than_min_delta(name):
    sign = -1 if name in SMALL else 1
    monitor = EarlyStopping(name, min_delta=0.5).monitor
    assert monitor.mode == ("min" if sign < 0 else "max")
    for value, than, expected in (
        (1.0, None, True),
        (1.6, 1.0, True),
        (1.5, 1.0, False),
        (nan, 1.0, False),
        (nan, None, False),
    ):
        assert monitor.better(sign * value, than and sign * than) is expected
    assert EarlyStopping("val_score", mode="max").monitor.better(2, 1)


UNKNOWN = "'monitor' is 'val_Loss', but the results are Loss, accuracy; with validation data there are val_"


def log(text, path="log.csv"):
    """Continue a file that holds something else."""
    Path("log.csv").write_text(text)
    fitted(CSVLogger(path, append=True))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        *((lambda kind=kind, given=given: fitted(kind(save_best_only=True, path="m", **given)) if kind is ModelCheckpoint
           else fitted(kind(**given)), text)
          for kind in (EarlyStopping, ReduceOnPlateau, ModelCheckpoint)
          for given, text in (
              ({}, f"ValueError: {kind.__name__} {UNKNOWN}"),
              ({"monitor": 3}, "TypeError: .* 'monitor' must be the name of a result, such as 'val_Loss', got 3"),
              ({"mode": "up"}, "ValueError: .* 'mode' must be one of auto, min, max, got 'up'"),
          )),
        (lambda: EarlyStopping("val_score"),
         "EarlyStopping cannot tell whether 'val_score' should be small or large: give mode='min' or 'max'"),
        (lambda: EarlyStopping("val_acc"), "give mode='min' or 'max'; did you mean 'val_accuracy'?"),
        (lambda: EarlyStopping(patience=-1), "ValueError: EarlyStopping 'patience' must be an integer of at least 0, got -1"),
        (lambda: EarlyStopping(restore_best=1), "TypeError: EarlyStopping 'restore_best' must be an instance of bool"),
        (lambda: LearningRateScheduler(0.1), r"TypeError: .* 'schedule' must be a function of the epoch, got 0\.1"),
        *((lambda rate=rate: fitted(LearningRateScheduler(lambda epoch: rate)),
           r"ValueError: LearningRateScheduler 'schedule' must give a number >= 0, got .* for epoch 0")
          for rate in (-1, nan, inf, "a", None, True)),
        (lambda: ReduceOnPlateau(factor=1.5), r"ValueError: ReduceOnPlateau 'factor' must be a number >= 0 and < 1, got 1\.5"),
        (lambda: ModelCheckpoint(3), "TypeError: ModelCheckpoint 'path' must be the path of a file, got 3"),
        (lambda: ModelCheckpoint("m", every=0), "ValueError: ModelCheckpoint 'every' must be a positive integer, got 0"),
        (lambda: fitted(ModelCheckpoint("{val_Loss}")), "may have the fields epoch, Loss, accuracy, got '{val_Loss}'"),
        (lambda: CSVLogger(None), "TypeError: CSVLogger 'path' must be the path of a file, got None"),
        (lambda: log("name,value\na,1\n"), "can continue a file that begins with the column 'epoch', got 'log.csv'"),
        (lambda: log("epoch,Loss\n"), "CSVLogger writes the columns epoch, Loss to 'log.csv', got epoch, Loss, accuracy"),
        (lambda: log("epoch", "none/log.csv"), "FileNotFoundError: .*There is no folder 'none'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(use, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")


def test_results_are_read_by_keras_words_too() -> None:
    """In hooks of batches and epochs, and of `evaluate`; what is not measured is lacking under either word."""
    seen: list[tuple[float | None, ...]] = []

    class Reader(Callback):
        def on_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
            assert logs["loss"] == logs["Loss"] and "val_loss" not in logs and logs.get("val_loss") is None

        def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
            seen.append((logs["loss"], logs["val_loss"], logs.get("loss"), logs.get("lost")))

    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.compile("sgd", "crossentropy_with_softmax")
    x, y = np.eye(4), [0, 1, 2, 0]
    history = model.fit(x, y, epochs=2, validation_data=(x, y), callbacks=[Reader()], verbose=0)
    assert seen == [(row["Loss"], row["val_Loss"], row["Loss"], None) for row in history.rows]
    assert model.evaluate(x, y)["loss"] == history["val_Loss"][-1]


def test_event_files_hold_the_results_of_each_epoch(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed (make extras)")
    reading = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is not installed (make extras)"
    )

    def scalars(part, tag):
        events = reading.EventAccumulator(str(tmp_path / part)).Reload()
        return [(event.step, event.value) for event in events.Scalars(tag)]

    model, board = classifier(), TensorBoard(log_dir=tmp_path)
    history = model.fit(X, Y, epochs=2, callbacks=[board], validation_data=VALIDATION, verbose=0)
    losses = [(step, np.float32(loss)) for step, loss in enumerate(history["Loss"])]
    assert scalars("train", "epoch_loss") == losses[:2]
    assert scalars("validation", "epoch_loss") == [(step, np.float32(loss)) for step, loss in enumerate(history["val_Loss"])]
    assert (
        [step for step, _ in scalars("train", "epoch_learning_rate")]
        == [0, 1]
        == [step for step, _ in scalars("train", "epoch_accuracy")]
    )
    again = model.fit(X, Y, epochs=1, callbacks=[board], verbose=0)
    assert scalars("train", "epoch_loss") == [*losses[:2], (2, np.float32(again["Loss"][-1]))]


def test_without_its_library_a_board_is_refused_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    model = classifier()
    before = model.store.values.copy()
    with pytest.raises(ImportError, match="TensorBoard needs tensorboardX: pip install tensorboardX"):
        model.fit(X, Y, epochs=1, callbacks=[TensorBoard("logs")], verbose=0)
    assert np.array_equal(model.store.values, before)


def test_averages_that_are_put_in_place_obey_constraints():
    """A rule takes its means before the constraints."""
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3, kernel_constraint="non_neg"), nn.layer.Dense(3)])
    model.compile(nn.gradient_descent.MovingAverage(SGD(0.5), 0.0), "crossentropy_with_softmax")
    model.fit(X[:, :4], Y, epochs=1, callbacks=[SwapEMA()], verbose=0)
    kernel = model.layers[0].kernel.get_value()
    average = model.rule.average[: kernel.size].reshape(kernel.shape)
    assert average.min() < 0
    assert np.array_equal(kernel, np.maximum(average, 0))


def test_averages_take_the_place_of_the_weights_at_the_end_and_functions_are_called():
    told, model = [], classifier()
    names = ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")
    note = LambdaCallback(**{name: lambda *given, name=name: told.append((name, *given[:1])) for name in names})
    model.compile(nn.gradient_descent.GradientAccumulation(nn.gradient_descent.MovingAverage(SGD(0.1), 0.5), 2))
    fitted(SwapEMA(), note, model=model, batch_size=10)
    assert np.array_equal(model.store.values, model.rule.rule.average)
    assert [name for name, *_ in told] == list(names) and told[1:3] == [("on_epoch_begin", 0), ("on_epoch_end", 0)]
    model.compile(SGD(0.1))
    before = model.store.values.copy()
    with pytest.raises(ValueError, match=r"SwapEMA needs a rule that keeps averages, such as .*, got SGDOptimizer"):
        fitted(SwapEMA(), model=model)
    assert np.array_equal(model.store.values, before)
    with pytest.raises(TypeError, match="LambdaCallback 'on_epoch_end' must be a function, got 3"):
        LambdaCallback(on_epoch_end=3)
    with pytest.raises(TypeError, match="TensorBoard 'path' must be the path of a folder, got 3"):
        TensorBoard(3)
