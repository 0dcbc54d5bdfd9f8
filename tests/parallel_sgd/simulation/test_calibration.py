"""Calibrations: what they keep, what they tell of a job, and that a measured time of nothing is an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import parallel_sgd
from parallel_sgd import codec as codecs
from parallel_sgd.simulation import execution
from parallel_sgd.simulation.calibrate import calibrate, fitted_seconds
from parallel_sgd.simulation.calibration import Calibration
from parallel_sgd.simulation.codec_time import CodecTime, Cost
from parallel_sgd.simulation.link_probe import rounds_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import platform_from_toml, platform_to_toml
from parallel_sgd.simulation.steps import step_of
from tests.statements import covers

from .test_jobs import train

PARAMETERS = 6 * 5 + 5 + 5 * 3 + 3
"""Of the network of `train`."""
CALIBRATION = Calibration(
    date="2026-11-29",
    workers=4,
    message_bytes=1e6,
    parameters=PARAMETERS,
    block_size=4,
    compute=0.002,
    codec_time=(("Ring", (("encode", 1e-4), ("merge_rate", 1e9))), ("Plain", (("encode", 2e-4),))),
)
MEASURED = Platform("star", bandwidth=125e6, latency=50e-6, calibration=CALIBRATION)


def test_a_calibration_goes_through_toml() -> None:
    written = platform_to_toml(MEASURED)
    assert platform_from_toml(written) == MEASURED
    assert "calibrated 2026-11-29 with 4 workers" in MEASURED.describe()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("calibration = 3", "The platform's 'calibration' must be a table, got 3."),
        (
            "[calibration]\nworker = 3",
            "'calibration' must have keys among date, workers, .*got 'worker'; did you mean 'workers'",
        ),
        ("[calibration]\nnoise = -1", "'calibration.noise' must be a number of at least 0, got -1"),
        ("[calibration]\nworkers = inf", "'calibration.workers' must be a number of at least 0, got inf"),
        ("[calibration]\ntogether = 1.5", "'calibration.together' must be a share of at most 1, got 1.5"),
        (
            "[calibration.codec_time.Plain]\nencode = -1",
            "'calibration' must have times of codecs: 'codec_time' of Plain, 'encode', must be a finite number .* got -1",
        ),
        ("[calibration.codec_time.Plain]\nencod = 1", "'codec_time' of Plain must have keys among .*did you mean 'encode'"),
        ("[calibration]\ndate = 3", "'calibration.date' must be a text, got 3"),
        ("[calibration]\ncodec_time = 3", "'calibration.codec_time' must be tables by name of codec, got 3"),
    ],
)
def test_a_wrong_calibration_is_told(table: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        platform_from_toml(f"shape = 'star'\nbandwidth = 1\nlatency = 0\n{table}")


@covers("SIM-16", "SIM-31")
def test_a_job_takes_times_from_a_file_and_is_marked_where_it_leaves_it(tmp_path: Path) -> None:
    """Compute of the same model and block size, times of the same codecs; all else is measured here, and said so in the result,
    its text and the page of the run."""
    file = tmp_path / "cluster.toml"
    file.write_text(platform_to_toml(MEASURED))
    inside = train(parallel_sgd.simulated(4, file), codecs.Ring, tmp_path / "in").simulated
    assert inside is not None and inside.outside == () and "outside" not in str(inside)
    assert inside.compute == 0.002 and inside.codec_time == {"Ring": {"encode": 1e-4, "merge": 0.0, "merge_rate": 1e9}}
    beyond = train(parallel_sgd.simulated(5, file), codecs.TopK, tmp_path / "out", widths=(6, 7, 3), page=True).simulated
    assert beyond is not None and len(beyond.outside) == 3
    text = "; ".join(beyond.outside)
    assert "5 workers, calibrated with 4" in text and "a model of 73 parameters" in text and "the time of TopK" in text
    assert "outside of what was calibrated: 5 workers" in str(beyond)
    page = (tmp_path / "out" / "runs" / "latest" / "report.html").read_text("utf-8")
    assert "Outside of what was calibrated: 5 workers, calibrated with 4" in page
    small = replace(MEASURED, calibration=replace(CALIBRATION, message_bytes=100))
    told = train(parallel_sgd.simulated(2, small), codecs.Plain, tmp_path / "large").simulated
    assert told is not None and told.outside == (f"messages of up to {4 * PARAMETERS} bytes, calibrated with up to 100",)


@covers("SIM-14", "SIM-31")
def test_the_time_of_a_step_is_what_each_worker_takes_also_where_they_share_cores(tmp_path: Path) -> None:
    """A calibration of jobs whose workers take 5 ms beside what is simulated finds 5 ms: four of them on two cores wait for
    each other, so their step is longer by more than that."""
    shared = replace(MEASURED, nodes_per_host=4, cores=2)

    def step(seconds: float) -> float:
        own = replace(shared, calibration=replace(CALIBRATION, step=seconds))
        return step_of(train(parallel_sgd.simulated(4, own), codecs.Plain, tmp_path, 4))

    real = step(0.005)
    assert real - step(0.0) > 0.007
    assert fitted_seconds(real, step) == pytest.approx(0.005, rel=0.01)
    assert fitted_seconds(step(0.0) / 2, step) == 0.0


@covers("SIM-14", "SIM-31")
def test_a_second_exchange_takes_a_worker_its_time(tmp_path: Path) -> None:
    """A step of Plain has one exchange, one of Ring two, and one of a server the answer of that."""

    def step(codec: type[codecs.Codec], seconds: float) -> float:
        own = replace(MEASURED, calibration=replace(CALIBRATION, answer=seconds))
        nodes = parallel_sgd.simulated(3, own, ps=codec.traits.needs_server, codec_time=0)
        return step_of(train(nodes, codec, tmp_path, 4))

    assert step(codecs.Plain, 0.01) == pytest.approx(step(codecs.Plain, 0.0), abs=1e-9)
    assert step(codecs.Ring, 0.01) == pytest.approx(step(codecs.Ring, 0.0) + 0.01, abs=1e-6)
    assert step(codecs.SyncPS, 0.01) > step(codecs.SyncPS, 0.0) + 0.0099
    assert fitted_seconds(step(codecs.Ring, 0.01), lambda seconds: step(codecs.Ring, seconds)) == pytest.approx(0.01, rel=1e-3)


@covers("SIM-16")
@pytest.mark.parametrize(
    ("name", "nothing", "says"),
    [
        ("_block_seconds", lambda *_: 0.0, "'compute' must take time where it is measured, got 0.0: give seconds, or 0"),
        ("measured_codec_time", None, "'codec_time' must take time where it is measured, got none for Ring: give times, or 0"),
    ],
)
def test_a_measured_time_of_nothing_is_an_error(
    name: str, nothing: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a clock is too coarse; 0 has to be asked for."""
    if nothing is None:
        monkeypatch.setattr("parallel_sgd.simulation.codec_time._fitted", lambda _: (0.0, float("inf")))
    else:
        monkeypatch.setattr(execution, name, nothing)
    with pytest.raises(ValueError, match=says):
        train(parallel_sgd.simulated(2), codecs.Ring, tmp_path / "a")
    asked = train(parallel_sgd.simulated(2, compute=0, codec_time=0), codecs.Ring, tmp_path / "b")
    assert asked.simulated is not None and "without the time of codecs" in str(asked.simulated)
    assert CodecTime({}, Cost()).table() == {}


@covers("SIM-34")
def test_a_codec_that_no_calibration_can_time_is_told_before_anything_is_measured() -> None:
    """Behind one that it could time, and on nodes that cannot be reached."""
    with pytest.raises(ValueError, match=r"'codecs' must be codecs that exchange gradients .* got LocalSGD: "):
        calibrate(parallel_sgd.in_process(2), [codecs.Plain, codecs.LocalSGD])


def test_no_host_measures_two_pairs_at_a_time() -> None:
    """Each pair once; on as many hosts as nodes in the fewest rounds but a few, on one host one after the other."""
    for hosts in (["a", "b", "c", "d"], ["a", "a", "b", "c"], ["a"] * 4):
        rounds = rounds_of(hosts)
        pairs = [pair for line in rounds for pair in line]
        assert sorted(pairs) == [(i, j) for i in range(4) for j in range(i + 1, 4)]
        for line in rounds:
            taken = [host for pair in line for host in {hosts[node] for node in pair}]
            assert len(taken) == len(set(taken))
    assert len(rounds_of(list("abcd"))) == 3 and len(rounds_of(["a"] * 4)) == 6
