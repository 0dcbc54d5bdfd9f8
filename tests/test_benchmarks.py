"""Benchmarks say on which machine they ran and how near to its bound they came."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

import nn
from benchmarks.exchange import __main__ as exchange
from benchmarks.exchange.workload import NETWORKS
from benchmarks.language import __main__ as language
from benchmarks.nn import __main__ as training
from benchmarks.nn.bare import BareNetwork
from benchmarks.pairing import Result
from nn.threads import limited_to_one_thread

from .sources import ROOT

CHILDREN = {"benchmarks.machine", "benchmarks.growth.job"}
"""Modules that other benchmarks start, with arguments in a fixed order or none."""


def programs() -> list[str]:
    """Return the modules that a guide or a docstring tells to run."""
    texts = [path.read_text("utf-8") for folder in ("docs", "benchmarks") for path in (ROOT / folder).rglob("*.[mp][dy]")]
    found = {name for text in texts for name in re.findall(r"python -m (benchmarks(?:\.[a-z]\w*)*)", text)}
    return sorted(found - CHILDREN)


MACHINE = r".+, \d+ cores, load [\d.]+; NumPy \S+, .+, built for \S+ \S+; bare GEMM (\d+) GFLOP/s in float32, .+ ([\d.]+) GB/s"


@pytest.mark.parametrize("name", programs())
def test_each_program_tells_its_options_and_refuses_others(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without looking at its arguments it would measure for minutes, or write files."""
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    is_package = (ROOT / name.replace(".", "/") / "__main__.py").is_file()
    program = importlib.import_module(f"{name}.__main__" if is_package else name)
    for given, code in (("--help", 0), ("--no-such-option", 2)):
        monkeypatch.setattr(sys, "argv", [str(program.__file__), given])
        with pytest.raises(SystemExit) as ended:
            program.main()
        said = capsys.readouterr()
        assert ended.value.code == code
        assert re.match(rf"usage: (python -m {name}|{name.rpartition('.')[2]}\.py) ", said.err if code else said.out)


@pytest.mark.processes
@pytest.mark.long
def test_nn_is_measured_as_a_share_of_bare_products() -> None:
    command = [sys.executable, "-m", "benchmarks.nn", "--workloads", "lstm", "--tasks", "train", "predict", "--rounds", "1"]
    found = subprocess.run([*command, "--threads", "1", "--quick"], cwd=ROOT, capture_output=True, text=True, check=False)
    machine, *tables = found.stdout.splitlines()
    rates = re.fullmatch(MACHINE, machine)
    assert rates is not None, found.stdout + found.stderr
    assert min(map(float, rates.groups())) > 0
    rows = [line.split() for line in tables if "µs" in line and "torch" not in line]
    assert [name for name, *_ in rows] == ["nn", "bare"] * 2, found.stdout
    for ours, bare in (rows[:2], rows[2:]):
        assert ours[-2] == bare[-3], "of the bound, and how many times that of nn the bound takes"
        assert float(ours[-2]) > 0
        assert bare[-2] == "1.00"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_bare_step_computes_what_a_model_does(threads: int) -> None:
    network = BareNetwork([6, 9, 7, 3], 8, threads)
    model = nn.model.SequentialModel([-1, 6], [*(nn.layer.Dense(size, activation=nn.activation.ReLU()) for size in (9, 7))])
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer)
    model.set_weights([weight for pair in zip(network.kernels, network.biases, strict=True) for weight in pair])
    x, label = np.random.default_rng(1).standard_normal((8, 6), dtype=np.float32), np.arange(8) % 3
    before = network.values.copy()
    with limited_to_one_thread():
        for _ in range(3):
            network.step(x, label)
    network.close()
    model.fit(x, label, epoch=3, batch_size=8, shuffle=False, verbose=0)
    np.testing.assert_allclose(np.concatenate([weight.ravel() for weight in model.get_weights()]), network.values, atol=1e-6)
    # Each step moves nearly all of them by the rate, a thousandth.
    assert np.median(np.abs(network.values - before)) > 1e-3


@pytest.mark.parametrize(("bare", "reached"), [(0.95, True), (0.94, False)])
def test_training_is_compared_with_the_bare_step_and_with_other_kernels(
    bare: float, reached: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two threads a step may take 1.06 of the bare one. Others take twice as long, nn with other kernels half."""

    def take_turns(
        contenders: Mapping[str, object], threads: int, rounds: int, kernels: Mapping[str, str]
    ) -> dict[str, Result]:
        assert kernels == {"nn, Haswell": "Haswell"}
        seconds = {"nn": 1.0, "bare products": 0.93, "bare step": bare, "nn, Haswell": 0.5}
        return {name: Result([seconds.get(name, 2.0)] * rounds) for name in contenders}

    monkeypatch.setattr(training, "take_turns", take_turns)
    assert training.train("large", 2, 3, "Haswell", quick=True) is reached
    said = capsys.readouterr().out
    (row,) = [line.split() for line in said.splitlines() if line.startswith("  bare step")]
    assert row[-4] == f"{bare:.2f}" and row[-1] == f"{bare * 2:.2f}"
    assert ("goal reached" in said) is reached and ("bare step 0.94 < 0.943" in said) is not reached


@pytest.mark.parametrize(("slow", "reached"), [(1.1, True), (1.2, False)])
def test_four_workers_are_compared_with_two(
    slow: float, reached: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four with the same global batch, which may take 15 % longer, under both rules; one process takes twice as long as two."""

    def take_turns(contenders: Mapping[str, tuple[str, str]], threads: int, rounds: int) -> dict[str, Result]:
        workers = {name: argument.split(":")[1] if ":" in argument else "1" for name, (_, argument) in contenders.items()}
        assert sorted(workers.values()) == ["1", "2", "2", "4", "4"]
        return {name: Result([{"1": 2.0, "2": 1.0, "4": slow}[count]] * rounds) for name, count in workers.items()}

    monkeypatch.setattr(exchange, "take_turns", take_turns)
    assert exchange.two("large256", 1.3, 3) is reached
    said = capsys.readouterr().out
    assert f"4 workers, sharded {slow / NETWORKS['large256'].steps * 1e3:10.3f} ms  {slow:6.2f}" in said
    assert ("goal reached" in said) is reached
    assert said.count("the goal is 0.87") == (0 if reached else 2)


@pytest.mark.parametrize(("slow", "reached"), [(0.8, True), (0.79, False), (0.0, True)])
def test_tokens_per_second_stand_beside_those_of_torch(
    slow: float, reached: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """nn takes two seconds a round; torch a share of that, or is not installed."""

    def take_turns(contenders: Mapping[str, tuple[str, str]], threads: int, rounds: int) -> dict[str, Result]:
        assert [argument for _, argument in contenders.values()] == ["sample:small", "whole:small", "sample:small"]
        ours, whole, theirs = contenders
        torch = Result([2.0 * slow] * rounds) if slow else Result([], "no torch")
        return {ours: Result([2.0] * rounds), whole: Result([6.0] * rounds), theirs: torch}

    monkeypatch.setattr(language, "take_turns", take_turns)
    assert language.measure("sample", "small", 1, 3) is reached
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    # 63 tokens behind the first of a window of 64
    assert rows[0] == ["nn", "32", "1.00"] and rows[1][-1] == "3.00"
    assert rows[2][-1] == (f"{slow:.2f}" if slow else "torch")
