"""`psgd plan`: what it ranks, prints and refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path

from psgd.cli import main

import pytest

import nn
from network.faults import FaultPlan
from parallel_sgd import codec as codecs
from parallel_sgd.simulation.calibration import Calibration
from parallel_sgd.simulation.plan import Planner, Way, learned, throttled, usual_ways
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform, platform_to_toml
from tests.statements import covers

DIGITS = ["--dataset", "digits", "--target", "0.85", "--epochs", "3", "--limit", "600", "-q"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    made = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(32, "tanh"), nn.layer.Dense(10, "softmax")])
    made.setup("crossentropy_with_softmax", "accuracy")
    path = tmp_path / "digits.model"
    made.save(path)
    return str(path)


@pytest.mark.long
@covers("SIM-30")
def test_settings_are_ranked_by_predicted_time(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With bytes and error bars, in less than a minute of the processor; on a slow link compression is first."""
    began = time.process_time()
    words = ["plan", "--platform", "star 1Mbit/s 1ms", "--workers", "2..4", "-m", model, *DIGITS, "--codecs", "Plain,TopK"]
    assert main([*words, "--json"]) == 0
    assert time.process_time() - began < 60
    told = json.loads(capsys.readouterr().out)
    rows = told["rows"]
    assert len(rows) == told["settings"] == 6 and told["left"] == 0 and told["simulated"]
    assert {(row["codec"], row["every"]) for row in rows} == {("Plain", 1), ("TopK", 1), ("LocalSGD", 8)}
    reached = [row["seconds"] for row in rows if row["seconds"] is not None]
    assert reached == sorted(reached) and len(reached) >= 4
    plain = next(row for row in rows if (row["codec"], row["workers"]) == ("Plain", 2))
    steps = plain["epochs"] * -(-1500 // 16)
    assert plain["seconds"] == pytest.approx(steps * plain["step_seconds"])
    parameters = 64 * 32 + 32 + 32 * 10 + 10
    assert plain["step_seconds"] >= 8 * 4 * parameters / 1e6 and plain["sent_bytes"] >= steps * 4 * parameters
    assert 0.1 <= plain["error"] < 1 and plain["cause"].startswith("the network")
    order = [(row["codec"], row["workers"]) for row in rows]
    assert order.index(("TopK", 2)) < order.index(("Plain", 2)) < order.index(("Plain", 4))


@pytest.mark.long
@covers("SIM-30")
def test_what_lies_outside_of_a_calibration_is_not_ranked_among_the_first(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = (("Plain", (("encode", 1e-4),)), ("TopK", (("encode", 1e-4),)))
    own = Calibration("2026-11-29", 2, 1e6, parameters=2410, block_size=4, compute=0.001, codec_time=times)
    file = tmp_path / "cluster.toml"
    file.write_text(platform_to_toml(Platform("star", bandwidth=1e9, latency=1e-6, calibration=own)))
    words = [
        "plan",
        "--platform",
        str(file),
        "--workers",
        "2,4",
        "-m",
        model,
        *DIGITS,
        "--codecs",
        "Plain",
        "--local-steps",
        "1",
    ]
    assert main(words) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines() if line[:2] in ("1.", "2.")]
    assert [line[1] for line in lines] == ["2", "4?"] and "±?" in text
    assert "? outside of what was calibrated (4 workers, calibrated with 2)." in text
    assert text.startswith("Simulated, not measured. Platform: star; 8 Gbit/s and 1 us; ")
    assert "Learned 3 real epochs of 1 ways to exchange" in text and "simulated 2 settings" in text
    assert "beside the best" in text and " ±" in text and "2 to 4 workers:" in text


@pytest.mark.long
@pytest.mark.processes
@covers("SIM-30")
def test_the_first_ones_are_run_here_with_throttled_links(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--platform", "star 1Mbit/s 20ms", "--workers", "2,3", "-m", model, *DIGITS, "--codecs", "Plain,Int8"]
    assert main([*words, "--local-steps", "1", "--check", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(check["codec"], check["workers"]) for check in told["checks"]] == [
        (row["codec"], row["workers"]) for row in told["rows"][:2]
    ]
    for check in told["checks"]:
        assert check["error"] == pytest.approx(check["predicted"] / check["measured"] - 1)
        assert 0.5 * check["predicted"] < check["measured"]


@pytest.mark.long
def test_without_model_and_data_it_plans_for_what_is_at_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Offline, on a fresh machine: nothing is downloaded, and the network has the shape of the data."""
    words = ["plan", "--platform", "star 1Mbit/s 1ms", "--workers", "2", "--codecs", "Plain", "--local-steps", "1", "-q"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["target"] == 0.9 and [row["workers"] for row in told["rows"]] == [2]
    parameters = sum((inputs + 1) * units for inputs, units in ((64, 128), (128, 128), (128, 10)))
    assert told["rows"][0]["step_seconds"] >= 8 * 4 * parameters / 1e6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--workers", "4..2"],
            "--workers must be a range such as 2..64, or numbers such as 4,8,16, each from 2 to 10000, got '4..2'",
        ),
        (["--workers", "1"], "--workers must be a range"),
        (["--workers", "many"], "--workers must be a range"),
        (["--target", "95"], "--target must be a share between 0 and 1, got 95"),
        (["--platform", "sta 1Gbit/s 50us"], "did you mean 'star'"),
        (["--codecs", "Plian"], "did you mean 'Plain'"),
        (["--codecs", "Plain,AsyncPS"], "--codecs must be codecs that exchange gradients in step, got AsyncPS"),
        (["--block-size", "500"], "must be at most the 1500 samples of the data, got 16 x 500"),
        (["--blocks", "4", "--workers", "2..8"], "--blocks must be at least the largest number of workers, 8, got 4"),
        (["--local-steps", "0"], "must be a positive integer, got '0'"),
        (["--check", "1", "--platform", "ring 1Gbit/s 50us"], "--check needs a star without a backbone"),
        (["--transform", "none"], "without 'model' samples must be rows of numbers, and labels one-hot rows of"),
        (["--workers", "2..8", "--platform", "star of 4 hosts, 1Gbit/s 50us"], "'hosts' must have room for the job's 8 nodes"),
    ],
)
def test_wrong_arguments_are_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["plan", "--platform", "star 1Gbit/s 50us", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2 and says in capsys.readouterr().err


def test_a_target_is_reached_within_the_epochs_or_by_their_power_law() -> None:
    within = learned([0.5, 0.7, 0.9], 0.8)
    assert within.epochs == pytest.approx(2.5) and within.error == pytest.approx(1 / 6)
    law = [1 - 0.5 * epoch**-0.5 for epoch in (1, 2, 3)]
    forecast = learned(law, 1 - 0.5 * 16**-0.5)
    assert forecast.epochs == pytest.approx(16) and forecast.error == pytest.approx(0.15)
    late = learned([0.1, *(1 - 0.5 * epoch**-0.5 for epoch in (2, 3, 4))], 1 - 0.5 * 16**-0.5)
    assert late.epochs == pytest.approx(16)  # the first epochs follow no law
    assert learned([0.5, 0.8, 0.79, 0.78], 0.85).epochs is not None  # nothing falls in the later half, but in all
    assert learned([0.8, 0.8 + 1e-9, 0.8 + 2e-9], 0.9).epochs is None  # falls by nearly nothing
    assert learned(law, 0.999).epochs is None and learned([0.5, 0.4], 0.9).epochs is None and learned([0.5], 0.9).epochs is None


def test_epochs_are_doubled_where_the_target_is_close() -> None:
    """Else one sample of the test set decides which way is first."""
    model = nn.model.SequentialModel([-1, 64], [nn.layer.Dense(16, "tanh"), nn.layer.Dense(10, "softmax")])
    model.setup("crossentropy_with_softmax", "accuracy")
    own = parse_platform("star 1Mbit/s 1ms")
    planner = Planner(model, nn.dataset.Digits(), nn.dataset.transforms.ImageCls(), own, blocks=2, block_size=16)
    way = Way(codecs.Plain)
    metrics = planner.learn(way, 4, 0.999).metrics
    assert len(metrics) == 4  # a target that is far: as many as were asked for
    target = (metrics[1] + metrics[2]) / 2
    assert max(metrics[:2]) < target < metrics[2]
    close = planner.learn(way, 2, target)
    assert close.metrics == metrics and close.epochs == pytest.approx(2.5)


def test_a_port_is_imitated_by_its_share_for_each_pair() -> None:
    fault = throttled(parse_platform("star 30Mbit/s 20ms"), 4)
    assert fault.startswith("throttle 0-1 10mbit; +20ms 0-1; throttle 0-2 10mbit") and fault.count("throttle") == 6


@pytest.mark.parametrize("bandwidth", [1.0, 37.0, 125e6, 1.79e9, 1e12 / 3])
@pytest.mark.parametrize("latency", [0.000377, 1e-4 / 3 + 1e-4, 2000.0])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_port_of_any_rate_makes_a_fault_plan(bandwidth: float, latency: float, workers: int) -> None:
    plan = FaultPlan.parse(throttled(Platform("star", bandwidth=bandwidth, latency=latency), workers))
    rates = {fault.rate for fault in plan.faults if fault.kind == "throttle"}
    delays = {fault.delay for fault in plan.faults if fault.kind != "throttle"}
    assert rates == {bandwidth / (workers - 1)} and delays == {latency}


def test_ways_average_parameters_now_and_then() -> None:
    assert usual_ways([codecs.Plain], [1, 8]) == [Way(codecs.Plain), Way(codecs.LocalSGD, 8)]
