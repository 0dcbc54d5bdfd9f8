"""Studies on simulated clusters, each with a picture in docs/pictures/simulated and figures in `figures/study-<name>.json`.

python -m benchmarks.simulation.studies                 all of them
python -m benchmarks.simulation.studies map             which codec reaches a target first, by bandwidth and workers
python -m benchmarks.simulation.studies servers         ring against server, to 1,000 nodes
python -m benchmarks.simulation.studies compression     when compression pays
python -m benchmarks.simulation.studies stragglers      stragglers, and the first k of n
python -m benchmarks.simulation.studies order           what the order of sending costs
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

import nn
import parallel_sgd
from benchmarks.simulation import drawing, figures, schedules
from benchmarks.simulation.truth import calibrated
from nn.dataset import ArrayDataset
from nn.dataset.transforms import ImageCls, Shuffle
from nn.gradient_descent import SGDOptimizer
from parallel_sgd import codec as codecs
from parallel_sgd.batch_sync import FirstK
from parallel_sgd.codec import Codec
from parallel_sgd.simulation.network import network_of
from parallel_sgd.simulation.plan import Planner, Way, throttled
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.platform_text import parse_platform
from parallel_sgd.simulation.steps import step_of
from parallel_sgd.simulation.usual_model import usual_model

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures" / "simulated"
SIZE: Final = 473_128
"""Bytes of the gradient of 118,282 parameters."""
STAR: Final = Platform("star", bandwidth=125e6, latency=50e-6, ports="fifo")
SERVER: Final = -2
Curves = dict[str, list[tuple[float, float]]]


class Drawn(NamedTuple):
    """Outcome of a study.

    Args:
        picture: as SVG.
        curves: points by name.
    """

    picture: str
    curves: Mapping[str, drawing.Points]


def seconds(workers: int, schedule: schedules.Schedule, platform: Platform = STAR) -> float:
    """Return when the last message of a schedule of sizes arrives."""
    network = network_of(platform, [*range(workers), SERVER])
    return max(moment for moment, *_ in schedules.drive(network, *schedule))


def step(
    platform: Platform | str,
    codec: type[Codec],
    workers: int,
    steps: int = 5,
    known: dict[type[Codec], Any] | None = None,
    **given: Any,
) -> float:
    """Return the seconds of a step of a real codec, with a model of 118,282 parameters.

    Args:
        platform: of the workers.
        codec: its class.
        workers: their number.
        steps: number of steps.
        known: times of codecs, to which those that are measured are added; None: codecs take none.
        given: options of the job, and `compute`.
    """
    random, count, block = np.random.default_rng(1), 4 * workers * steps, 4
    x = random.random((count + 8, 784), np.float32)
    y = np.eye(10, dtype=np.float32)[random.integers(0, 10, len(x))]
    job = parallel_sgd.ParallelSGD(usual_model(), ArrayDataset(x[:count], y[:count], x[count:], y[count:]))
    compute, costs = given.pop("compute", "1ms"), 0 if known is None else known.get(codec, "measured")
    with TemporaryDirectory() as folder:
        nodes = parallel_sgd.simulated(workers, platform, ps=codec.traits.needs_server, compute=compute, codec_time=costs)
        options = {"block_size": block, "epoch": 1, "gd_type": SGDOptimizer, "verbose": 0, "directory": folder, **given}
        result = job.parallel(nodes, codec=codec, checkpoint_every=None, **options)
        if known is not None and result.simulated is not None:
            known.setdefault(codec, dict(result.simulated.codec_time))
        return step_of(result)


def servers() -> Drawn:
    """Draw the time of an exchange by a ring's shards, a ring proper and a server, to 1,000 nodes."""
    counts = (2, 4, 8, 16, 32, 64, 128, 256, 1000)
    curves = {
        "server": [(w, 1e3 * seconds(w, schedules.server_star(w, SIZE, SERVER))) for w in counts],
        "Ring (shards)": [(w, 1e3 * seconds(w, schedules.shards_to_owners(w, SIZE, True))) for w in counts],
        "literal ring": [(w, 1e3 * seconds(w, schedules.literal_ring(w, SIZE))) for w in counts if w <= 256],
    }
    for name, points in curves.items():
        print(f"{name:14}", "  ".join(f"{w}: {ms:.4g} ms" for w, ms in points))
    star = "star 1Gbit/s 50us fifo"
    dots = {
        "server": [(w, 1e3 * (step(star, codecs.SyncPS, w, compute=0))) for w in (8, 64)],
        "Ring (shards)": [(w, 1e3 * (step(star, codecs.Ring, w, compute=0))) for w in (8, 64)],
    }
    print("real codecs:   ", dots)
    picture = drawing.chart(
        "Simulated: an exchange of 473 kB by a server, and without one",
        "Star, 1 Gbit/s and 50 us, ports first in, first out. Lines: schedules of sizes; dots: jobs with the real codecs.",
        ("workers", "milliseconds of an exchange"),
        curves,
        dots,
    )
    return Drawn(picture, {**curves, **{f"{name}, real": points for name, points in dots.items()}})


def compression() -> Drawn:
    """Draw the time of a step of eight workers by bandwidth, for codecs with their measured time."""
    rates = (1, 10, 100, 300, 1000, 10_000)
    curves, known = {}, dict[type[Codec], Any]()
    for name in ("Plain", "Ring", "Int8", "TopK", "EFSign"):
        codec = getattr(codecs, name)
        curves[name] = [(rate, 1e3 * step(f"star {rate}Mbit/s 100us", codec, 8, compute="2ms", known=known)) for rate in rates]
        print(f"{name:7}", "  ".join(f"{rate}: {ms:.4g} ms" for rate, ms in curves[name]))
    picture = drawing.chart(
        "Simulated: when compression pays, a step of eight workers",
        "Star, 100 us, ports shared fairly; a block step takes 2 ms, the time of codecs is measured on this machine.",
        ("Mbit/s of each port", "milliseconds of a step"),
        curves,
    )
    return Drawn(picture, curves)


def stragglers() -> Drawn:
    """Draw the time of a step of eight workers that go on with the first k, for computing of unequal time."""
    curves = {}
    for name, law in {
        "5 ms + exponential 5 ms": "exponential 5ms 5ms",
        "Pareto, 5 ms, shape 2": "pareto 5ms 2",
        "log-normal, 7 ms": "lognormal 7ms 0.5",
    }.items():
        points = []
        for k in (4, 5, 6, 7, 8):
            sync = {} if k == 8 else {"sync_type": FirstK(k)}
            steps = step("star 10Gbit/s 10us", codecs.Plain, 8, steps=40, compute=law, **sync)
            points.append((float(k), 1e3 * steps))
        curves[name] = points
        print(f"{name:24}", "  ".join(f"{k:.0f} of 8: {ms:.4g} ms" for k, ms in points))
    picture = drawing.chart(
        "Simulated: stragglers, and steps that the first k of eight end",
        "Star, 10 Gbit/s and 10 us; Plain; median over 40 steps of the time of two that follow each other.",
        ("k, workers whose gradients a step waits for", "milliseconds of a step"),
        curves,
    )
    return Drawn(picture, curves)


def order() -> Drawn:
    """Draw what it costs when all workers begin with worker 0, in place of their neighbour."""
    counts = (2, 4, 8, 16, 32, 64, 128)
    curves = {
        "all begin with worker 0": [(w, 1e3 * seconds(w, schedules.shards_to_owners(w, SIZE, False))) for w in counts],
        "each with its neighbour": [(w, 1e3 * seconds(w, schedules.shards_to_owners(w, SIZE, True))) for w in counts],
    }
    for name, points in curves.items():
        print(f"{name:24}", "  ".join(f"{w}: {ms:.4g} ms" for w, ms in points))
    picture = drawing.chart(
        "Simulated: the order of sending, an exchange of 473 kB in shards",
        "Star, 1 Gbit/s and 50 us, ports first in, first out: at every moment all send to one, or each to another one.",
        ("workers", "milliseconds of an exchange"),
        curves,
    )
    return Drawn(picture, curves)


RATES: Final = (1, 4, 16, 64, 250, 1000)
WORKERS: Final = (2, 4, 8, 16)
CHECKED: Final = ((0, 0), (3, 0), (0, 1), (2, 1))
"""Columns and rows of the fields that are run on this machine, too."""
TARGET, EPOCHS = 0.9, 8


def world() -> Drawn:
    """Draw the map: which codec reaches the target first, by bandwidth and workers."""
    model = nn.model.SequentialModel(
        [-1, 64], [nn.layer.Dense(256, "tanh"), nn.layer.Dense(128, "tanh"), nn.layer.Dense(10, "softmax")]
    )
    model.setup("crossentropy_with_softmax", "accuracy")
    # what a step and a second exchange in it cost a real worker here; hosts of the map have one worker each
    calibration = calibrated(2, ("Plain", "Ring"), model).calibration
    own = replace(parse_platform("star 100Mbit/s 1ms"), calibration=calibration)
    planner = Planner(model, nn.dataset.Digits(), Shuffle().add(ImageCls()), own, blocks=16, block_size=4)
    ways = [Way(getattr(codecs, name)) for name in ("Plain", "Ring", "Int8", "TopK")]
    known = {way: planner.learn(way, EPOCHS, TARGET) for way in ways}
    for way, found in known.items():
        print(
            f"{way.name:6} reaches {TARGET:g} after {found.epochs} epochs: {[round(v, 3) for v in found.metrics]}", flush=True
        )
    fields, best = [], {}
    for r, workers in enumerate(WORKERS):
        line = []
        for c, rate in enumerate(RATES):
            platform = replace(own, bandwidth=parse_platform(f"star {rate}Mbit/s 1ms").bandwidth)
            first = min((planner.row(way, workers, known[way], platform) for way in ways), key=lambda row: row.seconds)
            best[c, r] = first, platform
            line.append(drawing.Field(first.way.name, first.seconds))
            print(f"{workers:3} workers, {rate:5} Mbit/s: {first.way.name:6} {first.seconds:.4g} s", flush=True)
        fields.append(line)
    dots = []
    for c, r in CHECKED:
        row, platform = best[c, r]
        fault = throttled(platform, row.workers)
        with parallel_sgd.local_workers(row.workers) as nodes:
            took = min(planner.real_step(row.way, nodes, fault) for _ in range(2))
        steps = row.seconds / row.timed.seconds
        dots.append((c, r, f"{row.seconds:.2g} / {steps * took:.2g} s"))
        print(
            f"measured {row.workers} workers, {RATES[c]} Mbit/s: predicted {row.seconds:.4g} s, measured {steps * took:.4g} s"
        )
    picture = drawing.world(
        f"Simulated: the codec that reaches an accuracy of {TARGET:g} first",
        (
            f"Digits, {planner.parameters:,} parameters, batches of 64. Colour: first of Plain, Ring, Int8, TopK; its seconds.",
            "Lines: equal times. Dots: predicted / measured with throttled links on two cores, which",
            "four workers shared. Star, 1 ms, ports shared fairly; compute, codecs and the cost of",
            "a step are measured once. Learning is real, only time is simulated.",
        ),
        ("Mbit/s of each worker's port", "workers"),
        RATES,
        WORKERS,
        fields,
        dots,
    )
    times: Curves = {}
    for (c, r), (first, _) in best.items():
        times.setdefault(f"{WORKERS[r]} workers: {first.way.name}", []).append((RATES[c], first.seconds))
    return Drawn(picture, times)


STUDIES: Final[dict[str, Callable[[], Drawn]]] = {
    "map": world,
    "servers": servers,
    "compression": compression,
    "stragglers": stragglers,
    "order": order,
}


def _draw(chosen: Iterable[str], folder: Path) -> None:
    for name in chosen:
        began = time.perf_counter()
        print(f"# {name}")
        path, drawn = folder / f"{name}.svg", STUDIES[name]()
        path.write_text(drawn.picture, "utf-8")
        if folder == FOLDER:
            kept = figures.Kept(
                figures.FOLDER / f"study-{name}.json", f"python -m benchmarks.simulation.studies {name}", anew=True
            )
            for curve, points in drawn.curves.items():
                kept.add({"name": curve, "points": [[x, float(f"{y:.4g}")] for x, y in points]})
        print(f"{path}, in {time.perf_counter() - began:.0f} s\n", flush=True)


def _at(curves: Mapping[str, Mapping[float, float]], name: str, *places: float) -> str:
    """Return values of a curve, as `1.2, 3.4 and 5.6`."""
    *others, last = (_three(curves[name][place]) for place in places)
    return f"{', '.join(others)} and {last}" if others else last


def _three(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{float(f'{value:.3g}'):,g}"


def _of_servers(curves: Mapping[str, Mapping[float, float]]) -> str:
    lone, real = (curves[name][64] for name in ("server", "server, real"))
    return (
        f"1 Gbit/s, 473 kB, sizes only: a server takes {_at(curves, 'server', 8, 64, 1000)} ms, shards straight to their "
        f"owners {_at(curves, 'Ring (shards)', 8, 64, 1000)} ms, a literal ring {_at(curves, 'literal ring', 8, 64)} ms (and "
        f"more with each hop). A real `SyncPS` of 64 workers is {lone / real:.2g} times as fast as one message each way, since "
        f"the answers of its first variables go back while the others come."
    )


def _of_compression(curves: Mapping[str, Mapping[float, float]]) -> str:
    slow, fast = (", ".join(f"{_three(curve[rate])} ms with {name}" for name, curve in curves.items()) for rate in (1, 10_000))
    return (
        f"Eight workers, a block step of 2 ms: at 1 Mbit/s a step takes {slow}; at 10 Gbit/s {fast}: there codecs decide by "
        f"their computing."
    )


def _of_stragglers(curves: Mapping[str, Mapping[float, float]]) -> str:
    told = "; ".join(f"{name}: {_at(curves, name, 8, 7, 4)} ms" for name in curves)
    return f"A step that all eight end, the first seven, the first four. {told}. Most of the wait is for the last one."


def _of_order(curves: Mapping[str, Mapping[float, float]]) -> str:
    all_of_them, each = curves["all begin with worker 0"], curves["each with its neighbour"]
    few, many = (all_of_them[workers] / each[workers] for workers in (8, 128))
    return f"{few:.3g} times the time with 8 workers that all begin with worker 0, {many:.3g} times with 128."


MEASURED: Final = ("compression",)
"""Studies whose figures depend on the machine: those with the time of codecs."""
_TOLD: Final[dict[str, Callable[[Mapping[str, Mapping[float, float]]], str]]] = {
    "servers": _of_servers,
    "compression": _of_compression,
    "stragglers": _of_stragglers,
    "order": _of_order,
}


def part(name: str, content: Mapping[str, Any]) -> str:
    """Return what the guide says of the outcome of a study.

    Args:
        name: that of the study.
        content: that of its file of figures.
    """
    told = _TOLD[name]({row["name"]: dict(row["points"]) for row in content["rows"]})
    return f"{told} ({figures.origin(content)}.)" if name in MEASURED else told


def main(given: Sequence[str] | None = None) -> int:
    """Run studies and write their pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; default: all")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the pictures; default docs/pictures/simulated")
    options = parser.parse_args(given)
    chosen: Iterable[str] = options.studies or STUDIES
    for name in chosen:
        if name not in STUDIES:
            parser.error(f"STUDY must be one of {', '.join(STUDIES)}, got {name!r}")
    options.folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    try:
        _draw(chosen, options.folder)
    finally:
        logging.disable(logging.NOTSET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
