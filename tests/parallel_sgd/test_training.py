"""The worker's loop on a real model."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from nn.gradient_descent import ADAMOptimizer
from nn.optimizer import GDOptimizer, OpContainer
from parallel_sgd.batches import ORDERS
from parallel_sgd.channel import Key
from parallel_sgd.profiles import DuplicateAssignment, FixedBlockAssignment, IIDBlockAssignment
from tests.parallel_sgd.dealing import dealt
from tests.parallel_sgd.digits_job import ADAM, DigitsJob, digits, plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@covers("SUB-17")
def test_tables_of_a_job(tmp_path: Path) -> None:
    """One TR row per block step, one EV row per epoch; people count from 1."""
    plan = plan_of(FixedBlockAssignment(2, 1, 4), block_size=64, epoch=2, optimizer=ADAM)
    job = DigitsJob(plan, mlp(), directory=tmp_path).run()
    head, *rows = rows_of(tmp_path / "TR-digits-N(1).csv")
    assert head == ["Time", "Epochs", "Batches", "in", "Total", "Loss", "accuracy"]
    batches = -(-1500 // 256)
    assert len(rows) == 2 * batches * 2
    assert [row[1:5] for row in rows[:3]] == [["1", "1", "12", "1"], ["1", "1", "12", "2"], ["1", "2", "12", "3"]]
    assert rows[-1][1:5] == ["2", "6", "12", "24"]
    assert float(rows[-1][5]) < float(rows[0][5])
    head, *rows = rows_of(tmp_path / "EV-digits-N(1).csv")
    assert head == ["Loss", "accuracy", "Epoch"]
    assert [row[-1] for row in rows] == ["1", "2"]
    assert [float(value) for value in rows[-1][:-1]] == list(job.results[1].values())


def test_rows_say_what_the_block_step_gave(tmp_path: Path) -> None:
    plan = plan_of(IIDBlockAssignment(1), block_size=100, epoch=1, optimizer=ADAM)
    DigitsJob(plan, mlp(), directory=tmp_path).run()
    x, y, _, _ = digits()
    model, places = mlp(), dealt(1500, 100, 1, 0, seed=0)[0][0]
    loss, prediction = model.compute_gradients(x[places], y[places])
    first = rows_of(tmp_path / "TR-digits-N(0).csv")[1]
    assert float(first[5]) == loss
    assert float(first[6]) == np.mean(prediction.argmax(1) == y[places].argmax(1))


@covers("SUB-17")
def test_a_block_without_samples_makes_no_step(tmp_path: Path) -> None:
    """The tail is one sample, which the last of four blocks has."""
    x, y, *test = digits()
    plan = plan_of(FixedBlockAssignment(2, 1, 4), block_size=50, epoch=2, optimizer=ADAM)
    DigitsJob(plan, mlp(), directory=tmp_path, data=(x[:201], y[:201], *test)).run()
    tables = [rows_of(tmp_path / f"TR-digits-N({node}).csv")[1:] for node in (0, 1)]
    places = [[row[1:5] for row in table] for table in tables]
    assert places[0] == [["1", "1", "2", "1"], ["1", "1", "2", "2"], ["2", "1", "2", "3"], ["2", "1", "2", "4"]]
    assert places[1][:3] == [["1", "1", "3", "1"], ["1", "1", "3", "2"], ["1", "2", "3", "3"]] and len(places[1]) == 6
    assert all(np.isfinite(float(row[5])) for table in tables for row in table)


@covers("SUB-12")
def test_the_result_is_the_last_evaluation_and_progress_goes_to_100() -> None:
    """Progress 0..100 after every epoch."""
    job = DigitsJob(plan_of(IIDBlockAssignment(2), block_size=50, epoch=3, optimizer=ADAM), mlp()).run()
    _, _, test_x, test_y = digits()
    assert job.results[0] == job.models[0].evaluate(test_x, test_y)
    assert list(job.results[0]) == ["Loss", "accuracy"]
    assert all(type(value) is float for value in job.results[0].values())
    assert job.progress == {0: [33, 66, 100], 1: [33, 66, 100]}


@covers("SUB-30")
def test_a_set_smaller_than_a_batch_is_refused() -> None:
    """With the needed number."""
    with pytest.raises(ValueError, match=r"at least one batch of 2048 samples \(block_size 512 x 4 blocks\), got 1500"):
        DigitsJob(plan_of(FixedBlockAssignment(2, 1, 4), block_size=512), mlp()).run()


@covers("SUB-31")
@pytest.mark.parametrize("dead", range(4))
def test_one_of_two_copies_may_die_in_mid_epoch(dead: int) -> None:
    """No time-out, unchanged weights."""
    plan = plan_of(DuplicateAssignment(4, 2), block_size=64, epoch=2, optimizer=ADAM)
    whole = DigitsJob(plan, mlp()).run()
    silent = []

    def link(sender: int, _receiver: int, key: Key) -> tuple[float, ...]:
        if sender == dead and (key[1], key[2]) >= (0, 5):
            silent.append(key)
            return ()
        return (0.0,)

    job = DigitsJob(plan, mlp(), link=link).run()
    assert silent
    assert job.clock.monotonic() == 0.0
    assert job.weights() == whole.weights()


def test_a_time_out_ends_the_job_and_keeps_the_rows(tmp_path: Path) -> None:
    plan = plan_of(IIDBlockAssignment(2), block_size=64, epoch=2, optimizer=ADAM, ssgd_timeout_limit=1500)
    link = lambda s, r, key: () if key[:3] >= (0, 0, 4) else (0.0,)  # noqa: E731
    job = DigitsJob(plan, mlp(), directory=tmp_path, link=link)
    with pytest.raises(TimeoutError, match=r"Waited 3 s for variable 5 \(dense_3/bias\) of epoch 1, batch 5"):
        job.run()
    assert job.clock.monotonic() == 3.0
    assert len(rows_of(tmp_path / "TR-digits-N(0).csv")) == 1 + 5


def test_an_optimizer_without_exchange_runs_alone() -> None:
    """The process asks its optimizer what to wait for; this one waits for nobody."""
    plan = plan_of(IIDBlockAssignment(2), block_size=64, epoch=1, optimizer=OpContainer(GDOptimizer, ADAMOptimizer))
    job = DigitsJob(plan, mlp()).run()
    assert len(set(job.weights())) == 2
    assert job.workers[0].exchange.accounts.entries() == []


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="'order' must be one of fixed, shuffled, shuffled in blocks, got 'sorted'"):
        plan_of(IIDBlockAssignment(1), order="sorted")


@pytest.mark.parametrize("sample", [0, 1499])
def test_labels_are_checked_before_the_first_batch(sample: int, tmp_path: Path) -> None:
    """Once for the whole job, in the form in which the loss takes them, so that a step has nothing left to check."""
    x, y, test_x, test_y = digits()
    wrong = y.copy()
    wrong[sample] = 0.5
    plan = plan_of(FixedBlockAssignment(2, 1, 2), block_size=75, epoch=1, optimizer=ADAM)
    job = DigitsJob(plan, mlp(), directory=tmp_path, data=(x, wrong, test_x, test_y))
    with pytest.raises(ValueError, match=rf"label rows must hold probabilities that sum to 1, got row {sample} sums to 5"):
        job.run()
    assert len(rows_of(tmp_path / "TR-digits-N(0).csv")) == 1
    wrong[sample] = y[sample]
    DigitsJob(plan, mlp(), data=(x, wrong, test_x, test_y)).run()


@pytest.mark.parametrize("order", ORDERS)
def test_samples_that_fill_no_batch_are_checked_too(order: str) -> None:
    x, y, test_x, test_y = digits()
    wrong = y.copy()
    wrong[1499] = 0.5
    plan = plan_of(IIDBlockAssignment(2), block_size=350, epoch=1, order=order)
    with pytest.raises(ValueError, match="label rows must hold probabilities that sum to 1, got row 1499 sums to 5"):
        DigitsJob(plan, mlp(), data=(x, wrong, test_x, test_y)).run()
    assert DigitsJob(plan, mlp()).run().results[0]["Loss"] > 0
