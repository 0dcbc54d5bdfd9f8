"""What every metric promises, over the rows of the contract table."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.arrays import Array
from nn.metric import CategoricalAccuracy, Metric
from nn.random import keyed
from tests.contract.nn_rows import METRICS, MetricRow

SAMPLES = 40


def title(row: MetricRow) -> str:
    return f"{row.kind.__name__} {row.label}".strip()


def drawn(row: MetricRow, seed: int = 0) -> tuple[Array, Array]:
    """Labels and predictions of very different sizes, in single precision, as a model gives them."""
    label, prediction = row.sample(keyed(seed, "metric"), SAMPLES)
    return label, prediction.astype(np.float32)


def seen(row: MetricRow, label: Array, prediction: Array) -> Metric:
    metric = row.build()
    metric.update(label, prediction)
    return metric


@pytest.mark.parametrize("row", METRICS, ids=title)
@settings(max_examples=20, deadline=None, database=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_same_bits_in_batches_of_any_size_and_order_and_when_merged(row: MetricRow, data: Any, seed: int) -> None:
    label, prediction = drawn(row, seed)
    whole = seen(row, label, prediction).result()
    borders = sorted(data.draw(st.sets(st.integers(1, SAMPLES - 1))))
    order = data.draw(st.permutations(range(len(borders) + 1)))
    parts = [
        slice(start, stop) for start, stop in zip([0, *borders], [*borders, SAMPLES], strict=True)
    ]  # fmt: skip
    one, merged = row.build(), row.build()
    for index in order:
        one.update(label[parts[index]], prediction[parts[index]])
        merged.merge(seen(row, label[parts[index]], prediction[parts[index]]))
    assert np.array_equal([one.result(), merged.result()], [whole, whole], equal_nan=True)


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_merging_takes_what_the_other_saw_and_leaves_it_as_it_is(row: MetricRow) -> None:
    label, prediction = drawn(row)
    first, second = seen(row, label[:30], prediction[:30]), seen(row, label[30:], prediction[30:])
    before = second.result()
    first.merge(second)
    assert first.result() == seen(row, label, prediction).result()
    assert second.result() == before
    first.update(label[:3], prediction[:3])
    assert second.result() == before
    value = first.result()
    first.merge(row.build())
    assert first.result() == value
    empty = row.build()
    empty.merge(first)
    assert empty.result() == value
    doubled = seen(row, label, prediction)
    doubled.merge(doubled)
    again = seen(row, label, prediction)
    again.update(label, prediction)
    assert doubled.result() == again.result()


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_only_equal_kinds_with_equal_arguments_merge(row: MetricRow) -> None:
    class Other(CategoricalAccuracy):
        pass

    with pytest.raises(TypeError, match=f"{row.kind.__name__} merges with its own kind only, got Other"):
        row.build().merge(Other())


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_a_copy_goes_its_own_way(row: MetricRow) -> None:
    label, prediction = drawn(row)
    metric = seen(row, label[:30], prediction[:30])
    value = metric.result()
    copied = deepcopy(metric)
    assert copied.result() == value
    copied.update(label[30:], prediction[30:])
    assert metric.result() == value
    assert copied.result() == seen(row, label, prediction).result()
    copied.reset()
    assert np.isnan(copied.result())
    assert metric.result() == value


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_the_arrays_of_a_batch_are_neither_changed_nor_kept(row: MetricRow) -> None:
    label, prediction = drawn(row)
    expected = seen(row, label, prediction).result()
    buffers = label.copy(), prediction.copy()
    metric = seen(row, *buffers)
    assert np.array_equal(buffers[0], label)
    assert np.array_equal(buffers[1], prediction)
    for buffer in buffers:
        buffer[...] = 0
    assert metric.result() == expected


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_strided_arrays_and_both_precisions(row: MetricRow) -> None:
    label, prediction = drawn(row)
    expected = seen(row, label, prediction).result()
    wide = np.repeat(prediction, 2, axis=0).astype(np.float64)[::2]
    assert seen(row, np.repeat(label, 2, axis=0)[::2], wide).result() == expected
    assert seen(row, np.asfortranarray(label), np.asfortranarray(prediction)).result() == expected


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_a_nan_among_the_predictions_makes_the_result_nan_until_reset(row: MetricRow) -> None:
    label, prediction = drawn(row)
    broken = prediction.copy()
    broken.reshape(-1)[-1] = np.nan
    metric = seen(row, label[:5], prediction[:5])
    metric.update(label, broken)
    metric.update(label, prediction)
    assert np.isnan(metric.result())
    assert type(metric.result()) is float
    healthy = seen(row, label, prediction)
    healthy.merge(metric)
    assert np.isnan(healthy.result())
    metric.reset()
    metric.update(label, prediction)
    assert metric.result() == seen(row, label, prediction).result()


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_labels_and_predictions_must_belong_together(row: MetricRow) -> None:
    label, prediction = drawn(row)
    kind = row.kind.__name__
    metric = seen(row, label, prediction)
    value = metric.result()
    for wrong in (label[:-1], label[:1], np.concatenate((label, label))):
        with pytest.raises(ValueError, match=f"^{kind} takes labels of .*shape"):
            metric.update(wrong, prediction)
    for single in (np.float64(1), np.array(1.0)):
        with pytest.raises(ValueError, match=f"^{kind} takes"):
            metric.update(np.array(1), np.asarray(single))
    for text in (prediction.astype(str), prediction.astype(object)):
        with pytest.raises(ValueError, match=f"^{kind} .*(<U|object)"):
            metric.update(label, text)
    assert metric.result() == value


@pytest.mark.parametrize("row", METRICS, ids=title)
def test_a_name_of_its_own_becomes_the_key(row: MetricRow) -> None:
    arguments = {**row.build().get_config(), "name": "mine"}
    metric = row.kind(**arguments)
    assert metric.name == "mine"
    assert metric.get_config() == arguments
    assert row.kind().get_config().get("name") is None
    with pytest.raises(ValueError, match=f"{row.kind.__name__} 'name' must not be empty"):
        row.kind(name="")
    with pytest.raises(TypeError, match=f"{row.kind.__name__} 'name' must be a text, got 3"):
        row.kind(name=3)  # type: ignore[arg-type]
    plain = row.kind(**{name: value for name, value in arguments.items() if name != "name"})
    plain.merge(metric)  # names may differ
