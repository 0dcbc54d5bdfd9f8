"""Lazily aggregated gradients: what is skipped, and that training does not suffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallel_sgd.channel import Parameter_Server
from parallel_sgd.codec import LAQ, BlockWeight, Codec, GlobalSettings
from parallel_sgd.codec.compose import PS, AllToAll, Lazy
from parallel_sgd.codec.pipeline import Draw, Pipeline
from parallel_sgd.codec.pipeline.memory import DiffRef
from parallel_sgd.codec.pipeline.quantize import Grid
from parallel_sgd.profiles import IIDBlockAssignment
from tests.parallel_sgd.codec.compositions import bits, codec_of, run

WORKERS = 4


class Regression:
    """Logistic regression on four workers with whole data: convex, without noise."""

    def __init__(self, kind: type[Codec], parameters: dict[str, Any] | None = None, steps: int = 400) -> None:
        rng = np.random.default_rng(5)
        x = rng.standard_normal((WORKERS, 50, 10)) * rng.uniform(0.3, 1.5, (WORKERS, 1, 1))
        truth = rng.standard_normal(10)
        self.x, self.y = x, np.where(x @ truth + rng.normal(0, 1, x.shape[:2]) > 0, 1.0, -1.0)
        nodes = [*range(WORKERS), *([Parameter_Server] if kind.needs_server else [])]
        w, self.uploads, self.losses = np.zeros(10), 0, []
        with GlobalSettings.use(IIDBlockAssignment(WORKERS), parameters) as job:
            self.codecs: dict[int, Any] = {node: kind(node) for node in nodes}
            for step in range(steps):
                job.step = (0, step)
                gradients = [self.gradient(node, w) for node in range(WORKERS)]
                w = w - self.exchange(gradients)
                self.losses.append(self.loss(w))

    def exchange(self, gradients: list[np.ndarray]) -> np.ndarray:
        packets: list[Any] = []
        for node, value in enumerate(gradients):
            packets += self.codecs[node].update_blocks(BlockWeight(value.astype(np.float32), node)) or ()
        self.uploads += sum(packet.content[-1] is not None for packet in packets)
        while packets:
            packet = packets.pop(0)
            for target in packet.targets:
                packets += self.codecs[target].receive_blocks(packet.content) or ()
        results = [codec.get_result() for node, codec in self.codecs.items() if node >= 0]
        assert len({result.tobytes() for result in results}) == 1
        return np.asarray(results[0], np.float64)

    def gradient(self, node: int, w: np.ndarray) -> np.ndarray:
        margin = self.y[node] * (self.x[node] @ w)
        return -(self.x[node] * (self.y[node] / (1 + np.exp(margin)))[:, None]).mean(axis=0) + 1e-2 * w

    def loss(self, w: np.ndarray) -> float:
        return float(np.log1p(np.exp(-self.y * (self.x @ w))).mean() + 5e-3 * w @ w)


def test_few_uploads_reach_the_optimum() -> None:
    """codecs.md: f - f* <= 1e-3 with at most 30 % of the uploads of gradient descent."""
    best = min(Regression(Codec.of(AllToAll()), steps=2000).losses)
    lazy, eager = Regression(LAQ), Regression(Codec.of(AllToAll()))
    reached = [next(step for step, loss in enumerate(run.losses) if loss - best <= 1e-3) for run in (lazy, eager)]
    assert lazy.losses[-1] - best <= 1e-3
    assert lazy.uploads <= 0.3 * WORKERS * len(lazy.losses)
    assert reached[0] <= 2 * reached[1]


def test_the_server_merges_the_sum_of_all_uploads() -> None:
    """codecs.md, LAQ: always, to 1e-6; both sides know the same."""
    job = Regression(LAQ, steps=60)
    server = job.codecs[Parameter_Server].encoders.uploads.state_dict()
    for node in range(WORKERS):
        own = job.codecs[node].encoders.uploads.state_dict()
        np.testing.assert_array_equal(own[f"upload.{node}"], server[f"upload.{node}"])
        assert job.codecs[node].encoders.uploads.skipped > 0


@pytest.mark.parametrize("exchange", [AllToAll(), PS()], ids=repr)
def test_without_patience_it_is_difference_coding(exchange: Any) -> None:
    """codecs.md: xi = 0 and t_max = 1 is quantized gradient descent."""
    lazy = Codec.of(exchange, up=Grid(4), trigger=Lazy(xi=0, most=1))
    eager = Codec.of(exchange, up=DiffRef(Grid(4)))
    assert bits(run(lazy, IIDBlockAssignment(3), batches=6)) == bits(run(eager, IIDBlockAssignment(3), batches=6))


def test_a_skipped_packet_has_no_payload() -> None:
    job = run(Codec.of(PS(), up=Grid(4), trigger=Lazy(xi=1e12, most=3)), IIDBlockAssignment(3), batches=7)
    uploads = codec_of(job).encoders.uploads
    assert (uploads.sent, uploads.skipped) == (3, 4), "batches 0, 3 and 6"
    assert job.server_bank.codecs[0].staleness == {0: 3 * 3, 1: 2 * 3, 2: 2 * 3}, "uploads of three workers, used again"
    sent = job.exchanges[0].accounts.total("sent")
    assert sent.raw == 3 * ((4 + 6) + (4 + 2))


def test_the_grid() -> None:
    """4 + ceil(n b / 8) bytes; no value is wrong by more than half a step."""
    rng = np.random.default_rng(0)
    for bits_ in (2, 4, 8):
        for n in (0, 1, 7, 513, 70_001):
            x, draw = rng.standard_normal(n).astype(np.float32), Draw(0, 0, 0, 0, 0)
            payload = Pipeline(Grid(bits_)).encode(x, draw)
            if Pipeline(Grid(bits_)).is_dense(n):
                continue
            assert payload.size == 4 + -(-n * bits_ // 8)
            back = Pipeline(Grid(bits_)).decode(payload, (n,), draw)
            radius = np.abs(x).max(initial=0)
            assert np.abs(back - x).max(initial=0) <= radius / (2**bits_ - 1) * (1 + 1e-5)
            assert np.abs(back).max(initial=0) == radius
    assert not Pipeline(Grid(4)).decode(Pipeline(Grid(4)).encode(np.zeros(100), draw), (100,), draw).any()
    assert Grid(8).delta(100) == pytest.approx(1 - 99 / 255**2)
    assert Grid(2).delta(100) is None
    with pytest.raises(ValueError, match="Grid 'bits' must be 2, 4 or 8, got 3"):
        Grid(3)
