"""Metrics that are not defined for the samples of some batches: the other figures of these batches count all the same."""

import math
from pathlib import Path

import numpy as np
import pytest

import nn
from nn.dataset import ArrayDataset
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.federated import Clients
from parallel_sgd.record.history import JobHistory, mean_of, over_epoch
from tests.statements import covers


@covers("RUN-8")
def test_a_metric_that_is_not_defined_costs_no_other_figure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The area under a curve needs both classes, which few small blocks have when one is rare."""
    samples = np.random.default_rng(1).normal(size=(120, 5)).astype(np.float32)
    labels = (np.arange(120) % 24 == 0).astype(np.float32)[:, None]
    data = ArrayDataset(samples[:96], labels[:96], samples[97:], labels[97:] * 0)
    model = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", ["accuracy", "auc"])
    with in_process(2) as nodes:
        result = ParallelSGD(model, data).parallel(nodes, epoch=1, block_size=8, directory=tmp_path)
    history = result.history
    written = [each for worker in history.workers.values() for each in worker.steps]
    assert len(written) == 12
    losses, areas = ([each[name] for each in written] for name in ("Loss", "auc"))
    defined = [area for area in areas if math.isfinite(area)]
    assert 0 < len(defined) < 12
    (row,) = history.rows
    assert row["Loss"] == pytest.approx(np.mean(losses)) and row["auc"] == pytest.approx(np.mean(defined))
    assert row["val_Loss"] == result["Loss"] and math.isnan(row["val_auc"])
    # one sentence for all workers, which evaluate the same samples, and no row is lost
    assert caplog.text.count("The test figure auc is nan") == 1 and "left out" not in caplog.text
    assert result.report is not None and result.report.exists()


@pytest.mark.parametrize("clients", [None, Clients(9, 4, rounds=3)])
def test_the_console_tells_the_mean_of_the_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clients: Clients | None
) -> None:
    """It took the mean of the means of batches, in which blocks with a defined figure are not alike many."""
    caplog.set_level("INFO")
    samples = np.random.default_rng(1).normal(size=(120, 5)).astype(np.float32)
    labels = (np.arange(120) % 24 < 2).astype(np.float32)[:, None]
    model = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", ["auc"])
    with in_process(4) as nodes:
        result = ParallelSGD(model, ArrayDataset(samples, labels, samples, labels)).parallel(
            nodes, epoch=2, block_size=5, clients=clients, directory=tmp_path
        )
    history = result.history
    by_batch = [row["auc"] for row in history.steps if row["epoch"] == 1 and math.isfinite(row["auc"])]
    assert abs(np.mean(by_batch) - history["auc"][0]) > 5e-4, "else this shows nothing"
    for row in history.rows:
        words = f"epoch {int(row['epoch'])}/2   Loss {row['Loss']:.4f}   auc {row['auc']:.4f}   test"
        assert sum(each.startswith(words) for each in caplog.messages) == 1, (words, caplog.messages)


def test_over_an_epoch_a_batch_counts_by_the_rows_that_have_a_figure() -> None:
    batches = [(2, {"Loss": 1.0, "auc": 0.5}), (2, {"Loss": 3.0, "auc": 1.0}), (1, {"Loss": 5.0})]
    steps = [(4, 4), (4, 4), (2, 4)]  # half of the rows went with a worker
    found, lost = over_epoch(batches, steps, [{"auc": 1}, {}, {"auc": 0}])
    assert found == {"Loss": (4 * 1 + 4 * 3 + 2 * 5) / 10, "auc": (2 * 0.5 + 4 * 1.0) / 6} and lost == 5
    found, lost = over_epoch(batches, of_clients=True)
    assert found["Loss"] == (2 * 1 + 2 * 3 + 1 * 5) / 5 and lost == 0


def test_the_mean_of_figures_that_are_not_all_defined() -> None:
    assert mean_of([1.0, math.nan, 3.0, math.inf]) == 2.0 and math.isnan(mean_of([math.nan, -math.inf, math.inf]))
    assert mean_of([1.5e308, 1.5e308]) == 1.5e308


def test_clients_without_a_defined_figure_do_not_count() -> None:
    tests = {
        0: {"Epoch": [1, 1], "Client": [0, 1], "of": [2, 2], "Samples": [5, 5], "Loss": [1.0, 2.0], "auc": [math.nan, 0.75]}
    }
    evaluated = {0: ({}, {"Epoch": [1.0], "Loss": [1.0]})}
    (row,) = JobHistory.of(evaluated, tests=tests).rows  # type: ignore[arg-type]
    assert row["val_clients_auc"] == 0.75 == row["val_clients_auc_worst"] and row["val_clients_Loss"] == 1.5


def test_the_page_of_clients_some_of_which_have_no_defined_figure(tmp_path: Path) -> None:
    """A page is JSON, which has no word for NaN: the held out samples of nearly all clients have one class."""
    samples = np.random.default_rng(1).normal(size=(120, 5)).astype(np.float32)
    labels = (np.arange(120) % 24 == 0).astype(np.float32)[:, None]
    model = nn.model.SequentialModel([-1, 5], [nn.layer.Dense(1, "sigmoid")])
    model.compile("adam", "binary_crossentropy", ["auc"])
    data, clients = ArrayDataset(samples, labels, samples, labels), Clients(6, 2, rounds=2, test=0.3)
    with in_process(2) as nodes:
        result = ParallelSGD(model, data).parallel(nodes, epoch=1, block_size=8, clients=clients, directory=tmp_path)
    areas = [row["auc"] for row in result.history.client_tests]
    assert 0 < sum(map(math.isnan, areas)) < 6 == len(areas)
    assert result.report is not None and "<td>nan</td>" in result.report.read_text("utf-8")
