"""What `fit` and `evaluate` do with batches, seeds, callbacks and the rule; what a history and a terminal show."""

import fcntl
import math
import os
import pty
import re
import struct
import sys
import termios
import time

import numpy as np
import pytest

import nn
from nn.model import History, Model
from nn.optimizer import GDOptimizer, OpContainer, PSGDOptimizer
from tests.nn.model.models import classifier, samples

X, Y = samples()


def fitted(model=None, *data, epoch=1, **arguments):
    model = model or classifier()
    model.fit(*(data or (X, Y)), epoch=epoch, verbose=0, **arguments)
    return model


def test_training_learns():
    (x, y), test = samples(500), samples(200, seed=1)
    model = classifier()
    history = model.fit(x, y, epoch=30, batch_size=32, validation_data=test, verbose=0)
    assert history["Loss"][-1] < 0.2 < history["Loss"][0]
    assert history["val_accuracy"][-1] > 0.9
    assert model.evaluate(*test)["accuracy"] == history["val_accuracy"][-1]
    assert history is model.fit_history()
    assert history["epoch"] == list(range(1, 31))


def test_every_sample_weighs_the_same_whatever_the_batches():
    """With a rule that changes nothing, training sees what evaluate sees; 101 is no multiple of 8."""
    model, (x, y) = classifier(), samples(101)
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    whole = model.evaluate(x, y, batch_size=1000)
    assert all(type(value) is float for value in whole.values())
    row = model.fit(x, y, epoch=1, batch_size=8, verbose=0).rows[0]
    for parts in (row, *(model.evaluate(x, y, batch_size=size) for size in (1, 7, 100))):
        assert parts["Loss"] == pytest.approx(whole["Loss"], rel=1e-6)
        assert parts["accuracy"] == whole["accuracy"]
    assert model.predict(x, batch_size=10).shape == (101, 3)
    np.testing.assert_allclose(model.predict(x, batch_size=10), model.predict(x), rtol=1e-5)


@pytest.mark.parametrize("classes", [10, 2048])
def test_figures_are_those_of_the_samples_of_each_batch_though_the_next_one_is_dealt_early(classes):
    """Of 2048 classes, predictions are too many to be kept until later."""
    model = nn.model.SequentialModel([-1, 784], [nn.layer.Dense(1024, "relu"), nn.layer.Dense(classes, "softmax")])
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    x = np.random.default_rng(0).standard_normal((300, 784))
    # Right for half of the samples, so that labels of another batch give another share.
    y = np.where(np.arange(300) % 2, model.predict(x).argmax(axis=1), 0)
    row = model.fit(x, y, epoch=1, batch_size=64, verbose=0).rows[0]
    whole = model.evaluate(x, y)
    assert row["accuracy"] == whole["accuracy"] > 0.4
    assert row["Loss"] == pytest.approx(whole["Loss"], rel=1e-5)


class ClearsAtBegin(nn.callback.Callback):
    def __init__(self, x):
        self.x = x

    def on_batch_begin(self, batch):
        self.x.fill(0)


class ClearsAtEnd(nn.callback.Callback):
    def __init__(self, x):
        self.x = x

    def on_batch_end(self, batch, logs):
        self.x.fill(0)


@pytest.mark.parametrize("kind", [ClearsAtBegin, ClearsAtEnd])
def test_a_callback_between_two_batches_changes_the_samples_of_the_second_one(kind, monkeypatch):
    x, y, model, seen = np.ones((8, 8), np.float32), np.zeros(8, int), classifier(), []
    step = type(model.runner).step

    def watched(runner, samples, *rest, **more):
        seen.append(samples[0].max())
        return step(runner, samples, *rest, **more)

    monkeypatch.setattr(type(model.runner), "step", watched)
    model.fit(x, y, epoch=1, batch_size=4, verbose=0, callbacks=[kind(x)])
    assert seen == [1, 0]


def test_a_batch_is_one_step_of_the_rule_by_the_mean_of_its_blocks():
    model, (x, y) = classifier(dtype="float64"), samples(60)
    model.compute_gradients(x, y)
    whole, total = model.store.gradients.copy(), np.zeros(model.store.gradients.shape)
    for block in range(4):
        model.compute_gradients(x[block * 15 : block * 15 + 15], y[block * 15 : block * 15 + 15])
        total += model.store.gradients
    np.testing.assert_allclose(total / 4, whole, rtol=1e-10, atol=1e-14)
    expected = model.store.values.copy()
    nn.gradient_descent.ADAMOptimizer(0.01).update(expected, whole)
    fitted(model, x, y, batch_size=1000, shuffle=False)
    np.testing.assert_allclose(model.store.values, expected, rtol=1e-12)


def test_a_seed_repeats_a_run_bit_for_bit_and_is_recorded():
    def weights(seed):
        model = fitted(classifier(dropout=0.3), epoch=3, batch_size=16, seed=seed)
        assert model.fit_history().seed == (seed or 0)
        return model.store.values

    assert np.array_equal(weights(5), weights(5))
    assert not np.array_equal(weights(5), weights(6))
    assert np.array_equal(weights(None), weights(0))


def test_samples_of_other_types_are_converted():
    model, pixels = classifier(), (X * 20).astype(np.int16)
    assert np.array_equal(model.predict(pixels), model.predict(pixels.astype(np.float32)))
    assert model.evaluate(pixels, Y) == model.evaluate(pixels.astype(np.float32), Y)
    fitted(model, pixels.astype(np.float64), Y.astype(np.uint8))
    assert np.array_equal(fitted(None, pixels.astype(np.float32), Y).store.values, model.store.values)


def test_more_shapes_than_plans_are_kept():
    model = classifier()
    first = model.compute_gradients(X[:1], Y[:1])[0]
    for size in range(1, 30):
        model.compute_gradients(X[:size], Y[:size])
    assert model.compute_gradients(X[:1], Y[:1])[0] == first


def test_evaluation_leaves_the_metrics_of_training_alone_and_clear_returns_to_the_untrained_model():
    model = classifier(seed=4)
    start = model.store.values.copy()
    model.metrics[0].reset()
    model.metrics[0].update(np.array([0]), np.array([[1.0, 0.0, 0.0]]))
    model.evaluate(X, Y)
    assert model.metrics[0].result() == 1
    trained = fitted(model, epoch=2).store.values.copy()
    model.clear()
    assert np.array_equal(model.store.values, start)
    assert len(model.fit_history()) == 0
    assert np.array_equal(fitted(model, epoch=2).store.values, trained)


class Diary(nn.callback.Callback):
    """Writes down every call."""

    def __init__(self, stop_after=99):
        self.entries, self.batches, self.stop_after = [], [], stop_after

    def on_train_begin(self):
        self.entries.append("train begin")

    def on_epoch_begin(self, epoch):
        self.entries.append(f"epoch {epoch} begin")

    def on_batch_begin(self, batch):
        self.entries.append(f"batch {batch} begin")

    def on_batch_end(self, batch, logs):
        self.entries.append(f"batch {batch} end")
        self.batches.append(dict(logs))

    def on_epoch_end(self, epoch, logs):
        self.entries.append(f"epoch {epoch} end {' '.join(logs)}")
        if epoch >= self.stop_after:
            self.model.stop_training = True

    def on_train_end(self, logs):
        self.entries.append("train end")


def test_callbacks_are_called_in_order_and_may_stop_training():
    model, diary = classifier(), Diary()
    fitted(model, epoch=2, batch_size=60, validation_data=(X, Y), callbacks=(each for each in [diary]))
    batches = ["batch 0 begin", "batch 0 end", "batch 1 begin", "batch 1 end"]
    results = "Loss accuracy val_Loss val_accuracy"
    assert diary.entries == [
        "train begin",
        *["epoch 0 begin", *batches, f"epoch 0 end {results}"],
        *["epoch 1 begin", *batches, f"epoch 1 end {results}"],
        "train end",
    ]
    assert diary.model is model
    assert diary.params == {"epoch": 2, "batch_size": 60, "steps": 2, "seed": 0}
    assert diary.batches[-1]["Loss"] == model.fit_history()["Loss"][-1]
    stopping = Diary(stop_after=1)
    assert len(fitted(None, epoch=10, callbacks=[stopping]).fit_history()) == 2
    assert stopping.entries[-1] == "train end"
    assert len(fitted(model, callbacks=None).fit_history()) == 3


def test_until_epoch_counts_all_epochs():
    parts = classifier(dropout=0.3)
    for until, trained in ((2, 2), (5, 5), (5, 5), (3, 5), (0, 5)):
        assert len(fitted(parts, epoch=None, until_epoch=until).fit_history()) == trained
    assert np.array_equal(parts.store.values, fitted(classifier(dropout=0.3), epoch=5).store.values)
    assert len(parts.fit(X, Y, verbose=0)) == 9


def test_without_a_key_every_call_draws_another_mask_and_the_halves_of_a_model_draw_alike():
    models = [classifier(dropout=0.5, seed=2) for _ in range(2)]

    def gradients(model, key=None):
        model.compute_gradients(X, Y, key=key)
        return model.store.gradients.copy()

    drawn = [gradients(models[0]) for _ in range(3)]
    assert not np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(gradients(models[1], (2, 0, 2, 0)), drawn[2])
    assert np.array_equal(gradients(models[1]), drawn[0])
    models[0].clear()
    assert np.array_equal(gradients(models[0]), drawn[0])
    whole = classifier(dropout=0.5)
    front, back = whole.split("dense_1")
    for _ in range(3):
        assert back.compute_gradients(front.forward(X), Y)[0] == whole.compute_gradients(X, Y)[0]


def test_models_do_not_share_a_rule():
    rule, models = nn.gradient_descent.ADAMOptimizer(0.01), [classifier(), classifier()]
    for model in models:
        model.compile(rule)
    for model in models:
        assert np.array_equal(fitted(model).store.values, fitted().store.values)
    assert rule.step == 0


def compiled(optimizer):
    model = classifier()
    model.compile(optimizer)
    return model


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: fitted(epoch=-1), r"ValueError: fit\(\) 'epoch' must be a positive integer, got -1"),
        (lambda: fitted(batch_size=0), r"ValueError: fit\(\) 'batch_size' must be a positive integer, got 0"),
        (lambda: fitted(seed=-1), r"ValueError: fit\(\) 'seed' must be an integer of at least 0, got -1"),
        (lambda: fitted(until_epoch=6),
         r"ValueError: fit\(\) takes 'epoch' \(more\) or 'until_epoch' \(in all\), got both, 1 and 6"),
        (lambda: fitted(epoch=None, until_epoch=-1), r"ValueError: .* 'until_epoch' must be an integer of at least 0, got -1"),
        (lambda: fitted(callbacks=[Diary]), r"TypeError: .* 'callbacks' must be an instance of .*, got the class; write Diary"),
        (lambda: fitted(callbacks=nn.callback.EarlyStopping()),
         r"TypeError: .*'callbacks' must be a list of callbacks, got EarlyStopping; write \[EarlyStopping\("),
        (lambda: fitted(callbacks="early"), "TypeError: .*'callbacks' must be a list of callbacks, got str$"),
        (lambda: fitted(compiled(OpContainer(PSGDOptimizer, nn.gradient_descent.ADAMOptimizer))),
         "ValueError: .*needs an exchange; it runs in ParallelSGD"),
        (lambda: fitted().fit_history()["f1"], "KeyError: .*no column 'f1'; there are Loss, accuracy, epoch"),
        (lambda: History().plot("curves.png"), r"ValueError: .*History.plot\(\) needs at least one epoch, got none"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_named(use, text):
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        use()
    assert re.search(text, f"{caught.type.__name__}: {caught.value}")
    fitted(compiled(OpContainer(GDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.5,))))  # no exchange needed


def history():
    made = History()
    made.add(1, {"Loss": 2.0, "accuracy": 0.25})
    made.add(2, {"Loss": math.nan, "accuracy": 0.5, "val_Loss": 1.5})
    return made


def test_a_history_is_a_table():
    pytest.importorskip("pandas")
    frame = history().to_frame()
    assert list(frame.columns) == ["Loss", "accuracy", "val_Loss"]
    assert frame.index.name == "epoch"
    assert list(frame.index) == [1, 2]
    assert frame["accuracy"].tolist() == [0.25, 0.5]
    assert np.isnan(frame["val_Loss"][1])
    assert frame["val_Loss"][2] == 1.5
    assert len(History().to_frame()) == 0
    assert repr(fitted().fit_history()).startswith("History(1 epochs, last {'epoch': 1, 'Loss': ")


def test_curves_of_a_history(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    for name in ("curves.png", "curves.svg"):
        history().plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"History.plot\(\) needs matplotlib: pip install matplotlib"):
        history().plot(tmp_path / "curves.png")


def test_a_model_file_holds_the_history():
    model = fitted(fitted(), epoch=2, validation_split=0.25)
    again = Model.from_bytes(model.to_bytes()).fit_history().rows
    assert again == model.fit_history().rows
    assert list(again[2]) == list(model.fit_history().rows[2])
    assert type(again[0]["epoch"]) is int


def test_progress_is_one_plain_line_per_epoch_without_a_terminal(capsys):
    model = classifier()
    model.fit(X, Y, epoch=2, verbose=1)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split(":")[0] for line in shown.err.splitlines()] == ["Epoch 1/2", "Epoch 2/2"]
    assert "accuracy" in shown.err
    model.fit(iter([(X, Y)]), epoch=1)  # of unknown length
    assert capsys.readouterr().err.startswith("Epoch 3/3: Loss ")
    model.fit(X, Y, epoch=2, verbose=0)
    assert capsys.readouterr() == ("", "")


def test_a_long_epoch_without_a_terminal_tells_how_far_it_is_at_growing_distances(capsys, monkeypatch):
    monkeypatch.setattr(nn.model.training, "FIRST_LINE", 0.02)

    slow = Slow()
    model = classifier()
    model.fit(*samples(400), epoch=1, batch_size=5, callbacks=[slow], verbose=1)
    *told, result = capsys.readouterr().err.splitlines()
    assert 1 <= len(told) <= 6, told
    assert all(re.fullmatch(r"Epoch 1/1: \d+ s, \d+ % of 400 samples, about \d+ s left", line) for line in told[:-1])
    assert result.startswith("Epoch 1/1: Loss ")
    model.fit(iter([samples(5)] * 20), epoch=1, callbacks=[slow])  # of unknown length
    told, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"Epoch 2/2: \d+ s, \d+ samples", told)
    model.fit(*samples(400), epoch=1, batch_size=5, callbacks=[slow], verbose=0)
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def on_terminal(monkeypatch):
    """Show something on a terminal of a size: the lines that it has been sent, also those that were written over later."""

    def shown(columns, rows, show):
        reader, writer = pty.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        try:
            with os.fdopen(writer, "w") as terminal:
                monkeypatch.setattr(sys, "stderr", terminal)
                show()
            sent = b"".join(iter(lambda: _read(reader), b"")).decode()
        finally:
            os.close(reader)
        return [line for line in re.split(r"[\r\n]", sent) if line.strip()]

    return shown


def _read(reader):
    try:
        return os.read(reader, 10_000)
    except OSError:  # the other end is closed, and all is read
        return b""


def test_metrics_are_those_of_each_batch_whether_a_callback_follows_batches_or_not():
    diary = Diary()
    plain, followed = (fitted(classifier(), epoch=2, batch_size=1, callbacks=each) for each in ([], [diary]))
    assert plain.fit_history()["accuracy"] == followed.fit_history()["accuracy"]
    assert [diary.batches[len(X) - 1]["accuracy"], diary.batches[-1]["accuracy"]] == plain.fit_history()["accuracy"]
    assert len({logs["accuracy"] for logs in diary.batches[:20]}) > 2


class Slow(nn.callback.Callback):
    def on_batch_end(self, batch, logs):
        time.sleep(0.005)


class Broken(nn.callback.Callback):
    def on_batch_end(self, batch, logs):
        raise RuntimeError


def shown_by(**arguments):
    return lambda: classifier().fit(*samples(200), batch_size=50, **arguments)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_shows_a_bar_and_then_all_results(on_terminal, columns):
    lines = on_terminal(columns, 24, shown_by(epoch=1, validation_split=0.2))
    assert lines[0].startswith("Epoch 1/1:   0%")
    assert all(len(line) <= columns for line in lines[:-1])
    results = ", ".join(rf"{name} \d\.\d{{4}}" for name in ("Loss", "accuracy", "val_Loss", "val_accuracy"))
    assert re.fullmatch(rf"Epoch 1/1: {results} \(\d+\.\d s\)", lines[-1])


def test_terminals_without_a_width_errors_and_whole_trainings(on_terminal):
    (line,) = on_terminal(0, 0, shown_by(epoch=1))
    assert line.startswith("Epoch 1/1: Loss ")

    def broken():
        with pytest.raises(RuntimeError):
            shown_by(epoch=2, callbacks=[Broken()])()

    assert on_terminal(80, 24, broken)[-1].startswith("Epoch 1/2:  25%")
    results = [line for line in on_terminal(80, 24, shown_by(epoch=2, validation_split=0.2)) if "Loss" in line]
    assert [line.split(":")[0] for line in results] == ["Epoch 1/2", "Epoch 2/2"]
    assert all("val_accuracy" in line for line in results)
