from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.value import Placeholder, Value, Variable
from tests.nn.graphs import Compiled

X = np.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[:], lambda x: x[...], lambda x: x[:, 1], lambda x: x[:, -1, 2:], lambda x: x[:, :, None],
        lambda x: x[..., 0], lambda x: x[:, ..., 1:3, ::2], lambda x: x[:, 1:3, -1], lambda x: x[:, ::-1, :, 4:0:-2],
        lambda x: x[:, [2, 0]], lambda x: x[:, :, np.array([[0, 3], [1, 1]])], lambda x: x[..., [-1, 0, -1]],
        lambda x: x[:, :2, None, [3, 1]], lambda x: x[:, np.int64(2)], lambda x: x[:, (1, 0), 1:],
        lambda x: x[:, range(2)], lambda x: x[:, 5 - 4, ..., -1:],
    ],
)  # fmt: skip
def test_parts_are_numpys(take: Callable[[Any], Any]) -> None:
    compiled = Compiled(take, X.shape[1:])
    expected = take(X)
    assert compiled.graph.output.shape == (-1, *expected.shape[1:])
    np.testing.assert_array_equal(compiled.value(X), expected)
    gradient, _ = compiled.gradients(X, expected)
    scattered = np.zeros_like(X)
    np.add.at(scattered, index_of(take), expected)
    np.testing.assert_array_equal(gradient, scattered)


def index_of(take: Callable[[Any], Any]) -> Any:
    class Recorder:
        def __getitem__(self, key: Any) -> Any:
            return key

    return take(Recorder())


@settings(max_examples=40, deadline=None, database=None)
@given(data=st.data())
def test_any_slices(data: st.DataObject) -> None:
    whole = Placeholder((-1, 4, 5))
    key: list[Any] = [slice(None)]
    for length in (4, 5):
        kind = data.draw(st.sampled_from(["slice", "integer", "none and slice"]))
        if kind == "none and slice":
            key.append(None)
        key.append(data.draw(st.integers(-length, length - 1) if kind == "integer" else st.slices(length)))
    numbers = np.arange(60.0).reshape(3, 4, 5)
    expected = numbers[tuple(key)]
    if 0 in expected.shape:
        with pytest.raises(ValueError, match="leaves nothing of axis"):
            whole[tuple(key)]
    else:
        np.testing.assert_array_equal(Compiled(lambda x: x[tuple(key)], (4, 5)).value(numbers), expected)


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda x: x[0], r"Index: axis 0 of shape \(-1, 3, 4\) is the batch, where only ':' may stand, got 0"),
        (lambda x: x[1:], r"is the batch, where only ':' may stand, got slice\(1, None, None\)"),
        (lambda x: x[[0, 1]], "is the batch, where only ':' may stand"),
        (lambda x: x[:, 3], r"Index: 3 is out of range for axis 1 of shape \(-1, 3, 4\)"),
        (lambda x: x[:, :, [0, -5]], r"Index: -5 is out of range for axis 2 of shape \(-1, 3, 4\)"),
        (lambda x: x[:, 2:1], r"Index: slice\(2, 1, None\) leaves nothing of axis 1 of shape \(-1, 3, 4\)"),
        (lambda x: x[:, 0, 0, 0], r"Index: 4 indices for the 3 axes of shape \(-1, 3, 4\)"),
        (lambda x: x[..., 0, ...], r"Index: '\.\.\.' may stand once"),
        (lambda x: x[:, 0, [1, 2]], r"Index: an array of integers stands with slices only, got .*; index in two steps"),
        (lambda x: x[:, [0], [1]], "index in two steps"),
    ],
)
def test_what_does_not_fit_is_refused(take: Callable[[Value], Value], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        take(Placeholder((-1, 3, 4)))


@pytest.mark.parametrize("entry", [1.0, True, "a", [True, False, True], [0.5], [], np.zeros(2)])
def test_other_indices_are_refused(entry: Any) -> None:
    with pytest.raises(TypeError, match=r"Index: an index is an integer, a slice, None, '\.\.\.' or a list of integers, got"):
        Placeholder((-1, 3, 4))[:, entry]


def test_variables_have_no_batch() -> None:
    w = Variable((3, 4))
    assert w[0].shape == (4,)
    assert w[[2, 2, 1]].shape == (3, 4)
    assert w[0, 1].shape == ()
    assert w[1:, None].shape == (2, 1, 4)


def test_the_batch_is_recognised_wherever_it_is() -> None:
    moved = Placeholder((-1, 3)).T
    assert moved[1].shape == (-1,)
    with pytest.raises(ValueError, match=r"axis 1 of shape \(3, -1\) is the batch"):
        moved[:, 0]
