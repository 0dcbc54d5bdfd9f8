"""Evaluation of clients on samples that they hold out: of the same law, with their own variables, equal on any workers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.dataset.interface import Arrays
from nn.dataset.transforms import AbsTransformer
from parallel_sgd import Clients, ParallelSGD, in_process, local_workers
from parallel_sgd.federated import DirichletSplit, RowsSplit, load_client
from parallel_sgd.federated.population import deal, deal_all
from tests.parallel_sgd.federated.reference import arrays, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, run_psgd


def told(result: Any) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "node"} for row in result.history.client_tests]


def run(given: Clients, workers: int, folder: Path, **options: Any) -> Any:
    with in_process(workers) as nodes:
        return job().parallel(nodes, clients=given, directory=folder, **{**OPTIONS, "epoch": 2, **options})


def test_a_share_of_each_client_is_held_out_and_is_no_part_of_its_training() -> None:
    labels = np.repeat(np.arange(10), 120)
    split = DirichletSplit(0.3)
    given, whole = Clients(20, 5, split, test=0.25), Clients(20, 5, split)
    kept, held = deal_all(given, labels, 4)
    for before, rows, tests in zip(deal(whole, labels, 4), kept, held, strict=True):
        assert np.array_equal(np.sort(np.concatenate([rows, tests])), np.sort(before))
        assert len(before) < 2 or len(tests) == min(max(round(0.25 * len(before)), 1), len(before) - 1)
    shares = [np.array([np.bincount(labels[each], minlength=10) / max(len(each), 1) for each in rows]) for rows in (kept, held)]
    large = [place for place, tests in enumerate(held) if len(tests) > 15]
    assert len(large) > 3 and np.abs(shares[0] - shares[1])[large].sum(axis=1).mean() < 0.4
    few = RowsSplit([[0], [], [1, 2]])
    assert [len(each) for each in deal_all(Clients(3, 1, few, test=0.9), labels, 0)[1]] == [0, 0, 1]
    assert deal_all(whole, labels, 4)[1] == []
    with pytest.raises(ValueError, match=r"^Clients 'test' must be a number >= 0 and < 1, got 1.0"):
        Clients(3, 1, test=1.0)
    with pytest.raises(ValueError, match=r"^Clients 'test' must leave samples to evaluate on, but no client has two samples"):
        deal_all(Clients(2, 1, RowsSplit([[0], [1]]), test=0.5), labels, 0)


def test_figures_of_clients_are_those_of_their_own_models_on_any_number_of_workers(tmp_path: Path) -> None:
    given = clients(personal="dense_2", test=0.3)
    result = run(given, 1, tmp_path / "1", checkpoint_every="epoch")
    expected = told(result)
    rows = deal_all(given, arrays()[1], OPTIONS["seed"])[1]
    assert [(row["epoch"], row["client"], row["samples"]) for row in expected] == [
        (epoch, client, len(held)) for epoch in (1, 2) for client, held in enumerate(rows) if len(held)
    ]
    newest = max((tmp_path / "1").rglob("checkpoint-*.safetensors"), key=lambda path: path.name)
    made, seen, (x, y, *_) = model(), set(), arrays()
    for row in expected[len(expected) // 2 :]:
        seen.add(load_client(made, newest, int(row["client"])))
        found = made.evaluate(x[rows[int(row["client"])]], y[rows[int(row["client"])]])
        assert {name: row[name] for name in found} == found
    # models of their own and the common one
    assert seen == {True, False}
    history = result.history
    own = sorted(row["accuracy"] for row in expected if row["epoch"] == 2)
    assert history["val_clients_accuracy"][1] == fmean(own)
    assert history["val_clients_accuracy_worst"][1] == fmean(own[: math.ceil(len(own) / 10)]) < fmean(own)
    assert history["val_clients_accuracy_spread"][1] == pstdev(own) > 0
    losses = sorted(row["Loss"] for row in expected if row["epoch"] == 2)
    assert history["val_clients_Loss_worst"][1] == fmean(losses[-math.ceil(len(losses) / 10) :])
    for workers, options in ((3, {}), (4, {"redundancy": 2})):
        other = run(given, workers, tmp_path / f"{workers}", **options)
        assert told(other) == expected and {row["node"] for row in other.history.client_tests} > {0}
        values = [each.models[0].store.values.tobytes() for each in (result, other)]
        assert values[0] == values[1]


def test_the_run_tells_the_figures_of_its_clients_and_is_verified_by_them(tmp_path: Path) -> None:
    result = run(clients(test=0.3), 2, tmp_path)
    history = result.history
    frame = history.to_frame("client_tests")
    assert frame.index.names == ["epoch", "client"] and len(frame) == len(history.client_tests)
    pytest.importorskip("matplotlib")
    drawn = tmp_path / "curves.svg"
    history.plot(drawn)
    assert drawn.stat().st_size
    page = result.report.read_text()
    for words in ("worst tenth of clients", "spread over clients", "Clients on samples that they hold out, after epoch 2"):
        assert words in page
    assert "clients_accuracy<" not in page, "a name of a program"
    folder = result.files[0][0].parent.parent
    assert run_psgd("verify", str(folder), "--json")["equal"] is True
    table = next(path for path in result.files[1] if path.name.startswith("CT-"))
    head, first, *others = table.read_text().splitlines(keepends=True)
    epoch, client, samples, *rest = first.split(",")
    table.write_text("".join([head, ",".join([epoch, client, str(int(samples) + 1), *rest]), *others]))
    assert f"{table.name}" in str(run_psgd("verify", str(folder), "--json"))


@pytest.mark.processes
def test_a_lost_worker_takes_no_figures_of_clients_along(tmp_path: Path) -> None:
    given = clients(personal="dense_2", test=0.3, rounds=3)
    expected = told(run(given, 1, tmp_path / "here"))
    with local_workers(2) as nodes:
        options = {**OPTIONS, "epoch": 2, "on_failure": "restart", "fault": "kill 1@e2.b2"}
        result = job().parallel(nodes, clients=given, directory=tmp_path, **options)
    assert result.restarts == 1 and told(result) == expected
    # tables that begin with the training come home, too
    assert {path.name[:2] for path in result.files[0]} >= {"CL", "CT", "PO"}


def test_a_data_set_that_knows_its_clients_holds_out_of_each(tmp_path: Path) -> None:
    data = nn.dataset.SyntheticClients(1.0, 1.0, clients=8)
    linear = nn.model.SequentialModel([-1, 60], [nn.layer.Dense(10)], seed=0)
    linear.setup("crossentropy_with_softmax", "accuracy")
    found = []
    for workers in (1, 2):
        with in_process(workers) as nodes:
            options = {**OPTIONS, "gd_params": (0.01,), "epoch": 1}
            given = Clients(8, 4, rounds=2, test=0.2)
            result = ParallelSGD(linear, data).parallel(nodes, clients=given, directory=tmp_path / str(workers), **options)
        found.append(told(result))
    sizes = {int(row["client"]): row["samples"] for row in found[0]}
    assert found[0] == found[1] and [sizes[each] for each in range(8)] == [round(0.2 * n) for n in data.client_sizes]


class Fewer(AbsTransformer):
    """Leaves five test samples."""

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        return train_x, train_y, test_x[:5], test_y[:5]


def files_of_leaf(folder: Path) -> None:
    """Users b, a and c with samples of both parts, and d with test samples alone, who stands before c."""
    x, y, test_x, test_y = nn.dataset.Digits().load()
    parts = {"train": (x, y, {"b": 40, "a": 20, "c": 30}), "test": (test_x, test_y, {"b": 10, "d": 9, "a": 0, "c": 5})}
    for part, (samples, labels, sizes) in parts.items():
        (folder / part).mkdir(parents=True)
        ends = np.cumsum([*sizes.values()])
        data = {
            user: {"x": (samples[end - size : end].reshape(size, 64) / 255).tolist(), "y": labels[end - size : end].tolist()}
            for (user, size), end in zip(sizes.items(), ends, strict=True)
        }
        content = {"users": [*sizes], "num_samples": [*sizes.values()], "user_data": data}
        (folder / part / "all.json").write_text(json.dumps(content))


def test_clients_are_evaluated_on_the_test_samples_that_their_data_set_has_of_each(tmp_path: Path) -> None:
    files_of_leaf(tmp_path / "leaf")
    data = nn.dataset.LEAF(str(tmp_path / "leaf"))
    assert data.client_names == ("b", "a", "c") and data.client_test_sizes == (10, 0, 5)
    _, _, test_x, test_y = data.load()
    assert len(test_x) == 24, "those of users without samples to train on count for the model of all"
    network = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(8, "tanh"), nn.layer.Dense(10, "softmax")], seed=0)
    network.setup("crossentropy_with_softmax", "accuracy")

    def trained(workers: int, given: Any) -> Any:
        with in_process(workers) as nodes:
            options = {**OPTIONS, "epoch": 2, "directory": tmp_path / f"{workers} {bool(given.test)}"}
            return ParallelSGD(network, data).parallel(nodes, clients=given, **options)

    own = Clients(3, 2, rounds=2, test="own")
    result, other, without = trained(1, own), trained(2, own), trained(1, Clients(3, 2, rounds=2))
    # nothing is held out of training
    assert len({each.models[0].store.values.tobytes() for each in (result, other, without)}) == 1
    assert [(row["epoch"], row["client"], row["samples"]) for row in told(result)] == [
        (1, 0, 10), (1, 2, 5), (2, 0, 10), (2, 2, 5),
    ]  # fmt: skip
    for row, rows in zip(told(result)[2:], (slice(0, 10), slice(10, 15)), strict=True):
        found = result.models[0].evaluate(test_x[rows], test_y[rows])
        assert {name: row[name] for name in found} == found
    assert told(other) == told(result)
    assert result.history["val_clients_accuracy"][1] == fmean(row["accuracy"] for row in told(result)[2:])
    folder = result.files[0][0].parent.parent
    assert run_psgd("verify", str(folder), "--json")["equal"] is True
    assert ",test='own'" in (folder / "job.toml").read_text()


def test_own_test_samples_are_asked_of_a_data_set_that_has_them(tmp_path: Path) -> None:
    class Sized:
        client_sizes = (3, 2)

    for data, words in (
        (nn.dataset.Digits(), "that knows its clients, such as nn.dataset.LEAF, got Digits"),
        (Sized(), "'client_test_sizes', test samples of its 2 clients; Sized has 0 such numbers"),
    ):
        with pytest.raises(ValueError, match=f"^Clients 'test' can be .*{words}"):
            Clients(2, 1, test="own").of_data(data)
    with pytest.raises(ValueError, match=r"^Clients 'test' can be 'own' where .* without a split; with DirichletSplit\("):
        Clients(2, 1, DirichletSplit(0.3), test="own")
    with pytest.raises(ValueError, match=r"^Clients 'test' must be a number >= 0 and < 1, or 'own', got 'mine'"):
        Clients(2, 1, test="mine")  # type: ignore[arg-type]
    files_of_leaf(tmp_path)

    network = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(10, "softmax")], seed=0)
    network.setup("crossentropy_with_softmax")
    job_with_fewer = ParallelSGD(network, nn.dataset.LEAF(str(tmp_path)), Fewer())
    with pytest.raises(ValueError, match=r"^'transform' must keep the 24 test samples of the data set .*, got 5"):
        job_with_fewer.parallel(in_process(1), clients=Clients(3, 2, test="own"), directory=tmp_path, **OPTIONS)


class Told(nn.dataset.ArrayDataset):
    """Digits of two clients that tells any numbers of samples of them."""

    def __init__(self, sizes: tuple[int, ...], tests: tuple[int, ...]) -> None:
        x, y, test_x, test_y = nn.dataset.Digits().load()
        super().__init__(x[:50].reshape(50, 64), y[:50], test_x[:12].reshape(12, 64), test_y[:12])
        self.client_sizes, self.client_test_sizes = sizes, tests


@pytest.mark.parametrize(
    ("sizes", "tests", "words"),
    [
        ((30, 20), (10, 10), "'client_test_sizes' of Told must be at most 12 together, its test samples, got 20"),
        ((30, 20), (-1, 3), "'client_test_sizes' of Told must be >= 0, got -1 for client 0"),
        ((51, -1), (6, 6), "'client_sizes' of Told must be >= 0, got -1 for client 1"),
    ],
)
def test_numbers_of_samples_that_a_data_set_has_not_are_refused_before_training(
    sizes: tuple[int, ...], tests: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    network = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(10, "softmax")], seed=0)
    network.setup("crossentropy_with_softmax")
    with pytest.raises(ValueError, match=f"^{words}$"):
        ParallelSGD(network, Told(sizes, tests)).parallel(
            in_process(1), clients=Clients(2, 1, rounds=1, test="own"), directory=tmp_path, **OPTIONS
        )
