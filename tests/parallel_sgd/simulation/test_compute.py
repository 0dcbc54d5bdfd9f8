"""Times of block steps and of codecs, and the cores of a host, in real jobs."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parallel_sgd
from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd.codec import AsyncPS, Plain, Ring, SyncPS, TopK
from parallel_sgd.engine.batches import Batches
from parallel_sgd.simulation.codec_time import Cost, codec_time_of
from parallel_sgd.simulation.compute import Constant, Exponential, LogNormal, Pareto, Schedule, Trace, compute_of, law_of
from tests.statements import covers

from .test_jobs import train, weights

FAST = "star 1000Gbit/s 0us"
EVALUATION = 16 / 3 / 4
"""Time of the evaluation of 16 samples in blocks of 4, of which it has a third."""


def seconds(result: Any) -> float:
    """The virtual seconds of a job."""
    assert result.simulated is not None
    return float(result.simulated.seconds)


def steps_of(times: Any, node: int, count: int) -> list[float]:
    """Times of the first block steps of a node."""
    return [times.seconds(node, 0, batch, 0) for batch in range(count)]


def fitted(given: object, nodes: int = 2, steps: int = 20_000, seed: int = 3) -> Any:
    """Times of nodes with a block in each batch."""
    schedule = Schedule(Batches(steps * nodes, 1, nodes), {node: [node] for node in range(nodes)}, 1)
    return compute_of(given, seed, range(nodes)).fitted(schedule, None)


@pytest.mark.parametrize(
    ("given", "law"),
    [
        ("5ms", Constant(0.005)),
        (0.005, Constant(0.005)),
        (0, Constant(0.0)),
        ("exponential 5ms 2ms", Exponential(0.005, 0.002)),
        ("pareto 5ms 2.5", Pareto(0.005, 2.5)),
        ("lognormal 5ms 0.3", LogNormal(0.005, 0.3)),
        (Pareto(0.005, 2.5), Pareto(0.005, 2.5)),
    ],
)
def test_every_written_form_is_the_law_that_it_says(given: object, law: object) -> None:
    assert compute_of(given, 0, [0, 1]).laws == {0: law, 1: law}


def test_laws_have_their_quantiles_and_draws_are_those_of_their_step() -> None:
    """Each quantile of 3,000 draws is within 3 standard errors, sqrt(p (1 - p) / n) in shares."""
    count = 3_000
    laws = {
        "exponential 5ms 2ms": lambda p: 0.005 - 0.002 * math.log(1 - p),
        "pareto 5ms 2.5": lambda p: 0.005 * (1 - p) ** (-1 / 2.5),
        "lognormal 5ms 0.3": lambda p: 0.005 * math.exp(0.3 * statistics.NormalDist().inv_cdf(p)),
    }
    for text, quantile in laws.items():
        times = fitted(text)
        drawn = np.array(steps_of(times, 0, count))
        for p in (0.1, 0.5, 0.9, 0.99):
            assert abs(np.mean(drawn <= quantile(p)) - p) < 3 * math.sqrt(p * (1 - p) / count)
        assert times.median(0) == pytest.approx(quantile(0.5), rel=1e-12)
        assert steps_of(times, 0, 5)[::-1] == [times.seconds(0, 0, batch, 0) for batch in (4, 3, 2, 1, 0)]
        assert steps_of(times, 1, 5) != steps_of(times, 0, 5) != steps_of(fitted(text, seed=4), 0, 5)


def test_draws_have_the_same_bits_on_all_machines() -> None:
    """These were drawn once; integers, correctly rounded functions and sums, products and roots alone are behind them."""
    found = [fitted(text).seconds(1, 0, 7, 0).hex() for text in ("exponential 5ms 2ms", "pareto 5ms 2.5", "lognormal 5ms 0.3")]
    assert found == ["0x1.4f50fa0df200cp-7", "0x1.d29cbf795e270p-7", "0x1.02a8ce49b8c3dp-8"]


def test_a_trace_of_a_spreadsheet_may_begin_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("seconds\n0.001\n0.004\n", "utf-8-sig")
    law = law_of("'compute'", f"trace {file}")
    assert isinstance(law, Trace) and law.of(3) == [0.001, 0.004]


@pytest.mark.long
@covers("SIM-4")
def test_a_job_takes_the_time_of_its_laws(tmp_path: Path) -> None:
    """Without a network, a step of synchronous workers takes as long as the slowest, the evaluation its median."""
    (tmp_path / "one.csv").write_text("seconds\n0.001\n0.004\n0.002\n")
    (tmp_path / "two.csv").write_text("node,seconds\n0,0.001\n1,0.002\n0,0.004\n1,0.001\n0,0.002\n1,0.009\n")
    median = {0: 0.002, 1: 0.002}
    for number, (given, steps) in enumerate(
        {
            "5ms": [0.005] * 3,
            f"trace {tmp_path / 'one.csv'}": [0.001, 0.004, 0.002],
            f"trace {tmp_path / 'two.csv'}": [0.002, 0.004, 0.009],
        }.items()
    ):
        result = train(parallel_sgd.simulated(2, FAST, compute=given, codec_time=0), Ring, tmp_path / str(number))
        last = (0.005 if given == "5ms" else max(median.values())) * EVALUATION
        assert seconds(result) == pytest.approx(sum(steps) + last, rel=1e-4)
    for number, given in enumerate(("exponential 5ms 2ms", "pareto 5ms 2.5", "lognormal 5ms 0.3")):
        times = fitted(given, steps=3, seed=8)
        result = train(parallel_sgd.simulated(2, FAST, compute=given, codec_time=0, seed=8), Ring, tmp_path / f"r{number}")
        drawn = sum(max(times.seconds(node, 0, batch, node) for node in (0, 1)) for batch in range(3))
        assert seconds(result) == pytest.approx(drawn + times.median(0) * EVALUATION, rel=1e-4)
    mixed = {1: "20ms", "default": 0.001}
    result = train(parallel_sgd.simulated(3, FAST, compute=mixed, codec_time=0), Ring, tmp_path / "m")
    assert seconds(result) == pytest.approx(0.06 + 0.02 * EVALUATION, rel=1e-4)
    # measured: once, and the same when it is given
    result = train(parallel_sgd.simulated(2, FAST, codec_time=0), Ring, tmp_path / "measured")
    assert result.simulated is not None and result.simulated.compute
    again = train(parallel_sgd.simulated(2, FAST, compute=result.simulated.compute, codec_time=0), Ring, tmp_path / "again")
    assert again.simulated is not None and again.simulated.digest == result.simulated.digest
    # codecs: a worker makes and takes in two packets, a part of the one vector that all variables are, and the mean of one
    cost = {"Ring": {"encode": "10ms", "merge": "100ms"}}
    result = train(parallel_sgd.simulated(2, FAST, compute=0, codec_time=cost), Ring, tmp_path / "codec", steps=1)
    assert seconds(result) == pytest.approx(2 * (0.01 + 0.1), rel=1e-4)
    # cores: four nodes on a host of two cores take twice as long as on one of four
    took = []
    for cores in (4, 2):
        nodes = parallel_sgd.simulated(4, f"{FAST}, 4 nodes per host, {cores} cores per host", compute="5ms", codec_time=0)
        took.append(seconds(train(nodes, Ring, tmp_path / f"cores{cores}")))
    assert took == pytest.approx([0.015 + 0.005 * EVALUATION, 2 * (0.015 + 0.005 * EVALUATION)], rel=1e-9)


@pytest.mark.parametrize("codec", [Ring, TopK, Plain, SyncPS, AsyncPS])
@pytest.mark.long
def test_codec_time_is_measured_unless_it_is_given_and_can_be_given_again(codec: Any, tmp_path: Path) -> None:
    server = codec.traits.needs_server
    given: dict[str, Any] = {"sync_type": "asgd", "op_type": GradientAveragingOptimizer} if codec is AsyncPS else {}
    first = train(parallel_sgd.simulated(12, ps=server, compute="1ms"), codec, tmp_path / "a", **given)
    assert first.simulated is not None
    table = first.simulated.codec_time
    assert codec.__name__ in table and "without the time of codecs" not in str(first.simulated)
    times = codec_time_of(table)
    assert times is not None
    cost = times.costs[codec.__name__]
    assert 0 < cost.encode + 1000 / cost.encode_rate < 0.1 and 0 < cost.merge + 1000 / cost.merge_rate < 0.1
    again = train(parallel_sgd.simulated(12, ps=server, compute="1ms", codec_time=table), codec, tmp_path / "b", **given)
    free = train(parallel_sgd.simulated(12, ps=server, compute="1ms", codec_time=0), codec, tmp_path / "c", **given)
    assert again.simulated and free.simulated and again.simulated.digest == first.simulated.digest
    assert free.simulated.seconds < again.simulated.seconds
    assert str(free.simulated).endswith("without the time of codecs")
    if not given:
        assert weights(first) == weights(free)


def test_codec_time_is_read_from_a_calibration(tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    path.write_text('[codec_time.Ring]\nencode = "20us"\nmerge_rate = "1GB/s"\n[codec_time.default]\nencode = 0.5\n')
    times = codec_time_of(path)
    assert times == codec_time_of(str(path)) and times is not None
    assert times.costs == {"Ring": Cost(20e-6, math.inf, 0.0, 1e9)} and times.default == Cost(0.5)
    assert codec_time_of(times.table()) == times


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (-1, "'compute' must be a finite number of seconds of at least 0, got -1"),
        (math.nan, "'compute' must be a finite number of seconds of at least 0, got nan"),
        (math.inf, "'compute' must be a finite number of seconds of at least 0, got inf"),
        ("-5ms", "'compute' must be a time such as '5ms', .*got '-5ms'"),
        ("exponentail 5ms 2ms", "got 'exponentail 5ms 2ms'; did you mean 'exponential'"),
        ("exponential 5ms", "'compute' must be 'exponential' with its least time and its mean of the exponential part"),
        ("exponential 5ms -2ms", "'compute', mean of the exponential part of exponential, must be a time .*got '-2ms'"),
        ("pareto 5ms 0", "'compute', shape of pareto, must be a number above 0, got '0'"),
        ("lognormal 5ms nan", "'compute', sigma of lognormal, must be a number of at least 0, got 'nan'"),
        ({0: "5ms"}, "'compute' must have each worker, or 'default' for the others, got none for node\\(1\\)"),
        ({0: "5ms", 7: 1, "default": 1}, "'compute' must have workers 0 to 1 and 'default' as its keys, got 7"),
        ({0: -3, "default": 1}, "'compute' for 0 must be a finite number of seconds of at least 0, got -3"),
        (True, "'compute' must be a number of seconds, .*got True"),
        (1e300, "'compute' must be at most 1e\\+09 seconds, got 1e\\+300"),
        ("trace", "'compute' must be 'trace FILE', got no file"),
        ("trace /nowhere.csv", "'compute' must be a CSV file that can be read, got '/nowhere.csv'"),
    ],
)
@covers("SIM-34")
def test_a_time_that_cannot_be_is_told_by_its_field_before_anything_runs(compute: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        parallel_sgd.simulated(2, FAST, compute=compute)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a trace with seconds, got .*, which has none"),
        ("0.1\n-0.2\n", "line 2 of the trace .* must be a finite number of seconds of at least 0, got -0.2"),
        ("0.1\nnan\n", "line 2 of the trace .* must be a finite number of seconds"),
        ("0.1\nsoon\n", "line 2 of the trace .* must be a time such as '5ms', or seconds, got 'soon'"),
        ("0,0.1\nx,0.2\n", "line 2 of the trace .* must begin with the number of a node, got 'x'"),
        ("0,0.1\n0.2\n", "line 2 of the trace .* must be seconds, or node and seconds, got '0.2'"),
        ("0,0.1\n", "'compute' must have seconds of each node in the trace .*, got none of node\\(1\\)"),
    ],
)
@covers("SIM-34")
def test_a_faulty_trace_is_told_by_its_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        parallel_sgd.simulated(2, FAST, compute=f"trace {tmp_path / 't.csv'}")


@covers("SIM-34")
def test_a_trace_that_is_too_short_is_refused_before_a_worker_is_built(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("0.1\n0.1\n")
    nodes = parallel_sgd.simulated(2, FAST, compute=f"trace {tmp_path / 't.csv'}", codec_time=0)
    with pytest.raises(ValueError, match=r"for each of its 3 block steps in the trace .*t\.csv', got 2"):
        train(nodes, Ring, tmp_path)
    schedule = Schedule(Batches(11, 1, 4), {0: [0, 1], 1: [2, 3]}, 2)  # 2 whole batches and a tail of 3 samples in 4 blocks
    assert [schedule.count(node) for node in (0, 1)] == [10, 12]
    assert [schedule.number(0, 1, batch, block) for batch, block in ((0, 0), (1, 1), (2, 1))] == [5, 8, 9]
    assert Trace({None: (1.0,)}, "t").of(5) == (1.0,)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (1, "'codec_time' must be 'measured', 0, a dict"),
        ({"Ring": 3}, "'codec_time' of Ring must be a table"),
        ({"Ring": {"encod": 3}}, "'codec_time' of Ring must have keys among .* got 'encod'; did you mean 'encode'"),
        ({"Ring": {"encode": -3}}, "'codec_time' of Ring, 'encode', must be a finite number of seconds of at least 0, got -3"),
        ({"Ring": {"merge_rate": 0}}, "'codec_time' of Ring, 'merge_rate', must be a rate above 0"),
        ("nowhere.toml", "'codec_time' must be a TOML file that can be read, got 'nowhere.toml'"),
    ],
)
@covers("SIM-34")
def test_codec_times_that_cannot_be_are_told_by_their_field(given: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        parallel_sgd.simulated(2, FAST, compute=0, codec_time=given)


@covers("SIM-34")
def test_platforms_and_counts_that_cannot_be_are_told_by_their_field(tmp_path: Path) -> None:
    for platform, words in {
        "stra 1Gbit/s 50us": "'shape'",
        "star 1Gbit/s -50us": "'latency' a time of at least 0",
        "star of 2 hosts, 1Gbit/s 50us": "'hosts' must have room for the job's 3 nodes",
    }.items():
        with pytest.raises(ValueError, match=words):
            parallel_sgd.simulated(3, platform)
    with pytest.raises((TypeError, ValueError), match="count"):
        parallel_sgd.simulated(0)
    with pytest.raises(TypeError, match="'seed' must be an integer"):
        parallel_sgd.simulated(2, seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape("'codec_time' must have a time for Ring, or 'default' for all others")):
        train(parallel_sgd.simulated(2, FAST, compute=0, codec_time={"TopK": {}}), Ring, tmp_path)


def test_nodes_whose_packets_come_at_one_moment_compute_at_the_same_time(tmp_path: Path) -> None:
    """With ports that are shared fairly all packets of a batch arrive at once, and many nodes go on in one event."""
    for count in (2, 12):
        nodes = parallel_sgd.simulated(count, f"{FAST}", compute=0.001, codec_time=0)
        assert seconds(train(nodes, Plain, tmp_path / str(count))) == pytest.approx(0.001 * (3 + EVALUATION), rel=1e-4)
