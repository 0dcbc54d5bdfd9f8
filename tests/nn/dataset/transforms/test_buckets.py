"""Sequences of like lengths in one batch, cut to what they need: which samples, which steps, and the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import LENGTH, Array
from nn.dataset.transforms import Buckets
from nn.dataset.transforms.buckets import Cuts
from nn.layer import GRU, Dense, Embedding
from nn.model import Model, SequentialModel
from nn.random import keyed

LONGEST = 12
LENGTHS = keyed(0, "lengths").integers(1, LONGEST + 1, 50)


def texts(padding: str = "post", lengths: Array = LENGTHS) -> tuple[Array, Array]:
    """Ids from 1 on, and a label for each text."""
    draw = keyed(1, "texts")
    ids = [draw.integers(1, 9, length) for length in lengths]
    return nn.dataset.pad_sequences(ids, LONGEST, padding=padding), draw.standard_normal((len(lengths), 2))  # type: ignore[arg-type]


def reader(**given: Any) -> Any:
    model = SequentialModel([-1, None], [Embedding(9, 4, mask_zero=True), GRU(3, **given), Dense(2)], dtype="float64", seed=2)
    model.compile("sgd", "mse")
    return model


def dealt(model: Any, x: Any, y: Any, **given: Any) -> list[tuple[Array, Array]]:
    """Return samples and labels of the batches that `fit` trains on."""
    seen: list[tuple[Array, Array]] = []
    step = model.runner.step

    def note(x: Any, label: Any, *rest: Any, **more: Any) -> Any:
        seen.append((x[0].copy(), label[0].copy()))
        return step(x, label, *rest, **more)

    model.runner.step = note
    model.fit(x, y, epochs=1, verbose=0, **given)
    del model.runner.step
    return seen


@pytest.mark.parametrize("padding", ["post", "pre"])
def test_batches_hold_like_lengths_and_no_more_steps_than_they_need(padding: str) -> None:
    x, y = texts(padding)
    model = reader()
    found = dealt(model, x, y, batch_size=4, buckets=[3, 6, 9])
    # All samples once, each with its own label, in batches of 4 and one of the rest.
    assert [len(labels) for _, labels in found] == [4] * 12 + [2]
    places = [[int(np.flatnonzero((y == label).all(axis=1))[0]) for label in labels] for _, labels in found]
    assert sorted(place for rows in places for place in rows) == list(range(50))
    assert places != sorted(places)
    mixed = 0
    for rows, (ids, _) in zip(places, found, strict=True):
        longest = max(LENGTHS[rows])
        limit = next(each for each in (3, 6, 9, LONGEST) if each >= longest)
        assert ids.shape == (len(rows), limit)
        assert np.array_equal(ids, x[rows][:, LONGEST - limit :] if padding == "pre" else x[rows][:, :limit])
        mixed += len({np.searchsorted([3, 6, 9], LENGTHS[row]) for row in rows}) > 1
    # At most one batch at each limit, and the last one, hold texts of two buckets.
    assert mixed <= 4
    # Another epoch has another order, drawn by seed and epoch.
    again = dealt(model, x, y, batch_size=4, buckets=Buckets([3, 6, 9]))
    assert not all(np.array_equal(one[1], other[1]) for one, other in zip(found, again, strict=True))
    same = dealt(reader(), x, y, batch_size=4, buckets=[3, 6, 9])
    assert all(np.array_equal(one[0], other[0]) for one, other in zip(found, same, strict=True))


@pytest.mark.parametrize("padding", ["post", "pre"])
def test_without_shuffling_it_trains_as_with_all_steps(padding: str) -> None:
    """What is left out is padding, which a mask leaves out as well."""
    x, y = texts(padding)
    whole, cut = reader(), reader()
    for model, given in ((whole, {}), (cut, {"buckets": [2, 4, 8]})):
        model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0, **given)
    for one, other in zip(whole.get_weights(), cut.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_labels_and_weights_of_steps_are_cut_with_them() -> None:
    x, _ = texts()
    label, weight = (x % 2)[..., None].astype(float), keyed(2, "weight").random(x.shape)
    models = []
    for given in ({}, {"buckets": [4, 8]}):
        model: Any = SequentialModel(
            [-1, None], [Embedding(9, 4, mask_zero=True), GRU(3, return_sequences=True), Dense(1)], dtype="float64", seed=2
        )
        model.compile("sgd", "mse")
        model.fit(x, label, epochs=1, batch_size=5, shuffle=False, sample_weight=weight, verbose=0, **given)
        models.append(model)
    for one, other in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("padding", ["post", "pre"])
def test_scores_and_predictions_are_those_of_all_steps(padding: str) -> None:
    """Each text is computed once, with texts that are cut as it is, and its result stands where the text does."""
    x, y = texts(padding)
    model, weight = reader(), keyed(3, "weight").random(50)
    model.compile("sgd", "mse", ["mae"])
    whole, scores = model.predict(x), model.evaluate(x, y, sample_weight=weight)
    limits = [3, 6, 9]
    for size in (1024, 4):
        seen: list[tuple[int, ...]] = []
        found = noting(model, "predict", seen, lambda size=size: model.predict(x, size, buckets=limits))
        np.testing.assert_allclose(found, whole, rtol=1e-12)
        assert {steps for _, steps in seen} == {3, 6, 9, LONGEST}
        assert sum(count for count, _ in seen) == 50 and max(count for count, _ in seen) <= size
        assert [count for count, steps in seen if steps == 3] == cut_into((LENGTHS <= 3).sum(), size)
        seen.clear()
        again = noting(
            model, "score", seen, lambda size=size: model.evaluate(x, y, size, sample_weight=weight, buckets=Buckets(limits))
        )
        assert again == pytest.approx(scores, rel=1e-12)
        assert [count for count, steps in seen if steps == 6] == cut_into(((LENGTHS > 3) & (LENGTHS <= 6)).sum(), size)
    bad = x.astype(float)
    bad[7, LONGEST - 1 if padding == "pre" else 0] = np.nan
    for act in (lambda: model.predict(bad, buckets=limits), lambda: model.evaluate(bad, y, buckets=limits)):
        with pytest.raises(ValueError, match="sample 7 has nan"):
            act()


def cut_into(count: int, size: int) -> list[int]:
    return [min(size, count - start) for start in range(0, count, size)]


def noting(model: Any, method: str, seen: list[tuple[int, ...]], act: Any) -> Any:
    """Return what `act` does, and note the shapes of the samples that a method of the runner is given."""
    computed = getattr(model.runner, method)

    def note(x: Any, *rest: Any) -> Any:
        seen.append(x[0].shape)
        return computed(x, *rest)

    setattr(model.runner, method, note)
    found = act()
    delattr(model.runner, method)
    return found


def test_scores_of_steps_are_those_of_all_steps() -> None:
    x, _ = texts()
    label, weight = (x % 2)[..., None].astype(float), keyed(2, "weight").random(x.shape)
    model: Any = SequentialModel(
        [-1, None], [Embedding(9, 4, mask_zero=True), GRU(3, return_sequences=True), Dense(1)], dtype="float64", seed=2
    )
    model.compile("sgd", "mse", ["mae"])
    scores = model.evaluate(x, label, sample_weight=weight)
    assert model.evaluate(x, label, sample_weight=weight, buckets=[4, 8]) == pytest.approx(scores, rel=1e-12)


def test_inputs_of_one_length_are_cut_together() -> None:
    """A step stays where one of them has something; an input of another length has its own cut."""
    a, b, c = np.zeros((3, 2, 6))
    a[0, :2], a[1, :1], b[0, :4], b[1, :1] = 1, 1, 1, 1
    other = np.zeros((2, 4))
    other[:, :3] = 1
    cuts = Cuts([1, 3, 5], [a, b, other, c], [(-1, LENGTH)] * 3 + [(-1, 6)], [(-1, LENGTH), (-1, 1)])
    rows = np.array([0, 1])
    assert [each.shape for each in cuts.samples(rows, [a, b, other, c])] == [(2, 5), (2, 5), (2, 3), (2, 6)]
    assert [each.shape for each in cuts.samples(rows[1:], [a[1:], b[1:], other[1:], c[1:]])] == [(1, 1), (1, 1), (1, 3), (1, 6)]
    assert [None if each is None else each.shape for each in cuts.labels(rows, [a, None])] == [(2, 5), None]
    assert [each.shape for each in cuts.labels(rows, [np.zeros(2), np.zeros((2, 6))])] == [(2,), (2, 6)]
    # Of nothing one step is left.
    assert Cuts([1], [c], [(-1, LENGTH)], []).samples(rows, [c])[0].shape == (2, 1)


def test_plans_are_as_many_as_lengths() -> None:
    """However many lengths the texts have, each length and size of a batch has one plan, and all lie in one memory."""
    x, y = texts()
    model = reader()
    model.fit(x, y, epochs=3, batch_size=4, buckets=[3, 6, 9], verbose=0)
    kept = [key for key in model.runner._compiled if key[0] == "train"]
    assert {shape[1] for _, shape in kept} <= {3, 6, 9, LONGEST}
    assert len(kept) <= 2 * 4


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m, x, y: Buckets([]), r"Buckets 'lengths' must be numbers of steps that rise, such as \[20, 50\], got \[\]"),
        (lambda m, x, y: Buckets([5, 5]), r"Buckets 'lengths' must be numbers of steps that rise, .* got \[5, 5\]"),
        (lambda m, x, y: Buckets([0]), "Buckets 'lengths' must be"),
        (lambda m, x, y: m.fit([(x, y)], buckets=[3], verbose=0), r"fit\(\) takes 'buckets' with arrays"),
        (lambda m, x, y: m.evaluate([(x, y)], buckets=[3]), r"evaluate\(\) takes 'buckets' with arrays"),
        (
            lambda m, x, y: reader(stateful=True).predict(x, buckets=[3]),
            r"predict\(\) takes 'buckets' for samples in any order, and GRU 'gru_1' has stateful=True",
        ),
        (
            lambda m, x, y: reader(stateful=True).evaluate(x, y, buckets=[3]),
            r"evaluate\(\) takes 'buckets' for samples in any order, and GRU 'gru_1' has",
        ),
        (
            lambda m, x, y: reader(return_sequences=True).predict(x, buckets=[3]),
            r"predict\(\) takes 'buckets' for outputs with one result for each sample, got 'output' of shape",
        ),
        (
            lambda m, x, y: closed().fit(x[:, :3], y, buckets=[3], verbose=0),
            r"sequences are cut for a model with an input of any length, \[-1, None, ...\], got \(-1, 3\)",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused(act: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        act(reader(), *texts())


def closed() -> Any:
    entry = nn.Input([-1, 3])
    model: Any = Model(entry, Dense(2)(entry))
    model.compile("sgd", "mse")
    return model
