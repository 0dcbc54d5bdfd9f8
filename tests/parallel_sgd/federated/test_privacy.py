"""Differential privacy of clients as a composition: equal to plain NumPy, with noise that no place of computing changes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nn.random import keyed
from parallel_sgd import local_workers
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll, MergeRule
from parallel_sgd.codec.compose.merge import Round, tree_sum
from parallel_sgd.codec.pipeline import GlobalClip, GradientStage
from parallel_sgd.codec.pipeline.stage import Draw
from parallel_sgd.federated import PoissonSampler
from parallel_sgd.federated.population import Population, deal
from tests.parallel_sgd.federated.reference import Scheme, arrays, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, trained

NORM, DEVIATION, ROUNDS = 0.8, 0.02, 5


class Noise(GradientStage):
    """Gaussian noise on the change of each client."""

    deterministic = False

    def transform(self, x: Any, draw: Draw) -> Any:
        return x + draw.generator().normal(0.0, DEVIATION, x.size).astype(x.dtype)


class NoisySum(MergeRule):
    """Sum over the clients that were sampled, with Gaussian noise, over the number that is expected."""

    whole = True

    def combine(self, parts: Any, weights: Any, round_: Round) -> Any:
        total = tree_sum(parts)
        total += round_.draw.generator().normal(0.0, NORM, total.size).astype(total.dtype)
        return total / total.dtype.type(6)


PRIVATE = Codec.of(AllToAll(), up=GlobalClip(NORM) | Noise(), name="Private")
CENTRAL = Codec.of(AllToAll(), up=GlobalClip(NORM), merge=NoisySum(), name="Central")


def clipped(change: Any) -> Any:
    return change * min(1.0, NORM / np.linalg.norm(change))


def noise(number: int, client: int, size: int) -> Any:
    """Draw of a client in a round: of seed, epoch, batch, client, and the place of the stage, the second."""
    epoch, batch = divmod(number, ROUNDS)
    return keyed(OPTIONS["seed"], "codec", epoch, batch, 0, client, 2).normal(0.0, DEVIATION, size)


def test_noise_of_each_client_equals_plain_numpy_on_any_number_of_workers(tmp_path: Path) -> None:
    given = clients(weigh="equal")
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    start = model().store.values.copy()
    lengths = []

    def sent(number: int, client: int, change: Any) -> Any:
        lengths.append(np.linalg.norm(change))
        return clipped(change) + noise(number, client, change.size)

    scheme = Scheme(rows, 6, 2, OPTIONS["block_size"], 0.2, OPTIONS["seed"], sent=sent, merged=lambda _, all_: np.mean(all_, 0))
    expected = scheme.run(start, rounds=10)
    assert min(lengths) < NORM < max(lengths)
    options: dict[str, Any] = {"codec": PRIVATE, "dtype": "float32", "epoch": 2}
    found = [trained(given, workers, tmp_path, **options) for workers in (1, 2, 3)]
    assert np.abs(found[0] - expected).max() < 1e-5 * np.abs(expected - start).max()
    assert len({each.tobytes() for each in found}) == 1
    trained(given, 2, tmp_path / "part", **{**options, "epoch": 1, "checkpoint_every": "epoch"})
    assert trained(given, 3, tmp_path / "part", resume="last", **options).tobytes() == found[0].tobytes()


def test_noise_is_another_one_for_each_client_and_round() -> None:
    drawn = [noise(number, client, 2000) for number, client in itertools.product(range(6), range(4))]
    close = [abs(np.corrcoef(first, second)[0, 1]) for first, second in itertools.combinations(drawn, 2)]
    # five standard deviations of the correlation of independent draws
    assert max(close) < 5 / np.sqrt(2000) and np.isclose(np.std(drawn), DEVIATION, rtol=0.02)


def test_noise_on_the_sum_of_a_poisson_round_is_divided_by_the_expected_number(tmp_path: Path) -> None:
    given = clients(weigh="equal", sample=PoissonSampler(0.2))
    found = [trained(given, workers, tmp_path, codec=CENTRAL, dtype="float32", epoch=1) for workers in (1, 2, 3)]
    assert len({each.tobytes() for each in found}) == 1
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    population = Population(given, [len(each) for each in rows], OPTIONS["seed"], OPTIONS["block_size"])
    counts = [len(population.chosen(number)) for number in range(ROUNDS)]
    assert min(counts) < 6 < max(counts)
    # noise of NORM / 6 for each number and round, beside which clipped changes are small: at most NORM * count / 6 together
    start, size = model("float32").store.values, model().store.values.size
    moved = np.linalg.norm(found[0] - start)
    most = NORM / 6 * (np.sqrt(size * ROUNDS) + sum(counts))
    assert NORM / 6 * (np.sqrt(size * ROUNDS) * 0.9 - sum(counts)) < moved < most * 1.1


@pytest.mark.processes
@pytest.mark.long
def test_noise_of_clients_is_the_same_after_a_kill(tmp_path: Path) -> None:
    given = clients(weigh="equal")
    expected = trained(given, 1, tmp_path / "here", codec=PRIVATE, epoch=2)
    with local_workers(2) as nodes:
        options = {**OPTIONS, "codec": PRIVATE, "epoch": 2, "on_failure": "restart", "fault": "kill 1@e2.b3"}
        result = job().parallel(nodes, clients=given, directory=tmp_path, **options)
    assert result.restarts == 1
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected.tobytes()}
