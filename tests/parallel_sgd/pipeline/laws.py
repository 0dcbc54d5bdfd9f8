"""The generic laws of codec stages: each takes a function that makes a fresh one.

A sender and a receiver are always two stages of their own, as they are on two nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from parallel_sgd.codec.pipeline import Draw, PayloadError, Pipeline, Stage

Array = NDArray[Any]
Make = Callable[[], Stage]

SIZES = (0, 1, 7, 8, 9, 511, 512, 513, 65535, 65536, 65537, 1_000_003)
DRAW = Draw(seed=7, epoch=0, batch=3, variable=1, node=0)


def gaussian(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def encoded(make: Make, x: Array, draw: Draw = DRAW) -> Array:
    """The payload of a fresh stage."""
    return Pipeline(make()).encode(x, draw)


def sent(make: Make, x: Array, draw: Draw = DRAW) -> Array:
    """What a receiver makes of the payload."""
    return Pipeline(make()).decode(encoded(make, x, draw), x.shape, draw).copy()


def check_sizes(make: Make, size: Callable[[int], int], *, exact: bool = True) -> None:
    """`wire_bytes` is `size(n)`, never more than dense, and what is really sent, or at least that where not `exact`."""
    receiver = Pipeline(make())
    for n in SIZES:
        pipeline = Pipeline(make())
        assert pipeline.wire_bytes(n) == min(size(n), 4 * n), n
        payload = pipeline.encode(gaussian(n), DRAW)
        assert payload.dtype == np.uint8
        if exact or pipeline.is_dense(n):
            assert payload.size == pipeline.wire_bytes(n), n
        assert payload.size <= pipeline.wire_bytes(n), n
        decoded = receiver.decode(payload, (n,), DRAW)
        assert (decoded.shape, decoded.dtype) == ((n,), np.float32)
        assert np.isfinite(decoded).all()


def check_shapes(make: Make) -> None:
    """Any shape, order, float type; also read-only; the result is that of the plain vector; no input is changed (LAW-1)."""
    wide = gaussian(40, 36)
    shaped = [gaussian(*shape) for shape in ((), (33,), (5, 7), (3, 4, 5), (2, 3, 4, 5), (0, 4), (300, 40))]
    typed = [gaussian(700).astype(kind) for kind in (np.float64, np.float16)]
    for x in (*shaped, wide[::2, 1::3], wide.T, wide[::-1], *typed):
        before = x.tobytes()
        x.setflags(write=False)
        result = sent(make, x)
        assert (result.shape, result.dtype) == (x.shape, np.float32)
        assert x.tobytes() == before
        vector = np.ascontiguousarray(x, np.float32).reshape(-1)
        np.testing.assert_array_equal(result, sent(make, vector).reshape(x.shape))


def check_edges(make: Make, *, zeros: bool = True) -> None:
    """Zeros, constants, signed zeros, denormals, single and huge numbers give finite ones; NaN and infinity raise (LAW-1)."""
    tiny, huge = np.float32(1e-45), np.finfo(np.float32).max
    for n in (1, 5, 1000, 70_000):
        if zeros:
            assert not sent(make, np.zeros(n, np.float32)).any()
            assert not sent(make, np.full(n, -0.0, np.float32)).any()
        for value in (1.0, -1.0, 1e-3, tiny, -tiny, 1e-30, 1e30, huge, -huge):
            assert np.isfinite(sent(make, np.full(n, value, np.float32))).all(), (n, value)
        mixed = gaussian(n)
        mixed[::3] = np.resize(np.array([0.0, -0.0, tiny, -tiny, huge, -huge, 1e-20], np.float32), mixed[::3].size)
        assert np.isfinite(sent(make, mixed)).all()
        for bad in (np.nan, np.inf, -np.inf):
            mixed[n // 2] = bad
            with pytest.raises(ValueError, match="finite"):
                encoded(make, mixed)


def check_determinism(make: Make) -> None:
    """Equal keys give equal bytes; different steps, variables and nodes different ones where random numbers matter (LAW-2)."""
    x, stage = gaussian(3000), make()
    payload = encoded(make, x)
    np.testing.assert_array_equal(payload, encoded(make, x))
    for name in ("seed", "epoch", "batch", "variable", "node"):
        other = encoded(make, x, DRAW._replace(**{name: 11}))
        differs = not stage.deterministic and not (name == "node" and stage.shared_seed)
        assert np.array_equal(payload, other) is not differs, name


def check_damage(make: Make) -> None:
    """A payload that is too short or too long is refused."""
    for n in (9, 3000):
        payload = encoded(make, gaussian(n))
        for damaged in (payload[:-1], payload[: payload.size // 2], np.append(payload, np.uint8(0)), payload[:0]):
            with pytest.raises(PayloadError):
                Pipeline(make()).decode(damaged, (n,), DRAW)


def check_contraction(make: Make) -> None:
    """||C(x) - x||^2 <= (1 - delta) ||x||^2 for what `delta` declares, also for vectors made to be hard (LAW-4)."""
    for n in (1, 2, 33, 1000, 70_000):
        delta = make().delta(n)
        if delta is None:
            continue
        assert 0 < delta <= 1, (n, delta)
        spike, ramp = np.full(n, 1e-3, np.float32), np.linspace(-1, 3, n, dtype=np.float32)
        spike[n // 2] = 1
        for x in (gaussian(n), gaussian(n) ** 5, np.ones(n, np.float32), -ramp, spike, np.eye(1, n, dtype=np.float32)[0]):
            assert error(sent(make, x), x) <= (1 - delta) * square(x) * (1 + 1e-6) + 1e-12 * square(x), n


def check_linearity(make: Make) -> None:
    """Decoding the sum of payloads, of different nodes too, gives the sum of what the payloads decode to (LAW-6)."""
    if not make().linear:
        return
    inputs, draws = [gaussian(3000), gaussian(3000, seed=1)], [DRAW, DRAW._replace(node=5)]
    total = sum(encoded(make, x, draw).view(np.float32) for x, draw in zip(inputs, draws, strict=True))
    decoded = Pipeline(make()).decode(np.asarray(total, np.float32).view(np.uint8), (3000,), DRAW)
    apart = [sent(make, x, draw) for x, draw in zip(inputs, draws, strict=True)]
    np.testing.assert_allclose(decoded, apart[0] + apart[1], rtol=1e-6, atol=1e-6)


def check_state(make: Make) -> None:
    """Two ends that are made anew and loaded before every step send and read the bits of two that go on (LAW-5)."""
    n, kept = 1000, ({}, {})
    ends = make(), make()
    whole = [Pipeline(end) for end in ends]
    for batch in range(8):
        draw, x = DRAW._replace(batch=batch), gaussian(n, seed=batch)
        again = make(), make()
        for stage, state in zip(again, kept, strict=True):
            stage.load_state_dict(state or make().state_dict())
        sender, receiver = (Pipeline(stage) for stage in again)
        payload = whole[0].encode(x, draw)
        assert sender.encode(x, draw).tobytes() == payload.tobytes()
        wanted = whole[1].decode(payload, (n,), draw).tobytes()
        assert receiver.decode(payload, (n,), draw).tobytes() == wanted
        kept = tuple({name: np.copy(value)[()] for name, value in stage.state_dict().items()} for stage in again)
    second = make()
    second.load_state_dict(ends[0].state_dict())
    before = {name: np.copy(value) for name, value in second.state_dict().items()}
    whole[0].encode(gaussian(n), DRAW)
    for name, value in second.state_dict().items():
        np.testing.assert_array_equal(value, before[name], "what is loaded is a copy")
    second.load_state_dict(make().state_dict())
    assert Pipeline(second).encode(gaussian(n), DRAW).tobytes() == encoded(make, gaussian(n)).tobytes(), "it starts afresh"
    with pytest.raises(ValueError, match=r"remembers? |state must hold"):
        second.load_state_dict({"x": np.zeros((3, 1))})


class Moments(NamedTuple):
    """What many draws of one vector gave, in float64: `variance` is the mean of ||C(x) - x||^2 as a share of ||x||^2."""

    mean: Array
    deviation: Array
    variance: float
    largest: float


def moments(make: Make, x: Array, draws: int = 4000) -> Moments:
    """Send one vector under many keys."""
    sender, receiver = Pipeline(make()), Pipeline(make())
    total, squares, errors, largest = np.zeros(x.shape), np.zeros(x.shape), 0.0, 0.0
    for batch in range(draws):
        draw = DRAW._replace(batch=batch)
        away = receiver.decode(sender.encode(x, draw), x.shape, draw).astype(np.float64) - x
        total += away
        squares += away * away
        errors += float((away * away).sum())
        largest = max(largest, float(np.abs(away).max()))
    away = total / draws
    deviation = np.sqrt(np.maximum(squares / draws - away * away, 0) * draws / (draws - 1))
    return Moments(away + x, deviation, errors / draws / square(x), largest)


def check_unbiased(found: Moments, x: Array, draws: int = 4000, bias: float = 0.0) -> None:
    """The mean over the draws is `x`, up to what chance does to it and a known `bias` (2^-16 of a scale) (LAW-3).

    A choice of small probability may not have come up once, so that its deviation is not seen: the inequality of Bernstein
    for what is observed gives 32 times the largest difference, divided by the number of draws, for that. What makes the test
    sharp is the mean over all elements: the root mean square of their z is 1.
    """
    away, spread = found.mean - x, found.deviation / np.sqrt(draws)
    rounding = 1e-6 * np.abs(x)
    assert (np.abs(away) <= bias + rounding + 5.5 * spread + 32 * found.largest / draws).all()
    random = spread > rounding + bias
    if random.sum() > 500:
        assert 0.9 <= np.sqrt(np.mean((away[random] / spread[random]) ** 2)) <= 1.1


def square(x: Array) -> float:
    """||x||^2 in float64."""
    wide = np.asarray(x, np.float64).reshape(-1)
    return float(wide @ wide)


def error(y: Array, x: Array) -> float:
    """||y - x||^2 in float64."""
    return square(np.asarray(y, np.float64) - np.asarray(x, np.float64))
