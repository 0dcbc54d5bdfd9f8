"""Clients as blocks of a round: equal to plain NumPy, and with equal bits on any number of workers."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from psgd.cli import main

import numpy as np
import pytest

import nn
from nn.dataset.transforms import Dirichlet, ImageCls
from nn.gradient_descent import ADAMOptimizer, SGDOptimizer
from nn.optimizer import LocalUpdateOptimizer, ShardedPSGDOptimizer
from parallel_sgd import Clients, ParallelSGD, in_process, local_workers, simulated
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import Ring, Tree
from parallel_sgd.federated import DirichletSplit, LogNormalSizes, PoissonSampler, RowsSplit, ShardSplit
from parallel_sgd.federated.population import Population, deal, fill_slots
from parallel_sgd.profiles import FixedBlockAssignment
from parallel_sgd.record.history import JobHistory
from tests.parallel_sgd.federated.reference import Scheme, arrays, model
from tests.statements import covers

ADAM = (0.01, 0.9, 0.99, 1e-3)
OPTIONS: dict[str, Any] = {"gd_type": SGDOptimizer, "gd_params": (0.2,), "block_size": 7, "seed": 11, "epoch": 4, "verbose": 0}


def clients(**changes: Any) -> Clients:
    given: dict[str, Any] = {"sizes": LogNormalSizes(1.0), "split": DirichletSplit(0.3), "epochs": 2, "rounds": 5, **changes}
    return Clients(given.pop("count", 30), given.pop("sample", 6), **given)


def job(dtype: str = "float64") -> ParallelSGD:
    return ParallelSGD(model(dtype), nn.dataset.ArrayDataset(*arrays()))


def trained(given: Clients, workers: int, folder: Path, **options: Any) -> np.ndarray:
    with in_process(workers, ps=options.pop("ps", False)) as nodes:
        result = job(options.pop("dtype", "float64")).parallel(nodes, clients=given, directory=folder, **{**OPTIONS, **options})
    assert result.ledger is None or not result.ledger.problems
    values = [each.store.values for each in result.models.values()]
    assert all(each.tobytes() == values[0].tobytes() for each in values)
    return values[0]


SCHEMES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "FedAvg": ({}, {}),
    "FedProx": ({"prox": 0.5}, {"mu": 0.5}),
    "FedNova": ({"weigh": "steps"}, {"nova": True}),
    "SCAFFOLD": ({"control_variates": True}, {"control": True}),
    "FedAdam": ({"server": ADAMOptimizer(*ADAM)}, {"adam": ADAM}),
}


@covers("RES-2")
@pytest.mark.share(2)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_equals_plain_numpy(name: str, tmp_path: Path) -> None:
    ours, theirs = SCHEMES[name]
    assert_equal(clients(**ours), theirs, tmp_path)


@covers("RES-2")
def test_poisson_rounds_equal_plain_numpy_also_where_one_has_no_client(tmp_path: Path) -> None:
    given = clients(sample=PoissonSampler(0.07))
    population = Population(given, [len(each) for each in deal(given, arrays()[1], OPTIONS["seed"])], OPTIONS["seed"], 7)
    counts = {len(population.chosen(number)) for number in range(20)}
    assert 0 in counts and len(counts) > 3
    assert_equal(given, {"poisson": 0.07}, tmp_path)


def assert_equal(given: Clients, theirs: dict[str, Any], folder: Path) -> None:
    """Assert that 20 rounds equal those of the reference, relative to the largest change."""
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    sizes = [len(each) for each in rows]
    assert max(sizes) > 5 * min(sizes) > 0
    start = model().store.values.copy()
    expected = Scheme(rows, 6, 2, OPTIONS["block_size"], 0.2, OPTIONS["seed"], **theirs).run(start, rounds=20)
    change = np.abs(expected - start).max()
    assert np.abs(trained(given, 1, folder) - expected).max() < 1e-12 * change
    assert np.abs(trained(given, 2, folder, dtype="float32") - expected).max() < 1e-5 * change


@covers("RES-1")
def test_any_number_of_workers_any_exact_exchange_and_redundancy_give_the_same_bits(tmp_path: Path) -> None:
    given = clients()
    expected = trained(given, 1, tmp_path, epoch=1).tobytes()
    for workers, options in (
        (2, {}),
        (3, {"codec": Ring}),
        (3, {"codec": Tree, "assignment_type": FixedBlockAssignment.of(6)}),
        (4, {"redundancy": 2}),
        (2, {"ps": True}),
        (3, {"op_type": ShardedPSGDOptimizer}),
    ):
        assert trained(given, workers, tmp_path, epoch=1, **options).tobytes() == expected, (workers, options)


@covers("RES-1")
@pytest.mark.processes
def test_local_workers_of_which_one_is_killed_end_with_the_bits_of_one_worker(tmp_path: Path) -> None:
    given = clients(sizes=None, server=ADAMOptimizer(*ADAM))
    expected = trained(given, 1, tmp_path / "here", epoch=3)
    with local_workers(2) as nodes:
        result = job().parallel(
            nodes, clients=given, directory=tmp_path, on_failure="restart", fault="kill 1@e2.b3", **{**OPTIONS, "epoch": 3}
        )
    assert result.restarts == 1 and result.ledger is not None and not result.ledger.problems
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected.tobytes()}


@pytest.mark.long
def test_statistics_and_dropout_of_clients_have_equal_bits_too(tmp_path: Path) -> None:
    found = []
    for workers in (1, 3):
        made = nn.model.SequentialModel(
            [-1, 64],
            [nn.layer.Dense(12), nn.layer.BatchNorm(), nn.layer.Dropout(0.3), nn.layer.Dense(10, "softmax")],
            seed=1,
        )
        made.setup("crossentropy_with_softmax")
        before = made.store.buffer_values.copy()
        with in_process(workers) as nodes:
            options = {**OPTIONS, "epoch": 2}
            result = ParallelSGD(made, nn.dataset.ArrayDataset(*arrays())).parallel(
                nodes, clients=clients(weigh="steps"), directory=tmp_path, **options
            )
        store = result.models[0].store
        assert np.abs(store.buffer_values - before).max() > 0.01
        found.append(store.values.tobytes() + store.buffer_values.tobytes())
    assert found[0] == found[1]


def test_a_model_with_two_outputs_has_the_loss_of_each_in_a_row_per_client(tmp_path: Path) -> None:
    x, y, test_x, test_y = arrays()
    given = nn.Input([64])
    hidden = nn.layer.Dense(12, "tanh")(given)
    outputs = {"digit": nn.layer.Dense(10, "softmax")(hidden), "bright": nn.layer.Dense(1)(hidden)}
    made = nn.model.Model(given, outputs, seed=3)
    made.setup({"digit": "crossentropy_with_softmax", "bright": "mse"}, {"digit": "accuracy"})
    labels = [{"digit": part_y, "bright": part_x.mean(axis=1, keepdims=True)} for part_x, part_y in ((x, y), (test_x, test_y))]
    with in_process(2) as nodes:
        result = ParallelSGD(made, nn.dataset.ArrayDataset(x, labels[0], test_x, labels[1])).parallel(
            nodes, clients=Clients(30, 6, rounds=5), directory=tmp_path, **{**OPTIONS, "epoch": 1}
        )
    row = result.history.rows[0]
    parts = [
        row[name] for name in row if name not in ("epoch", "Loss", "bytes") and "oss" in name and not name.startswith("val")
    ]
    assert len(parts) == 2 and np.isclose(sum(parts), row["Loss"])


@covers("RES-1")
def test_a_training_goes_on_with_the_same_clients_on_other_workers_and_with_no_others(tmp_path: Path) -> None:
    given = clients()
    expected = trained(given, 1, tmp_path / "whole")
    trained(given, 2, tmp_path, epoch=2, checkpoint_every="epoch")
    assert trained(given, 3, tmp_path, resume="last").tobytes() == expected.tobytes()
    for other in (clients(split=DirichletSplit(0.4)), None):
        with pytest.raises(ValueError, match=r"The checkpoint is of a job with 30 clients, FixedSampler.* got (30|no) clients"):
            trained(other, 2, tmp_path, resume="last")  # type: ignore[arg-type]


@covers("RES-1")
def test_slots_are_filled_along_the_merge_tree() -> None:
    sizes = np.array([1, 100, 50, 50, 3, 2])
    # the largest first, each into the half with less work that has room: 100 | 50 + 50, then 3 and 2 where there is room
    assert fill_slots([1, 2, 3, 4], sizes, 4) == (1, 4, 2, 3)
    assert fill_slots([0, 1], sizes, 4) == (1, None, 0, None)
    assert fill_slots([], sizes, 3) == (None, None, None)
    random = np.random.default_rng(2)
    many = (100 * np.exp(random.standard_normal(100))).astype(int)
    slots = fill_slots(range(64), many, 64)
    assert sorted(each for each in slots if each is not None) == list(range(64))
    shares = [sum(int(many[each]) for each in part if each is not None) for part in (slots[:32], slots[32:])]
    assert abs(shares[0] - shares[1]) < 0.01 * sum(shares)


@covers("RES-1")
def test_a_poisson_round_has_empty_slots_and_too_many_clients_are_refused_before_it_begins(tmp_path: Path) -> None:
    given = Clients(20, PoissonSampler(0.2), rounds=4)
    population = Population(given, [len(each) for each in deal(given, arrays()[1], 11)], 11, 7)
    rounds = [population.round(number) for number in range(8)]
    counts = [sum(each is not None for each in now.slots) for now in rounds]
    assert len(set(counts)) > 2 and max(counts) < given.slots
    assert all(np.isclose(sum(now.factors), given.slots) for now in rounds)
    found = [trained(given, workers, tmp_path, epoch=2).tobytes() for workers in (1, 3)]
    assert found[0] == found[1]
    with pytest.raises(
        ValueError, match=r"PoissonSampler has room for 1 clients in a round, and round \d has \d+: give it more slots"
    ):
        trained(Clients(20, PoissonSampler(0.5, slots=1)), 1, tmp_path / "never")
    assert not (tmp_path / "never").exists()


MOMENTUM = {"gd_type": SGDOptimizer, "gd_params": {"learn_rate": 0.1, "momentum": 0.9}}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("6 slots in a round, each a block, so at most as many workers, got 7", {"workers": 7}),
    ("'op_type' must be PSGDOptimizer .* got LocalUpdateOptimizer; local steps are Clients", {"op_type": LocalUpdateOptimizer}),
    (
        "needs 'sync_type' SynchronizedSGD, .* got AsynchronizedSGD",
        {"sync_type": AsynchronizedSGD, "codec": "AsyncPS", "ps": True},
    ),
    ("'shuffle' must be True, got False", {"shuffle": False}),
    ("must not deal them to blocks, got Chain: Clients\\(split", {"transform": [ImageCls(), Dirichlet(0.3, 6, 7)]}),
    ("must deal as many, got 4: leave it out, or take FixedBlockAssignment.of\\(6\\)", {"assignment_type": "fixed:4"}),
    ("'codec' FedAvg is no codec with 'clients': it is the default of Clients", {"codec": "FedAvg", "op_type": "psgd"}),
    ("'codec' PowerSGD adds up encodings on their way", {"codec": "PowerSGD"}),
    ("'codec' DPSGD does not give all workers one mean", {"codec": "DPSGD"}),
    ("'weigh' can be 'steps' .* with gd_type=SGDOptimizer", {"clients": clients(weigh="steps"), "gd_type": "adam"}),
    (
        "'control_variates' can be True .* got SGDOptimizer with momentum",
        {"clients": clients(control_variates=True), **MOMENTUM},
    ),
    ("'split' RowsSplit must deal each sample once, got row 3 2 times", {"clients": Clients(2, 2, RowsSplit([[3], [3]]))}),
    ("'shards' must leave a sample for each of 900 x 2 shards", {"clients": Clients(900, 6, ShardSplit(2))}),
    ("trains each client of a round, so simulated nodes must have learn=True, got False", {"simulated": {"learn": False}}),
    ("trains each client of a round, so simulated nodes must have distinct=None, got 1", {"simulated": {"distinct": 1}}),
    ("needs a model for each worker, .* must have shared=None, got True", {"simulated": {"shared": True}}),
]


@covers("RES-1")
@pytest.mark.parametrize(("words", "given"), REFUSED, ids=[words[:40] for words, _ in REFUSED])
def test_what_does_not_go_with_clients_is_refused_with_its_cure(words: str, given: dict[str, Any], tmp_path: Path) -> None:
    given = dict(given)
    workers, ps, transform = given.pop("workers", 2), given.pop("ps", False), given.pop("transform", ImageCls())
    if isinstance(transform, list):
        transform = transform[0].add(transform[1])
    options = {"clients": clients(), **OPTIONS, **given}
    on_a_platform = options.pop("simulated", None)
    nodes = in_process(workers, ps=ps) if on_a_platform is None else simulated(2, **on_a_platform)
    with nodes as opened, pytest.raises(ValueError, match=words):
        ParallelSGD(model(), nn.dataset.Digits(), transform).parallel(opened, directory=tmp_path / "never", **options)
    assert not (tmp_path / "never").exists()


@covers("RES-1")
@pytest.mark.processes
def test_the_table_of_clients_tells_who_trained_what_and_a_run_is_verified_by_it(tmp_path: Path) -> None:
    given = clients(epochs=3)
    with in_process(3) as nodes:
        result = job("float32").parallel(nodes, clients=given, directory=tmp_path, **OPTIONS)
    rows = deal(given, arrays()[1], 11)
    population = Population(given, [len(each) for each in rows], 11, OPTIONS["block_size"])
    found = result.history.clients
    assert [(row["round"], row["slot"], row["client"]) for row in found] == [
        (number + 1, slot, client) for number in range(20) for slot, client in enumerate(population.round(number).slots)
    ]
    assert all(row["samples"] == len(rows[int(row["client"])]) for row in found)
    assert all(row["steps"] == 3 * -(-row["samples"] // OPTIONS["block_size"]) for row in found)
    assert [row["node"] for row in found[:6]] == [0, 0, 1, 1, 2, 2]
    assert all(row["bytes_up"] == row["bytes_down"] == 4 * model().store.values.size for row in found)
    assert all(row["norm"] > 0 for row in found) and fmean(row["last_loss"] for row in found[-6:]) < 1 < found[0]["first_loss"]
    frame = result.history.to_frame("clients")
    assert frame.index.names == ["round", "slot"] and len(frame) == 120
    folder = result.files[0][0].parent.parent
    assert run_psgd("verify", str(folder), "--json")["equal"] is True
    assert result.history.untold == {}
    table = next(path for path in result.files[1] if path.name.startswith("CL-"))
    lines = table.read_text().splitlines(keepends=True)
    # a worker that is killed takes rows along that it has not written
    (place := tmp_path / "killed").mkdir()
    rest = Path(shutil.copy(table, place))
    rest.write_text("".join(lines[:-3]))
    lost = JobHistory.read({**result.files, 1: [rest if path == table else path for path in result.files[1]]})
    assert (
        lost.untold == {int(found[-1]["epoch"]): 3} and "figures of 3 training steps lost with a worker" in lost._repr_html_()
    )
    assert sum(row["client_bytes"] for row in result.history.rows) - sum(row["client_bytes"] for row in lost.rows) == sum(
        row["bytes_up"] + row["bytes_down"] for row in [row for row in found if row["node"] == 1][-3:]
    )
    table.write_text("".join([lines[0], lines[1].replace(",1,1,1,", ",1,1,2,", 1), *lines[2:]]))
    assert f"{table.name} was changed" in json.dumps(run_psgd("verify", str(folder), "--json"))


def run_psgd(*arguments: str) -> Any:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        main(arguments)
    return json.loads(said.getvalue())


def test_a_loss_that_is_not_finite_names_the_client(tmp_path: Path) -> None:
    made = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(12), nn.layer.Dense(10)])
    made.setup("mse")
    said = r"The loss is (nan|inf) in epoch 1, batch 1, client \d+; the first"
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match=said), in_process(1) as nodes:
        given = {**OPTIONS, "gd_params": (1e30,)}
        ParallelSGD(made, nn.dataset.ArrayDataset(*arrays())).parallel(nodes, clients=clients(), directory=tmp_path, **given)


def test_a_worker_without_clients_imports_nothing_of_them() -> None:
    """The limit of modules that a worker may import has no room for them."""
    code = "import sys, parallel_sgd.engine.worker_executor; print([n for n in sys.modules if 'federated' in n])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    assert re.match(r"30 clients", clients().identity(3))
