"""Terms of a researcher's own in the objectives of clients, clients that do less work, and statistics that stay with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.gradient_descent import IGradientDescent
from nn.random import keyed
from parallel_sgd import Clients, ParallelSGD, in_process, local_workers
from parallel_sgd.federated import ClientClock, ClientTerm, load_client
from parallel_sgd.federated.population import Population, deal
from tests.parallel_sgd.federated.reference import arrays, gradient, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, trained
from tests.statements import covers

ALPHA = 0.3


class Dynamic(ClientTerm, configured=True):
    """Term of FedDyn (Acar et al., 2021): -<h_i, w> + alpha / 2 |w - w_t|^2, with h_i <- h_i - alpha (w_i - w_t)."""

    remembers = ("h",)

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def gradient(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Array:
        return self.alpha * (values - start) - memory["h"]

    def remember(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"h": memory["h"] - self.alpha * (values - start)}


class DynamicServer(IGradientDescent, configured=True):
    """Server of FedDyn: h <- h + alpha share g, w <- w - g - h / alpha, where g is the mean change of the chosen clients."""

    slots = ("h",)

    def __init__(self, alpha: float, share: float) -> None:
        super().__init__(1.0)
        self.alpha, self.share = alpha, share

    def increment(self, value: Array, gradient: Array, out: Array, *slots: Array) -> None:
        (h,) = slots
        h += self.alpha * self.share * gradient
        np.negative(gradient + h / self.alpha, out=out)


def fed_dyn(**changes: Any) -> Clients:
    share = 6 / changes.get("count", 30)
    return clients(**{"term": Dynamic(ALPHA), "server": DynamicServer(ALPHA, share), "weigh": "equal", **changes})


def visits(rows: list[Array], number: int, epochs: Mapping[int, int] | int = 2) -> dict[int, list[Array]]:
    """The batches of the clients of a round."""
    found: dict[int, list[Array]] = {}
    for client in sorted(keyed(11, "clients", number).choice(len(rows), 6, replace=False).tolist()):
        found[client] = []
        for epoch in range(epochs if isinstance(epochs, int) else epochs[client]):
            order = rows[client][keyed(11, "client", number, client, epoch).permutation(len(rows[client]))]
            found[client] += [order[at : at + 7] for at in range(0, len(order), 7)]
    return found


def test_fed_dyn_equals_plain_numpy(tmp_path: Path) -> None:
    given = fed_dyn()
    rows = deal(given, arrays()[1], 11)
    x, y = (np.asarray(each, np.float64) for each in arrays()[:2])
    start = model().store.values.copy()
    common, server, own = start.copy(), np.zeros_like(start), np.zeros((30, start.size))
    for number in range(20):
        found = []
        for client, batches in visits(rows, number).items():
            w = common.copy()
            for part in batches:
                w -= 0.2 * (gradient(w, x[part], y[part]) + ALPHA * (w - common) - own[client])
            own[client] -= ALPHA * (w - common)
            found.append(w)
        server -= ALPHA / 30 * sum(w - common for w in found)
        common = np.mean(found, axis=0) - server / ALPHA
    change = np.abs(common - start).max()
    assert np.abs(trained(given, 1, tmp_path) - common).max() < 1e-12 * change
    assert np.abs(trained(given, 2, tmp_path, dtype="float32") - common).max() < 1e-5 * change


@covers("RES-1")
@pytest.mark.processes
def test_what_clients_remember_for_a_term_goes_on_after_a_kill_and_on_other_workers(tmp_path: Path) -> None:
    given = fed_dyn(count=9, rounds=3, stragglers=0.5)
    expected = trained(given, 1, tmp_path / "here", epoch=3)
    trained(given, 2, tmp_path, epoch=2, checkpoint_every="epoch")
    assert trained(given, 3, tmp_path, epoch=3, resume="last").tobytes() == expected.tobytes()
    with local_workers(2) as nodes:
        result = job().parallel(
            nodes,
            clients=given,
            directory=tmp_path / "far",
            on_failure="restart",
            fault="kill 1@e2.b3",
            **{**OPTIONS, "epoch": 3},
        )
    assert result.restarts == 1
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected.tobytes()}


@pytest.mark.parametrize("weigh", ["samples", "steps"])
def test_stragglers_make_fewer_passes_and_equal_plain_numpy(weigh: Any, tmp_path: Path) -> None:
    given = clients(epochs=5, stragglers=0.7, weigh=weigh)
    rows = deal(given, arrays()[1], 11)
    population = Population(given, [len(each) for each in rows], 11, 7)
    x, y = (np.asarray(each, np.float64) for each in arrays()[:2])
    start = model().store.values.copy()
    common, counts = start.copy(), list[int]()
    for number in range(20):
        drawn = {client: population.passes(client, number) for client in range(30)}
        changes, samples, steps = [], [], []
        for client, batches in visits(rows, number, drawn).items():
            w = common.copy()
            for part in batches:
                w -= 0.2 * gradient(w, x[part], y[part])
            changes.append(common - w)
            samples.append(len(rows[client]))
            steps.append(len(batches))
            counts.append(drawn[client])
        shares = np.array(samples) / sum(samples)
        factors = shares * (shares @ steps) / steps if weigh == "steps" else shares
        common -= factors @ np.array(changes)
    assert set(counts) == {1, 2, 3, 4, 5} and 0.3 < np.mean(np.array(counts) == 5) < 0.6
    change = np.abs(common - start).max()
    found = trained(given, 1, tmp_path)
    assert np.abs(found - common).max() < 1e-12 * change
    assert trained(given, 3, tmp_path).tobytes() == found.tobytes()


def normed() -> nn.model.Model:
    made = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(12), nn.layer.BatchNorm(), nn.layer.Dense(10, "softmax")], seed=1)
    made.setup("crossentropy_with_softmax")
    return made


@pytest.mark.parametrize("personal", ["batch_norm", "batch_norm/moving_mean"])
def test_statistics_of_a_personal_layer_stay_with_each_client(personal: str, tmp_path: Path) -> None:
    layer = next(each.name.rpartition("/")[0] for each in normed().store.buffers)
    given = clients(personal=personal.replace("batch_norm", layer))
    found = []
    for workers in (1, 3):
        with in_process(workers) as nodes:
            result = ParallelSGD(normed(), nn.dataset.ArrayDataset(*arrays())).parallel(
                nodes, clients=given, directory=tmp_path, checkpoint_every="epoch", **{**OPTIONS, "epoch": 1}
            )
        store = result.models[0].store
        found.append(store.values.tobytes() + store.buffer_values.tobytes())
    assert found[0] == found[1]
    start, stays = normed().store, {each.name for each in store.buffers if each.name.startswith(given.personal[0])}
    assert len(stays) == (2 if personal == "batch_norm" else 1)
    for before, after in zip(start.buffers, store.buffers, strict=True):
        assert np.array_equal(before.value, after.value) == (after.name in stays)
    sent = sum(each.value.nbytes for each in (*store.variables, *store.buffers) if not each.name.startswith(given.personal[0]))
    assert {row["bytes_up"] for row in result.history.clients} == {sent}
    newest = max(tmp_path.rglob("checkpoint-*.safetensors"), key=lambda path: path.name)
    made = normed()
    means = [made.store.buffers[0].value.copy() for client in range(30) if load_client(made, newest, client)]
    assert len(means) > 6 and np.ptp(means, axis=0).max() > 0.01


class Wrong(Dynamic):
    def gradient(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Array:
        return values[:-1]


class Forgetful(Dynamic):
    def remember(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"g": values}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (r"Wrong.gradient\(\) must have the shape \(910,\) of the parameters, got \(909,\)", {"term": Wrong(1.0)}),
        (r"Forgetful.remember\(\) must return the vectors h, got g", {"term": Forgetful(1.0)}),
        ("'weigh' can be 'steps' .* got SGDOptimizer and term=Dynamic", {"term": Dynamic(1.0), "weigh": "steps"}),
    ],
)
def test_a_wrong_term_is_told(words: str, changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        trained(clients(**changes), 1, tmp_path)


class Silent(ClientTerm):
    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def gradient(self, values: Array, start: Array, memory: Mapping[str, Array]) -> Array:
        return self.alpha * values


def test_a_part_that_does_not_tell_its_arguments_is_refused() -> None:
    """Two runs with other arguments would be the same one to a sweep."""
    with pytest.raises(TypeError, match=r"Clients 'term' Silent must tell its argument 'alpha': .* Silent\(ClientTerm, config"):
        clients(term=Silent(0.1))


def test_stragglers_are_a_share_and_need_clients_without_a_clock() -> None:
    with pytest.raises(ValueError, match="'stragglers' must be"):
        clients(stragglers=1.5)
    with pytest.raises(ValueError, match=r"'stragglers' is for clients without a clock; on a clock TimedSampler"):
        clients(stragglers=0.5, clock=ClientClock("5ms"))
