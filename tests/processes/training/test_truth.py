"""Simulated steps beside real ones, on links of this machine that are throttled and late: some settings of the benchmark."""

from __future__ import annotations

import time
from statistics import median

import pytest

import parallel_sgd
from benchmarks.simulation import truth
from parallel_sgd import codec as codecs
from parallel_sgd.simulation.calibrate import calibrate
from tests.statements import covers

SAMPLE = [truth.Setting("Plain", 2, 10, 200), truth.Setting("Int8", 2, 1, 20), truth.Setting("Ring", 2, 2, 20)]


@pytest.mark.long
@covers("SIM-14")
@pytest.mark.slow
@pytest.mark.alone
def test_simulated_steps_are_as_long_as_real_ones() -> None:
    """Where the network is most of a step, from one calibration; `python -m benchmarks.simulation.truth` has all settings,
    tier B, and the error by cause."""
    with parallel_sgd.local_workers(2) as nodes:
        began = time.process_time()
        kinds = [getattr(codecs, name) for name in ("Plain", "Int8", "Ring")]
        platform = calibrate(nodes, kinds, truth.model_of(), block_size=truth.BLOCK, fault="+0.01ms 0-1")
        assert time.process_time() - began <= 60
        rows = [truth.compare(setting, nodes, platform, 3) for setting in SAMPLE]
    for row in rows:
        assert row.share >= truth.SHARE and abs(row.error) <= truth.TAIL_GOAL, truth.told(row)
        assert {"compute", "encode", "merge", "send", "wait"} <= row.causes.keys() and truth.told(row).count("%") == 5
    assert median(abs(row.error) for row in rows) <= truth.MEDIAN_GOAL
