"""The loss in the lanes of a plan: threads do not meet between forward and backward, and the bits are those of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import Dense
from nn.loss import Cross_Entropy, Cross_Entropy_With_Softmax, Loss
from nn.model import SequentialModel
from nn.model.runner import Runner
from nn.random import keyed
from nn.threads import Team

SAMPLES, SIZE, CLASSES = 32, 24, 5


class Own(Cross_Entropy_With_Softmax):
    """A loss of a user, which may look at other samples of the batch."""

    def each(self, label: Array, output: Array) -> Array:
        found = super().each(label, output)
        assert len(found) == SAMPLES
        return found


def step(loss: Loss, monkeypatch: pytest.MonkeyPatch, *, softmax: bool, **given: Any) -> tuple[list[Any], int]:
    """Return what a step gives, and how often the threads part."""
    parted: list[int] = []
    run = Team.run

    def counted(team: Team, tasks: Sequence[Any], then: Sequence[Any] = ()) -> None:
        parted.append(len(tasks))
        run(team, tasks, then)

    monkeypatch.setattr(Team, "run", counted)
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: 2)
    monkeypatch.setattr("nn.plan.stages.HEAVY", SAMPLES * SIZE * SIZE * 4)
    last = Dense(CLASSES, activation=nn.activation.Softmax() if softmax else None)
    model = SequentialModel([-1, SIZE], [Dense(SIZE, activation="relu"), last])
    model.setup(loss, nn.metric.CategoricalAccuracy())
    draw = keyed(0, "lanes")
    label = given.pop("label", draw.integers(0, CLASSES, SAMPLES))
    found: list[Any] = []
    for _ in range(2):
        x = draw.standard_normal((SAMPLES, SIZE)).astype("float32")
        value, seen = model.compute_gradients(x, label, **given)
        sure: set[Any] = set()
        batch = model._make_batch(x, label, given.get("sample_weight"))
        parted.clear()
        again, shown = model.runner.step(batch.x, batch.label, None, (0, 0, 0, 0), batch.weight, sure=sure)
        assert again == value
        found += [value, seen.copy(), shown[0].copy(), model.store.gradients.copy(), sorted(each.name for each in sure)]
        found += [model.runner.losses]
    return found, len(parted)


LABELS = [
    (lambda: Cross_Entropy_With_Softmax(), True),
    (lambda: Cross_Entropy_With_Softmax(), False),
    (lambda: Cross_Entropy_With_Softmax(label_smoothing=0.1), True),
    (lambda: Cross_Entropy(), True),
]


@pytest.mark.parametrize(("loss", "softmax"), LABELS)
def test_threads_part_once_for_a_step_with_class_numbers(loss: Any, softmax: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own, parted = step(loss(), monkeypatch, softmax=softmax)
    assert parted == 1
    monkeypatch.setattr(Runner, "_losses_in_lanes", lambda *_: None)
    apart, parted = step(loss(), monkeypatch, softmax=softmax)
    assert parted == 2
    for a, b in zip(own, apart, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("loss", "given"),
    [
        (Cross_Entropy_With_Softmax(), {"label": np.eye(CLASSES, dtype="float32")[np.arange(SAMPLES) % CLASSES]}),
        (Cross_Entropy_With_Softmax(), {"sample_weight": np.arange(1, SAMPLES + 1)}),
        (Cross_Entropy_With_Softmax(ignore_index=0), {}),
        (Own(), {}),
    ],
)
def test_other_losses_are_those_of_the_whole_batch(loss: Loss, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert step(loss, monkeypatch, softmax=True, **given)[1] == 2


def test_an_error_of_the_loss_in_a_lane_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: 2)
    monkeypatch.setattr("nn.plan.stages.HEAVY", SAMPLES * SIZE * SIZE * 4)
    model = SequentialModel([-1, SIZE], [Dense(SIZE, activation="relu"), Dense(CLASSES)])
    model.setup(Cross_Entropy_With_Softmax())
    each = Cross_Entropy_With_Softmax.each

    def failing(self: Cross_Entropy_With_Softmax, label: Array, output: Array) -> Array:
        if label[0]:
            raise ValueError(f"of {len(output)} samples")
        return each(self, label, output)

    monkeypatch.setattr(Cross_Entropy_With_Softmax, "each", failing)
    x, label = np.ones((SAMPLES, SIZE), "float32"), np.zeros(SAMPLES, int)
    loss, _ = model.compute_gradients(x, label)
    for place in (0, SAMPLES // 2):
        with pytest.raises(ValueError, match=f"of {SAMPLES // 2} samples"):
            model.compute_gradients(x, np.where(np.arange(SAMPLES) == place, 1, label))
    assert model.compute_gradients(x, label)[0] == loss


NETWORKS: dict[str, tuple[tuple[int, ...], Any]] = {
    "stages before the last": (
        (SIZE,), lambda: [Dense(SIZE, "relu"), nn.layer.BatchNorm(), Dense(SIZE, "relu"), Dense(CLASSES, "softmax")]
    ),
    "a penalty and draws": (
        (SIZE,),
        lambda: [Dense(SIZE, kernel_regularizer=nn.regularizer.L2(0.01)), nn.layer.Dropout(0.3), Dense(CLASSES, "softmax")],
    ),
    "positions": ((6, SIZE), lambda: [Dense(SIZE, "relu"), Dense(CLASSES, "softmax")]),
    "images": (
        (8, 8, 3), lambda: [nn.layer.Conv2D(4, 3), nn.layer.Flatten(), Dense(SIZE, "relu"), Dense(CLASSES, "softmax")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_training_gives_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: 2)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 1)
    monkeypatch.setattr("nn.plan.stages.JOIN", 1)
    shape, layers = NETWORKS[name]
    draw = keyed(1, "lanes")
    x = draw.standard_normal((2 * SAMPLES, *shape)).astype("float32")
    label = draw.integers(0, CLASSES, (2 * SAMPLES, *(shape[:-1] if name == "positions" else ())))
    found: list[Any] = []
    for own in (True, False):
        if not own:
            monkeypatch.setattr(Runner, "_losses_in_lanes", lambda *_: None)
        model = SequentialModel([-1, *shape], layers())
        model.compile("adam", Cross_Entropy_With_Softmax(), ["accuracy"])
        history = model.fit(x, label, epochs=2, batch_size=SAMPLES, verbose=0)
        assert [each.in_lanes is not None for each in model.runner._compiled.values()] == [own]
        found.append((str(history), model.store.values.tobytes(), model.store.buffer_values.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("samples", "classes", "within"),
    [(48, 24, True), (38, 24, False), (50, 24, False), (38, 100, False), (34, 100, False), (64, 2000, False)],
)
def test_lanes_that_would_have_other_bits_or_too_much_memory_leave_the_loss_to_the_caller(
    samples: int, classes: int, within: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of rows by the BLAS depend on the place of a row among those that it sums together."""
    monkeypatch.setattr("nn.model.runner.blas_threads", lambda: 2)
    monkeypatch.setattr("nn.plan.stages.HEAVY", 1)
    monkeypatch.setattr("nn.model.runner.LANE_LOSS_BYTES", 50 * 100 * 4)
    draw = keyed(2, "lanes")
    x, label = draw.standard_normal((samples, SIZE)).astype("float32"), draw.integers(0, classes, samples)
    found: list[Any] = []
    for own in (True, False):
        if not own:
            monkeypatch.setattr(Runner, "_losses_in_lanes", lambda *_: None)
        model = SequentialModel([-1, SIZE], [Dense(SIZE, "relu"), Dense(classes)])
        model.setup(Cross_Entropy_With_Softmax())
        value, seen = model.compute_gradients(x, label)
        found.append((value, seen.copy(), model.store.gradients.copy()))
        (compiled,) = model.runner._compiled.values()
        assert compiled.plan.lanes is not None and (compiled.in_lanes is not None) == (own and within)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
