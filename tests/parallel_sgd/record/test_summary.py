"""A run in a few lines: which epoch was best, how the seconds were spent, how they are told."""

from __future__ import annotations

import math

import pytest

from parallel_sgd.engine.accounts import Times
from parallel_sgd.record.history import JobHistory
from parallel_sgd.record.summary import best_epoch, crowd_sentence, effort_of, epoch_line, times_of


def history(**columns: list[float]) -> JobHistory:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return JobHistory((), [{"epoch": number, **row} for number, row in enumerate(rows, 1)])


@pytest.mark.parametrize(
    ("columns", "best"),
    [
        ({"val_Loss": [2.0, 1.0, 3.0]}, "epoch 2, test Loss 1.0000"),
        ({"val_Loss": [2.0, 1.0, 3.0], "val_accuracy": [0.1, 0.2, 0.3]}, "epoch 3, test accuracy 0.3000"),
        ({"val_Loss": [2.0, 1.0], "val_accuracy": [0.5, 0.5]}, "epoch 1, test accuracy 0.5000"),
        ({"val_Loss": [2.0, 1.0], "val_mine": [1.0, 2.0]}, "epoch 2, test Loss 1.0000"),
        ({"val_Loss": [1.0, 2.0], "val_mse": [3.0, 2.0]}, "epoch 2, test mse 2.0000"),
        ({"val_Loss": [math.nan, 2.0]}, "epoch 2, test Loss 2.0000"),
        ({"Loss": [1.0, 2.0]}, "None"),
    ],
)
def test_the_best_epoch(columns: dict[str, list[float]], best: str) -> None:
    """By the first metric whose direction its name tells, else by the loss; of equal ones the first; never NaN."""
    assert str(best_epoch(history(**columns))) == best


def test_how_the_seconds_were_spent() -> None:
    effort = effort_of([Times(3.0, 0.5, 0.25, 1.0, 0.25), Times(1.0, 0.0, 0.0, 4.0, 0.0), Times(0.0, 0.0, 0.0, 0.0, 0.0)])
    assert effort is not None and effort[:3] == (2, 5.0, 4.0) and effort.speed_up == 0.8
    assert effort.shares == "computing 40 %, exchanging 10 %, waiting 50 %"
    assert effort.told() == (
        "2 workers took 5.0 s; one alone would have needed at most 4.0 s: more workers are not faster here."
    )
    faster = effort._replace(seconds=2.0)
    assert faster.told().endswith("needed at most 4.0 s: together up to 2 times as fast.")
    thirds = effort._replace(computing=0.456, waiting=0.505)
    assert thirds.shares == "computing 46 %, exchanging 4 %, waiting 50 %", "together 100"
    assert effort._replace(computing=0.505, waiting=0.495).shares == "computing 50 %, exchanging 0 %, waiting 50 %"
    near = effort._replace(seconds=0.63, alone=0.62)
    assert near.told() == (
        "2 workers took 0.63 s; one alone would have needed at most 0.62 s, about as long: more workers are not faster here."
    )
    assert effort._replace(seconds=3.9).told().endswith("not faster here."), "by less than the digits that are shown"
    assert effort.told(crowded=True) == ("2 workers, which took turns, took 5.0 s; one alone would have needed at most 4.0 s.")
    redundant = effort_of([Times(2.0, 0.0, 0.0, 2.0, 0.0)] * 2, copies=2)  # each of both has computed all blocks
    assert redundant is not None and redundant.alone == 2.0 and redundant.computing == 0.5
    sample = effort_of([Times(2.0, 0.0, 0.0, 2.0, 0.0)] * 2, workers=20)
    assert sample is not None and (sample.workers, sample.alone, sample.computing) == (20, 40.0, 0.5)
    assert effort_of([]) is None and effort_of([Times(0.0, 0.0, 0.0, 0.0, 0.0)]) is None
    assert times_of({"Compute": [1.0, 2.0], "Wait": [0.5, 0.5], "Epochs": [1.0, 2.0]}) == Times(3.0, 0.0, 0.0, 1.0, 0.0)


def test_words() -> None:
    assert crowd_sentence(2, 2) == crowd_sentence(1, 1) == ""
    assert crowd_sentence(2, 1) == "2 workers share 1 core of this machine and take turns: more of them are not faster."
    assert epoch_line({"epoch": 12, "Loss": 2e9}, 9) == "epoch 12/9   Loss 2e+09"
