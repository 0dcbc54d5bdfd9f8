"""Papers as a researcher writes them: what a server remembers of each client, a step of its own, clients in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nn.arrays import Array
from nn.random import keyed
from parallel_sgd import in_process, local_workers
from parallel_sgd.codec import Codec
from parallel_sgd.codec.compose import AllToAll, MergeRule, Round
from parallel_sgd.federated import Sampler
from parallel_sgd.federated.population import deal
from tests.parallel_sgd.federated.reference import Scheme, arrays, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, trained
from tests.statements import covers


class LastChanges(MergeRule):
    """FedVARP (Jhunjhunwala et al., 2022): mean_j y_j + mean_i (d_i - y_i), where y_j is the last change of client j."""

    scope = "model"
    whole = True
    keeps = ("changes",)

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._changes: Array | None = None

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round) -> Array:
        if self._changes is None:
            self._changes = np.zeros((self.clients, parts[0].size), parts[0].dtype)
        mean, chosen = self._changes.mean(axis=0), [*round_.nodes]
        news = np.array(parts) - self._changes[chosen]
        self._changes[chosen] = parts
        return np.asarray(mean + news.mean(axis=0))


class Extrapolation(MergeRule):
    """FedExP (Jhunjhunwala, Wang and Joshi, 2023): the mean times max(1, sum |d_i|^2 / (2 m (|mean|^2 + epsilon)))."""

    scope = "model"
    whole = True

    def __init__(self, epsilon: float = 1e-3) -> None:
        self.epsilon = epsilon

    def combine(self, parts: Sequence[Array], weights: Sequence[float], round_: Round) -> Array:
        mean = np.mean(parts, axis=0)
        squares = sum(float(part @ part) for part in parts)
        step = squares / (2 * len(parts) * (float(mean @ mean) + self.epsilon))
        return np.asarray(mean * mean.dtype.type(max(1.0, step)))


class InTurn(Sampler, configured=True):
    """Cyclic participation (Cho et al., 2023): clients of one group in each round, groups in turn."""

    def __init__(self, number: int, groups: int) -> None:
        self.number, self.groups = number, groups

    def slots(self, clients: int) -> int:
        return self.number

    def choose(self, sizes: Array, number: int, random: np.random.Generator) -> NDArray[np.int64]:
        return random.choice(np.arange(number % self.groups, len(sizes), self.groups), self.number, replace=False)


VARIANCE_REDUCED = Codec.of(AllToAll(), merge=LastChanges(30), name="FedVARP")
EXTRAPOLATED = Codec.of(AllToAll(), merge=Extrapolation(), name="FedExP")


def last_changes() -> Callable[[int, list[Array]], Array]:
    kept: dict[int, Array] = {}

    def merged(number: int, changes: list[Array]) -> Array:
        chosen = sorted(keyed(OPTIONS["seed"], "clients", number).choice(30, 6, replace=False).tolist())
        news: Any = sum(each - kept.get(client, 0.0) for client, each in zip(chosen, changes, strict=True))
        mean = sum(kept.values()) / 30
        kept.update(zip(chosen, changes, strict=True))
        return np.asarray(mean + news / 6)

    return merged


def extrapolated(number: int, changes: list[Array]) -> Array:
    mean: Any = sum(changes) / len(changes)
    step = max(1.0, sum(each @ each for each in changes) / (2 * len(changes) * (mean @ mean + 1e-3)))
    # else it would be FedAvg
    assert number or step > 1
    return np.asarray(step * mean)


@pytest.mark.parametrize(("codec", "merged"), [(VARIANCE_REDUCED, last_changes), (EXTRAPOLATED, lambda: extrapolated)])
def test_a_server_of_a_users_own_equals_plain_numpy(codec: Any, merged: Any, tmp_path: Path) -> None:
    given = clients(weigh="equal")
    start = model().store.values.copy()
    rows, size, seed = deal(given, arrays()[1], OPTIONS["seed"]), OPTIONS["block_size"], OPTIONS["seed"]
    scheme = Scheme(rows, 6, 2, size, 0.2, seed, merged=merged())
    expected = scheme.run(start, rounds=20)
    change = np.abs(expected - start).max()
    found = [trained(given, workers, tmp_path, codec=codec) for workers in (1, 2)]
    assert found[0].tobytes() == found[1].tobytes()
    assert np.abs(found[0] - expected).max() < 1e-12 * change
    assert np.abs(trained(given, 1, tmp_path, codec=codec, dtype="float32") - expected).max() < 1e-5 * change


@covers("RES-1")
@pytest.mark.processes
def test_what_a_server_remembers_of_clients_goes_on_after_a_kill_and_on_other_workers(tmp_path: Path) -> None:
    given = clients(count=9, rounds=3, weigh="equal", sample=InTurn(3, 3))
    codec = Codec.of(AllToAll(), merge=LastChanges(9), name="FedVARP")
    with in_process(1) as nodes:
        one = job().parallel(nodes, clients=given, directory=tmp_path / "here", codec=codec, **{**OPTIONS, "epoch": 3})
    # groups in turn: in three rounds each client once
    assert {tuple(sorted(int(row["client"]) for row in one.history.clients if row["epoch"] == 1))} == {tuple(range(9))}
    expected = one.models[0].store.values.tobytes()
    trained(given, 2, tmp_path, epoch=2, codec=codec, checkpoint_every="epoch")
    assert trained(given, 3, tmp_path, epoch=3, codec=codec, resume="last").tobytes() == expected
    with local_workers(2) as nodes:
        options = {**OPTIONS, "epoch": 3, "on_failure": "restart", "fault": "kill 1@e2.b3"}
        result = job().parallel(nodes, clients=given, directory=tmp_path / "far", codec=codec, **options)
    assert result.restarts == 1
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected}
