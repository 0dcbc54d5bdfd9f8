"""Clock of clients: seconds of rounds, samplers that do not wait for all, and asynchronous rounds."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psgd.cli import main

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import Clients, in_process, local_workers, simulated
from parallel_sgd.federated import (
    BufferedSampler,
    ClientClock,
    DirichletSplit,
    LogNormalSizes,
    PoissonSampler,
    Sampler,
    TimedSampler,
    WeightedSampler,
    describe,
)
from parallel_sgd.federated.population import Population, deal
from parallel_sgd.options.forms import FORMS
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.options.make_spec import make_spec
from parallel_sgd.run_page.compare import compare_page
from parallel_sgd.run_page.data import page_data
from parallel_sgd.run_page.records import RunRecords
from parallel_sgd.run_page.report import render
from parallel_sgd.sweeps.identity import identity_of, parts_of_identity
from parallel_sgd.sweeps.runs import OF_CLIENTS, told_of
from tests.parallel_sgd.federated.reference import arrays, fedbuff, model
from tests.parallel_sgd.federated.test_clients import OPTIONS, clients, job, trained
from tests.statements import covers

SPEEDS = "lognormal 5ms 0.8"
CLOCK = ClientClock(SPEEDS, up="lognormal 1Mbit/s 0.5", down="10Mbit/s")
SIZES = [2, 4, 6, 8]
FOUR = ClientClock(sample_time=[1.0, "0.5/s", "1s", 1], up="1kB/s")  # of 1,000 bytes: a second more than the samples take
NEEDED = [3.0, 9.0, 7.0, 9.0]


def population(
    sampler: int | Sampler, clock: ClientClock | None = FOUR, sizes: Sequence[int] = SIZES, seed: int = 1
) -> Population:
    return Population(Clients(len(sizes), sampler, clock=clock).knowing(sizes, 1000, 1000), sizes, seed, 2)


def told(given: Population, number: int = 0) -> tuple[list[int], float, float, int, int]:
    course = given.course(number)
    return [each.client for each in course.visits], course.begins, course.ends, course.lost, course.late


def test_a_round_lasts_until_its_last_client_its_deadline_or_as_many_changes_as_it_takes() -> None:
    everyone = population(4)
    assert [each.arrives for each in everyone.course(0).visits] == NEEDED
    assert told(everyone) == ([0, 1, 2, 3], 0.0, 9.0, 0, 0)
    assert told(everyone, 2) == ([0, 1, 2, 3], 18.0, 27.0, 0, 0)
    assert told(everyone, 1)[1:3] == (9.0, 18.0)  # an earlier round again
    assert told(population(TimedSampler(4, deadline="8s"))) == ([0, 2], 0.0, 8.0, 0, 2)
    assert told(population(TimedSampler(4, deadline=20))) == ([0, 1, 2, 3], 0.0, 9.0, 0, 0)
    assert told(population(TimedSampler(4, take=2))) == ([0, 2], 0.0, 7.0, 0, 2)
    # of two that arrive at the same moment the one with the smaller number
    assert told(population(TimedSampler(4, take=3))) == ([0, 1, 2], 0.0, 9.0, 0, 1)
    assert told(population(TimedSampler(4, take=3, deadline=5))) == ([0], 0.0, 5.0, 0, 3)
    nobody = population(TimedSampler(4, deadline=2))
    assert told(nobody) == ([], 0.0, 2.0, 0, 4) and nobody.round(0).slots == (None,) * 4


@covers("RES-1")
def test_clients_drop_out_by_a_draw_of_the_round() -> None:
    sampler = TimedSampler(4, dropout=0.5)
    given, lost = population(sampler), set()
    for number in range(8):
        chosen, begins, ends, gone, late = told(given, number)
        lost |= set(range(4)) - set(chosen)
        # none has come: the server has waited as for the slowest
        assert ends - begins == max((NEEDED[each] for each in chosen), default=9.0) and (len(chosen) + gone, late) == (4, 0)
        assert sampler.close(np.full(4, np.inf))[1] == np.inf
    assert lost == {0, 1, 2, 3}
    # without a clock, too, in which rounds take no time
    assert 0 < sum(population(sampler, None).course(number).lost for number in range(8)) < 32
    kept = np.mean([len(population(TimedSampler(4, dropout=0.2), seed=seed).chosen(0)) for seed in range(200)])
    assert 3.0 < kept < 3.4


def test_a_client_is_asked_only_while_it_is_there_and_its_change_is_lost_where_it_leaves() -> None:
    # client 3 is never there; 1 leaves before it has ended, 0 comes later
    times = {0: [(4, 8)], 1: [(0, 8)], 2: [(0, 5), (5, 60)]}
    clock = ClientClock([1, 2, 1, 1], up=1000, available=times)
    given = population(2, clock)
    assert told(given) == ([2], 0.0, 7.0, 1, 0)
    # at 7 s clients 0, 1 and 2 are there; 0 and 1 are asked, and leave before they have ended: as long as 1 would have taken
    assert told(given, 1) == ([], 7.0, 16.0, 2, 0)
    waiting = population(4, ClientClock(available={1: [(5, 6)], 2: [("1min", "2min")]}))
    assert told(waiting) == ([1], 5.0, 5.0, 0, 0)
    ending = population(4, ClientClock(60.0, available={2: [(0, 360)]}), [2, 4, 2, 8])
    assert told(ending, 2)[2] == 360.0
    with pytest.raises(ValueError, match=r"'available' has no client any more at 360 s, and round 4 needs one: give longer"):
        ending.course(3)


def test_times_are_repeated_after_a_period_and_join_over_its_end() -> None:
    times = ClientClock(available={0: [(20, 24), (0, 6)], 1: [(0, 24)], 2: [(3, 4)]}, period=24).times
    assert times.there(3, 2.0).tolist() == [0, 1] and times.there(3, 24 * 1000 + 3.5).tolist() == [0, 1, 2]
    assert times.leaves(0, 24 * 7 + 21.0) == 24 * 8 + 6 and times.leaves(0, 2.0) == 6 and times.leaves(1, 5.0) == np.inf
    assert times.next(4.0, np.array([False, False, True])) == 27.0
    assert times.next(27.0, np.array([True, False, False])) == 44.0
    odd = ClientClock(available={0: [(0.1, 0.2)]}, period=0.3).times
    now = 0.0
    for _ in range(1000):  # the next moment is one at which the client is there, however sums are rounded
        now = odd.next(now, np.array([True]))
        assert odd.there(1, now).tolist() == [0] and odd.leaves(0, now) > now


def test_samplers_choose_among_the_clients_that_are_there() -> None:
    clock = ClientClock(available={1: [(0, 99)], 3: [(0, 99)]})
    weighted = population(WeightedSampler(2, [0.0, 1.0, 1.0, 0.0]), clock)
    assert [weighted.chosen(number) for number in range(3)] == [[1]] * 3
    assert population(WeightedSampler(3), clock).chosen(0) == [1, 3]
    assert set().union(*(population(PoissonSampler(0.6), clock).chosen(number) for number in range(9))) == {1, 3}

    class Wrong(Sampler):
        def slots(self, clients: int) -> int:
            return 2

        def choose(self, sizes: Any, number: int, random: np.random.Generator) -> list[int]:
            return [0, len(sizes)]

        def close(self, seconds: Any) -> tuple[list[int], float]:
            return [0, 0], 1.0

    with pytest.raises(ValueError, match="Wrong must choose clients from 0 to 1, got"):
        population(Wrong(), clock).chosen(0)
    made = type("Wrong", (Wrong,), {"choose": lambda self, sizes, number, random: [0, 1]})
    with pytest.raises(ValueError, match="Wrong must count clients of the round that arrive, none twice, got places"):
        population(made(), clock).chosen(0)


TIMED = TimedSampler(9, take=6, deadline="1s", dropout=0.1)


@covers("RES-1")
@pytest.mark.parametrize(
    ("sampler", "options"),
    [pytest.param(TIMED, {"redundancy": 2}, marks=pytest.mark.long), (BufferedSampler(6, 12), {"ps": True})],
    ids=repr,
)
def test_rounds_have_the_same_clients_seconds_and_bits_on_any_number_of_workers(
    sampler: Sampler, options: dict[str, Any], tmp_path: Path
) -> None:
    given = Clients(30, sampler, DirichletSplit(0.3), LogNormalSizes(1.0), epochs=2, rounds=5, clock=CLOCK)
    found = []
    for workers, more in ((1, {}), (4, dict(options))):
        with in_process(workers, ps=more.pop("ps", False)) as nodes:
            result = job().parallel(nodes, clients=given, directory=tmp_path, **{**OPTIONS, "epoch": 2, **more})
        rows = [{k: v for k, v in row.items() if k not in ("seconds", "node")} for row in result.history.clients]
        assert result.history.untold == {}
        found.append((result.models[0].store.values.tobytes(), result.history.rounds, rows))
    assert found[0] == found[1]
    rounds = found[0][1]
    assert [row["begins"] for row in rounds[1:]] == [row["ends"] for row in rounds[:-1]]
    assert sum(row["counted"] for row in rounds) == len(found[0][2])
    # a training that goes on has the rounds of one that was never stopped, and models of clients that still train
    trained(given, 2, tmp_path, epoch=1, checkpoint_every="epoch")
    again = trained(given, 3, tmp_path, epoch=2, resume="last")
    assert again.tobytes() == found[0][0]


@pytest.mark.long
def test_simulated_nodes_give_the_same_weights_and_seconds_of_clients_and_a_time_by_the_steps_of_clients(
    tmp_path: Path,
) -> None:
    given = Clients(30, TIMED, DirichletSplit(0.3), LogNormalSizes(1.0), epochs=2, rounds=5, clock=CLOCK)
    options: dict[str, Any] = {**OPTIONS, "epoch": 1, "clients": given, "directory": tmp_path}
    with in_process(1) as nodes:
        here = job().parallel(nodes, **options)
    with simulated(3, "star 1Gbit/s 0s", compute={0: "2ms", 1: "2ms", 2: "8ms"}, codec_time=0) as nodes:
        there = job().parallel(nodes, **options)
    assert there.models[0].store.values.tobytes() == here.models[0].store.values.tobytes()
    assert there.history.rounds == here.history.rounds
    assert there.history.seconds_until() == here.history.seconds_until()
    rows = there.history.clients
    assert all(np.isclose(row["seconds"], row["steps"] * (0.008 if row["node"] == 2 else 0.002), atol=1e-5) for row in rows)
    busiest = [
        max(sum(row["seconds"] for row in rows if row["round"] == n and row["node"] == k) for k in range(3)) for n in (1, 2)
    ]
    assert there.history.steps[0]["time"] >= busiest[0] - 1e-5
    # measured, too: the steps of clients and their packets
    with simulated(2) as nodes:
        assert job().parallel(nodes, **{**options, "clients": clients(rounds=1)}).simulated.seconds > 0  # type: ignore[union-attr]


@pytest.mark.long
def test_killed_on_the_virtual_clock_a_job_goes_on_with_the_models_of_clients_that_still_train(tmp_path: Path) -> None:
    options: dict[str, Any] = {**OPTIONS, "epoch": 1, "directory": tmp_path}
    given = Clients(30, BufferedSampler(6, 12), weigh="equal", epochs=2, rounds=4, clock=CLOCK)
    expected = trained(given, 1, tmp_path, epoch=1)
    with simulated(2, compute="2ms", codec_time=0) as nodes:
        again = job().parallel(
            nodes, **{**options, "clients": given}, on_failure="restart", checkpoint_every=1, fault="kill 1@e1.b3"
        )
    assert again.restarts == 1 and again.models[0].store.values.tobytes() == expected.tobytes()


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fedbuff_equals_plain_numpy(dtype: str, tmp_path: Path) -> None:
    speeds, ups = np.geomspace(0.001, 0.05, 30), np.geomspace(1e6, 1e4, 30)[::-1]
    given = clients(clock=ClientClock(speeds.tolist(), up=ups.tolist(), down="1MB/s"), weigh="equal")
    given = Clients(**{**given.get_config(), "sample": BufferedSampler(5, concurrency=20)})
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    sizes = np.array([len(each) for each in rows])
    size = model(dtype).store.values.nbytes
    seconds = 2 * sizes * speeds + size / 1e6 + size / ups
    settings = {"buffer": 5, "concurrency": 20, "epochs": 2, "size": OPTIONS["block_size"], "rate": 0.2}
    start = model().store.values.copy()
    expected, ended = fedbuff(rows, start, seconds, OPTIONS["seed"], 20, settings)
    with in_process(2) as nodes:
        result = job(dtype).parallel(nodes, clients=given, directory=tmp_path, **OPTIONS)
    change = np.abs(expected - start).max()
    assert np.abs(result.models[0].store.values - expected).max() < (1e-12 if dtype == "float64" else 1e-5) * change
    assert np.isclose(result.history.rounds[-1]["ends"], ended, rtol=1e-12)
    assert result.history.untold == {}
    missed = [row["missed"] for row in result.history.clients]
    assert max(missed) > 3 and missed.count(0) < len(missed) == 100


def test_clients_that_leave_are_replaced_in_asynchronous_rounds() -> None:
    # a client a time, who needs 3 s: it arrives in one period of 4 s, and is lost where it begins late in it
    clock = ClientClock(1.0, available={0: [(0, 4)], 1: [(2, 4)], 2: [(0, 4)], 3: [(0, 4)]}, period=10)
    given = population(BufferedSampler(2, concurrency=3), clock, [3, 3, 3, 0])
    first, second = given.course(0), given.course(1)
    assert {each.client for each in first.visits} == {0, 2} and (first.ends, first.lost) == (3.0, 0)
    assert (second.begins, second.ends, second.lost) == (3.0, 13.0, 3)
    assert all(each.version == 1 and each.begins == 10.0 for each in second.visits)
    assert first.waiting == (0,) and second.waiting == (1,)


@pytest.mark.long
@pytest.mark.processes
def test_asynchronous_rounds_on_local_workers_of_which_one_is_killed_have_the_bits_of_one_worker(tmp_path: Path) -> None:
    given = Clients(**{**clients(clock=CLOCK, weigh="equal").get_config(), "sample": BufferedSampler(6, 15)})
    expected = trained(given, 1, tmp_path / "here", epoch=2)
    with local_workers(2) as nodes:
        result = job().parallel(
            nodes, clients=given, directory=tmp_path, on_failure="restart", fault="kill 1@e2.b3", **{**OPTIONS, "epoch": 2}
        )
    assert result.restarts == 1 and len(result.history.rounds) == 10
    assert {each.store.values.tobytes() for each in result.models.values()} == {expected.tobytes()}


@pytest.mark.long
def test_seconds_of_rounds_stand_in_history_report_and_comparison_and_a_run_with_a_trace_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{client},{from_},{to}" for client in range(30) for from_, to in ((client / 10, 5), ("6s", "1min"))]
    Path("trace.csv").write_text("\n".join(["client,from,to", *lines]))
    clock = ClientClock(SPEEDS, up="1Mbit/s", available="trace.csv", period=60)
    given = Clients(**{**clients(clock=clock).get_config(), "sample": TimedSampler(7, take=6)})
    with in_process(2) as nodes:
        result = job("float32").parallel(nodes, clients=given, directory=tmp_path, **{**OPTIONS, "epoch": 2})
    history, folder = result.history, result.files[0][0].parent.parent
    frame = history.to_frame("rounds")
    assert list(frame.index) == list(range(1, 11)) and frame["ends"].is_monotonic_increasing
    per_epoch = frame.groupby("epoch").apply(lambda rows: (rows["ends"] - rows["begins"]).sum())
    assert np.allclose(history["seconds"], per_epoch)
    assert sum(history["client_bytes"]) == frame["counted"].sum() * 2 * 4 * model().store.values.size
    assert (
        history.seconds_until()[2, np.inf] == frame["ends"].iloc[-1] == history.steps[-1]["seconds"] + frame["begins"].iloc[-1]
    )
    assert history.bytes_until()[2, np.inf] == sum(history["client_bytes"])
    history.plot("curves.svg", x="seconds")
    assert Path("curves.svg").stat().st_size > 1000
    said = _said("show", str(folder), "--directory", str(tmp_path))
    assert f"{frame['ends'].iloc[-1]:.6g} s of their clock" in said
    records = RunRecords.read(folder)
    data = page_data(records)
    rows = deal(given, arrays()[1], OPTIONS["seed"])
    largest = sorted(range(30), key=lambda each: (-len(rows[each]), each))
    assert data["clients"]["held"]["clients"] == largest
    held = np.zeros((30, 10), int)
    for column, row, count in data["clients"]["held"]["cells"]:
        held[largest[row], column] = count
    assert (held == [arrays()[1][each].sum(axis=0) for each in rows]).all()
    drawn = {(number, client) for number, client, _ in data["clients"]["drawn"]["cells"]}
    assert drawn == {(row["round"] - 1, row["client"]) for row in history.clients}
    page = render(records, data)
    assert f"would have sent {sum(history['client_bytes']) / 2:,.0f} bytes" in page and "Rounds on the clients" in page
    said = str(describe(given, ArrayDataset(*arrays()), seed=OPTIONS["seed"], model=model("float32")))
    took = (frame["ends"] - frame["begins"])[:5]
    assert f"a round takes {took.min():.3g} to {took.max():.3g} s, {took.mean():.3g} on average; 0.0 clients are lost" in said
    compared = compare_page([RunRecords.read(folder)] * 2)
    for shown in (page, compared):
        assert "<h3>bytes of clients</h3>" in shown and "<h3>seconds of the clients&#x27; clock</h3>" in shown
        assert "client_bytes<" not in shown, "a name of a program"
    assert f"{sum(history['client_bytes']):,.0f}" in compared and "clients&#x27; clock" in compared
    assert json.loads(_said("verify", str(folder), "--json"))["equal"] is True
    told_by_sweep = told_of(folder)
    assert told_by_sweep.clock == OF_CLIENTS and told_by_sweep.seconds == frame["ends"].iloc[-1]
    assert told_by_sweep.bytes == sum(history["client_bytes"]) and set(told_by_sweep.points[-1].figures) == {
        *("Loss", "accuracy", "val_Loss", "val_accuracy")
    }
    # the trace is part of the identity: with another one the run is another
    before = _identity(given)
    Path("trace.csv").write_text("\n".join(lines[:40]))
    other = ClientClock(SPEEDS, up="1Mbit/s", available="trace.csv", period=60)
    assert _identity(given) == before != _identity(Clients(**{**given.get_config(), "clock": other}))


def _identity(given: Clients) -> str:
    with in_process(2) as nodes:
        spec = make_spec(model(), ArrayDataset(*arrays()), None, JobOptions(nodes, clients=given, **OPTIONS))
        return identity_of(parts_of_identity(spec), "", 0)


OWN = """
import numpy as np
from parallel_sgd.federated import Sampler

class Largest(Sampler, configured=True):
    def __init__(self, number):
        self.number = number

    def slots(self, clients):
        return self.number

    def choose(self, sizes, number, random):
        return np.argsort(-sizes, kind="stable")[: self.number]
"""


def test_a_run_with_a_sampler_of_the_users_own_is_repeated_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own_sampler.py").write_text(OWN)
    own = importlib.import_module("own_sampler")
    with in_process(1) as nodes:
        given = Clients(9, TimedSampler(own.Largest(4), dropout=0.2), rounds=2)
        result = job().parallel(nodes, clients=given, **{**OPTIONS, "epoch": 1})
    folder = result.files[0][0].parent.parent
    assert "own_sampler.py:Largest" in (folder / "job.toml").read_text()
    assert json.loads(_said("verify", str(folder), "--json"))["equal"] is True


def _said(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        main(arguments)
    return said.getvalue()


REFUSED: list[tuple[str, Any]] = [
    (r"'sample' TimedSampler\(sample=3, take=2, .* got no clock", lambda: Clients(9, TimedSampler(3, take=2))),
    ("'take' must be at most 'sample', 3, got 4", lambda: Clients(9, TimedSampler(3, take=4), clock=ClientClock())),
    ("'deadline' must be a time such as '5ms', or seconds, got 'soon'", lambda: TimedSampler(3, deadline="soon")),
    ("'deadline' must be a time above 0", lambda: TimedSampler(3, deadline=0)),
    ("'dropout' must be a number >= 0 and < 1, got 1", lambda: TimedSampler(3, dropout=1)),
    ("must not have times of its own, got TimedSampler", lambda: TimedSampler(TimedSampler(3))),
    ("'concurrency' must be at most the number of clients, 9, got 10", lambda: Clients(9, BufferedSampler(2, 10), clock=FOUR)),
    ("'buffer' must be at most the number of clients, 9, got 10", lambda: Clients(9, BufferedSampler(10, 2), clock=FOUR)),
    (
        "'buffer' must be at most the number of clients with samples, 2, got 3",
        lambda: population(BufferedSampler(3, 2), FOUR, [1, 0, 2, 0]).course(0),
    ),
    ("'sample_time' must hold a value for each of 9 clients, got 4", lambda: Clients(9, 3, clock=FOUR)),
    ("'sample_time' must be seconds of a sample, '200/s', a law, .* got 'measured'", lambda: ClientClock("measured")),
    ("'sample_time' must be samples a second above 0, got '0/s'", lambda: ClientClock("0/s")),
    (r"'up\[1\]' must be bytes a second above 0, a rate such as '1Mbit/s', .* got 0", lambda: ClientClock(0, up=[1, 0])),
    ("'down' must be bytes a second .* got '5ms'", lambda: ClientClock(down="5ms")),
    ("'pareto' must be a number > 0", lambda: ClientClock(up="pareto 1Mbit/s 0")),
    ("'available' must have clients from 0 to 2, got 3", lambda: Clients(3, 3, clock=ClientClock(available={3: [(0, 1)]}))),
    (
        "'available' must have times from a moment to a later one within the period of 9 s, got 8 to 10 for client 3",
        lambda: ClientClock(available={3: [(8, 10)]}, period=9),
    ),
    ("'period' goes with 'available'", lambda: ClientClock(period=9)),
    (r"must have a list of \(from, to\) for client 3, got 5", lambda: ClientClock(available={3: 5})),  # type: ignore[dict-item]
    ("must be a CSV file that can be read, got 'none.csv'", lambda: ClientClock(available="none.csv")),
]


@pytest.mark.parametrize(("words", "make"), REFUSED, ids=[words[:50] for words, _ in REFUSED])
def test_a_wrong_time_is_refused_with_what_is_expected(words: str, make: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_a_trace_tells_its_wrong_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    for line, words in (
        ("1;2;3", "line 2 of .* must be client,from,to, got '1;2;3'"),
        ("1,0,x", "line 2 .* must be a time .* got 'x'"),
    ):
        path.write_text(f"client,from,to\n{line}\n")
        with pytest.raises(ValueError, match=words):
            ClientClock(available=path)


def test_times_that_a_spreadsheet_has_saved_are_read(tmp_path: Path) -> None:
    """It puts a byte order mark before the first line, and leaves empty lines."""
    path = tmp_path / "trace.csv"
    path.write_text("client,from,to\n0,0,1min\n,,\n1, 30 ,90\n", "utf-8-sig")
    clock = ClientClock(available=path)
    assert clock.times.there(2, 45.0).tolist() == [0, 1] and clock.times.leaves(1, 45.0) == 90


def test_a_clock_and_samplers_within_samplers_have_a_text(tmp_path: Path) -> None:
    form = FORMS["clients"]
    sampler = TimedSampler(WeightedSampler(3, [1.0, 2.0, 3.0, 4.0]), take=2, deadline="30s", dropout=0.1)
    given = Clients(4, sampler, clock=FOUR)
    assert form.read("--clients", form.write(given)) == given
    short = "count=100,sample='timed:sample=13,take=10',clock='sample_time=200/s,up=1Mbit/s'"
    assert form.read("--clients", short).sample.take == 10
    with pytest.raises(ValueError, match="--clients clock has no argument 'upp'; did you mean 'up'"):
        form.read("--clients", "count=9,sample=3,clock='upp=1Mbit/s'")
    with pytest.raises(ValueError, match="--clients sample timed sample 'wighted' is unknown; did you mean 'weighted'"):
        form.read("--clients", "count=9,sample=\"timed:sample='wighted:number=3'\"")


def test_parameters_of_a_client_are_no_state_of_the_job(tmp_path: Path) -> None:
    """A failure while a client trains must not leave its parameters as the model of the batch before."""
    given = clients()
    expected = trained(given, 1, tmp_path / "whole", epoch=1).tobytes()

    class Fails(SGDOptimizer):
        left = 60

        def update_from(self, parameters: Any, gradients: Any) -> None:
            Fails.left -= 1
            if not Fails.left:
                raise RuntimeError("in the middle of a client")
            super().update_from(parameters, gradients)

    with pytest.raises(Exception, match="in the middle of a client"):
        trained(given, 1, tmp_path, epoch=1, gd_type=Fails, checkpoint_every="epoch")
    assert trained(given, 1, tmp_path, epoch=1, resume="last").tobytes() == expected


@pytest.mark.parametrize("name", ["Plain", "TopK", "QSGD"])
def test_an_upload_takes_the_time_of_the_bytes_that_its_codec_sends(name: str, tmp_path: Path) -> None:
    given = Clients(30, 6, DirichletSplit(0.3), rounds=1, clock=ClientClock(up=1000, down="2kB/s"))
    with in_process(1) as nodes:
        result = job("float32").parallel(nodes, clients=given, codec=name, directory=tmp_path, **{**OPTIONS, "epoch": 1})
    for row in result.history.clients:
        assert np.isclose(row["arrives"] - row["begins"], row["bytes_up"] / 1000 + row["bytes_down"] / 2000)


@pytest.mark.long
def test_codecs_that_remember_clients_have_equal_bits_in_asynchronous_rounds(tmp_path: Path) -> None:
    given = Clients(30, BufferedSampler(6, 12, damping=0), DirichletSplit(0.3), rounds=6, clock=CLOCK)
    expected = trained(given, 1, tmp_path, epoch=1, codec="TopK", dtype="float32")
    assert trained(given, 3, tmp_path, epoch=1, codec="TopK", dtype="float32").tobytes() == expected.tobytes()
    damped = Clients(**{**given.get_config(), "sample": BufferedSampler(6, 12)})
    with pytest.raises(ValueError, match=r"'codec' TopK merges by a mean .*: take BufferedSampler\(.., damping=0\), or Plain"):
        trained(damped, 1, tmp_path, epoch=1, codec="TopK")
    with pytest.raises(ValueError, match="'control_variates' needs clients that begin with the model of their round"):
        Clients(**{**damped.get_config(), "control_variates": True})


@pytest.mark.long
def test_a_failure_leaves_personal_variables_as_they_were(tmp_path: Path) -> None:
    given = clients(personal="dense_2", rounds=3)
    expected = trained(given, 1, tmp_path / "whole", epoch=2).tobytes()

    class Breaks(SGDOptimizer):
        left = 120

        def update_from(self, parameters: Any, gradients: Any) -> None:
            Breaks.left -= 1
            if not Breaks.left:
                raise RuntimeError("in the middle of a client")
            super().update_from(parameters, gradients)

    with pytest.raises(RuntimeError, match="in the middle of a client"):
        trained(given, 1, tmp_path, epoch=2, gd_type=Breaks, checkpoint_every="epoch")
    assert trained(given, 1, tmp_path, epoch=2, resume="last").tobytes() == expected
