"""All codecs of this folder, and some more, on one model: accuracy against bytes and against time.

python examples/codecs/compare.py                        four workers inside this process
python examples/codecs/compare.py --workers 3 --epochs 30 --picture codecs.svg
python examples/codecs/compare.py --only TopK Plain      these codecs only

Workers of one process take turns, so no network is measured. Columns:

bytes    sent by one worker per batch, with a parameter server's answers to it; exact
dense    how many times as many 32-bit gradients from every worker to every other one would take
work     seconds in which one worker computes, encodes and merges, in all, and a parameter server too; of this machine, as it is
total    the same, and what the bytes of the busiest node would take on a link of `--bandwidth`

The picture shows accuracy against bytes and against `total`, epoch by epoch; it needs matplotlib.
"""

import csv
import logging
import sys
import tempfile
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd
from digits_job import Outcome, Scheme, train

import dc_asgd
import fedavg
import gossip
import hello_world
import parameter_server
import power_sgd
import quantised
import stragglers
import ternary
import top_k

import parallel_sgd
from nn.optimizer import LocalUpdateOptimizer
from parallel_sgd.codec import DGC, EFSign, Int8, Plain, Ring

SCHEMES = [
    Scheme(Plain, "from all to all, dense"),
    parameter_server.SCHEME,
    Scheme(Ring, "two rounds in a ring, dense"),
    hello_world.SCHEME,
    Scheme(Int8, "8 bits, sharded"),
    quantised.SCHEME,
    ternary.SCHEME,
    Scheme(EFSign, "1 bit, error feedback", op_type=LocalUpdateOptimizer),
    top_k.SCHEME,
    Scheme(DGC, "1 % of the numbers, momentum inside", gd_params=(0.05,), parameters={"rho": 0.01, "warmup": 20}),
    power_sgd.SCHEME,
    fedavg.SCHEME,
    gossip.SCHEME,
    dc_asgd.SCHEME,
    stragglers.SCHEME,
]


@dataclass(frozen=True)
class Row:
    """One line of the table; a point per epoch in the picture."""

    scheme: Scheme
    outcome: Outcome
    accuracies: list[float]
    work: list[float]  # seconds until the end of each epoch

    def sent(self, *nodes: int) -> list[float]:
        """Megabytes on the wire that these nodes, or all, have sent until the end of each epoch."""
        by_epoch = [0] * len(self.accuracies)
        for packets in self.outcome.result.history.traffic:
            if not nodes or packets["node"] in nodes:
                by_epoch[int(packets["epoch"]) - 1] += int(packets["wire_sent"])
        return [sent / 1e6 for sent in accumulate(by_epoch)]

    def link(self, megabits: float) -> list[float]:
        """Seconds that the bytes of the busiest node take, until the end of each epoch."""
        busiest = max(self.outcome.sent, key=self.outcome.sent.__getitem__)
        return [sent * 8 / megabits for sent in self.sent(busiest)]


def column(path: Path, names: tuple[str, ...]) -> list[float]:
    """The sum of some columns of a table, by row."""
    with path.open(newline="") as file:
        return [sum(float(row[name]) for name in names) for row in csv.DictReader(file)]


def means(outcome: Outcome, kind: str, names: tuple[str, ...]) -> list[float]:
    """By epoch, the mean over the workers of some columns of their tables `kind`-*.csv."""
    files = [path for node, paths in outcome.result.files.items() if node >= 0 for path in paths]
    tables = [column(path, names) for path in files if path.name.startswith(kind)]
    return [sum(values) / len(values) for values in zip(*tables, strict=True)]


def run(scheme: Scheme, workers: int, epochs: int, folder: Path) -> Row:
    """Train with one scheme."""
    with parallel_sgd.in_process(workers, ps=scheme.codec.traits.needs_server) as nodes:
        outcome = train(scheme, nodes, epochs, folder)
    served = sum(a.times.encode + a.times.merge for node, a in outcome.result.accounts.items() if node < 0) / epochs
    spent = [seconds + served for seconds in means(outcome, "TI-", ("Compute", "Encode", "Send", "Merge"))]
    return Row(scheme, outcome, means(outcome, "EV-", ("accuracy",)), list(accumulate(spent)))


def line(row: Row, megabits: float) -> str:
    """What the table says of it."""
    outcome = row.outcome
    return (
        f"{row.scheme.name:14} {outcome.accuracy:8.4f} {outcome.bytes_per_step:12,.0f} "
        f"{outcome.saving:7.1f}x {row.work[-1]:7.2f} s "
        f"{row.work[-1] + row.link(megabits)[-1]:7.2f} s  {row.scheme.why}"
    )


def draw(rows: list[Row], path: Path, megabits: float) -> str:
    """Save the picture, and say where; or why there is none."""
    try:
        import matplotlib.figure  # noqa: PLC0415 - an optional extra
    except ImportError:
        return "No picture: matplotlib is not installed (pip install matplotlib)."
    figure: Any = matplotlib.figure.Figure(figsize=(13, 6), layout="constrained")
    by_bytes, by_time = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        times = [work + link for work, link in zip(row.work, row.link(megabits), strict=True)]
        style = {"color": f"C{place % 10}", "linestyle": ("-", "--")[place // 10 % 2]}
        by_bytes.plot([sent / row.outcome.workers for sent in row.sent()], row.accuracies, label=row.scheme.name, **style)
        by_time.plot(times, row.accuracies, **style)
    by_bytes.set(xscale="log", xlabel="megabytes sent per worker", ylabel="accuracy on images nobody has trained on")
    by_time.set(xscale="log", xlabel=f"seconds of work, and of a link of {megabits:g} Mbit/s")
    for axes in (by_bytes, by_time):
        axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(path)
    return f"The picture is {path}."


def main() -> int:
    """Train with all of them, print the table, draw the picture."""
    parser = psgd.OptionParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=psgd.positive, default=4, help="how many take turns in this process (default 4)")
    parser.add_argument("--epochs", type=psgd.positive, default=10, help="passes over the images (default 10)")
    parser.add_argument("--bandwidth", type=psgd.above_0, default=100.0, help="of the imagined link, in Mbit/s (default 100)")
    parser.add_argument(
        "--picture", type=psgd.new_file, default=Path("codecs.png"), help="the file to draw into (default codecs.png)"
    )
    names = [scheme.name for scheme in SCHEMES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CODEC", help=f"of {', '.join(names)}")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    print(f"{'codec':14} {'accuracy':>8} {'bytes':>12} {'dense':>8} {'work':>9} {'total':>9}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for scheme in SCHEMES:
            if scheme.name in options.only:
                rows.append(run(scheme, options.workers, options.epochs, Path(folder) / scheme.name))
                print(line(rows[-1], options.bandwidth), flush=True)
    print(draw(rows, options.picture, options.bandwidth))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
