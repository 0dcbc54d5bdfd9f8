"""Benchmarks say on which machine they ran and how near to its bound they came."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from .sources import ROOT

MACHINE = r".+, \d+ cores, load [\d.]+; NumPy \S+, .+, built for \S+ \S+; bare GEMM (\d+) GFLOP/s in float32, .+ ([\d.]+) GB/s"


@pytest.mark.processes
def test_nn_is_measured_as_a_share_of_bare_products() -> None:
    command = [sys.executable, "-m", "benchmarks.nn", "--workloads", "lstm", "--tasks", "train", "predict", "--rounds", "1"]
    found = subprocess.run([*command, "--threads", "1", "--quick"], cwd=ROOT, capture_output=True, text=True, check=False)
    machine, *tables = found.stdout.splitlines()
    rates = re.fullmatch(MACHINE, machine)
    assert rates is not None, found.stdout + found.stderr
    assert min(map(float, rates.groups())) > 0
    rows = [line.split() for line in tables if "µs" in line and "torch" not in line]
    assert [name for name, *_ in rows] == ["nn", "bare"] * 2, found.stdout
    for nn, bare in (rows[:2], rows[2:]):
        assert nn[-2] == bare[-3], "of the bound, and how many times that of nn the bound takes"
        assert float(nn[-2]) > 0
        assert bare[-2] == "1.00"
