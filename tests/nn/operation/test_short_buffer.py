"""NumPy's buffer while numbers repeat along long rows."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import nn
from nn.operation.broadcasting import ShortBuffer, repeated_row
from nn.operation.operation import Mode
from nn.random import keyed


@pytest.mark.parametrize(("length", "size", "expected"), [(1024, 1 << 15, True), (64, 1 << 15, False), (1024, 2048, False)])
def test_the_buffer_is_short_only_where_rows_are_long_and_many(length: int, size: int, expected: bool) -> None:
    before = np.getbufsize()
    with ShortBuffer(length, size):
        assert (np.getbufsize() < before) is expected
    assert np.getbufsize() == before


def test_an_error_restores_the_buffer() -> None:
    before = np.getbufsize()
    with pytest.raises(ZeroDivisionError), ShortBuffer(1024, 1 << 15):
        raise ZeroDivisionError
    assert np.getbufsize() == before


@pytest.mark.parametrize("kind", [nn.activation.Softmax, nn.activation.LogSoftmax])
def test_long_rows_have_the_bits_that_they_have_with_the_usual_buffer(
    monkeypatch: pytest.MonkeyPatch, kind: type[nn.activation.Activation]
) -> None:
    x, gradient = (keyed(1, name).standard_normal((32, 1024)).astype(np.float32) for name in ("x", "gradient"))
    found = []
    for short in (512, 8192):
        monkeypatch.setattr("nn.operation.broadcasting._SHORT_BUFFER", short)
        operation, output, target = kind(), np.empty_like(x), np.empty_like(x)
        operation.allocate([x.shape], x.shape, x.dtype)
        operation.begin(Mode(training=True), 0)
        operation.forward([x], output)
        operation.backward([x], output, gradient, [target])
        found.append(output.tobytes() + target.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((8, 4, 3), (8, 4, 3), 0),
        ((8, 4, 3), (3,), 3),
        ((8, 4, 3), (1, 4, 3), 12),
        ((8, 4, 3), (8, 1, 1), 12),
        ((8, 4, 3), (8, 1, 3), 3),
        ((8, 4, 3), (), 0),
        ((8, 1), (1, 5), 5),
    ],
)
def test_the_row_that_repeats_is_found(first: tuple[int, ...], second: tuple[int, ...], expected: int) -> None:
    assert repeated_row(first, second) == repeated_row(second, first) == expected


def test_arithmetic_of_long_rows_has_the_bits_that_it_has_with_the_usual_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    x = keyed(1, "x").standard_normal((16, 32, 32, 3)).astype(np.float32)
    statistics = keyed(1, "row").random((1, 32, 32, 3)).astype(np.float32) + 1
    buffers: list[int] = []
    for kind, function in ((nn.operation.Subtract, np.subtract), (nn.operation.Divide, np.divide)):
        operation, output = kind(), np.empty_like(x)

        def told(*given: np.ndarray, of: np.ufunc = function, out: np.ndarray) -> None:
            buffers.append(np.getbufsize())
            of(*given, out=out)

        operation.allocate([x.shape, statistics.shape], x.shape, x.dtype)
        monkeypatch.setattr(kind, "function", staticmethod(told))
        operation.forward([x, statistics], output)
        assert output.tobytes() == function(x, statistics).tobytes()
    assert buffers == [512, 512]


def test_each_thread_gets_its_own_size_back() -> None:
    """Threads of a model share the context; another size is that of the thread in which the program has set it."""
    buffer, inside, left = ShortBuffer(1024, 1 << 15), threading.Event(), threading.Event()

    def other() -> None:
        with buffer:
            inside.set()
            assert left.wait(60)

    thread = threading.Thread(target=other)
    usual = np.setbufsize(4096)
    try:
        with buffer:
            thread.start()
            assert inside.wait(60)
        assert np.getbufsize() == 4096
        with buffer, ShortBuffer(2048, 1 << 15):
            assert np.getbufsize() == 512
        assert np.getbufsize() == 4096
    finally:
        np.setbufsize(usual)
        left.set()
        thread.join()
