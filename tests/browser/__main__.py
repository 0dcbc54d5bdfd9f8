"""`python -m tests.browser [FOLDER]`: real jobs, whose pages Chromium opens, as reports and live; pictures at 1280 and 400
pixels, and what a printer would get of reports, go to FOLDER.

A page fails when its console has a message, when it asks the network for anything, when it is wider than the window, when a
text, also on paper, has a contrast to its ground below 4.5 (large ones 3), or when a chart has no data, also with scripts
switched off, where tables stand in place of charts. So do pages of the documentation, light and dark. The pictures are to be
looked at. Needs Debian's chromium, node, playwright-core in $PLAYWRIGHT, and the site that `make docs` builds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nn
from network import NodeAssignment
from nn.dataset import ArrayDataset
from parallel_sgd import JobFailed, ParallelSGD, in_process, local_workers
from rpc.support.logs import SUBMIT_LOGGER
from tests.browser.pictures import SHOOT
from tests.sources import ROOT

SITE = ROOT / "site"
_FEWEST_TABLES = 8  # of a page without scripts
GUIDES = (
    "index",
    "docs/gallery",
    "docs/errors",
    "docs/reference/parallel_sgd.codec",
    "examples/notebooks/5-a-worker-dies.ipynb",
)
RANDOM = np.random.default_rng(3)
X, Y = RANDOM.normal(size=(64 * 8 * 6, 20)).astype(np.float32), RANDOM.integers(0, 10, 64 * 8 * 6)


def job() -> ParallelSGD:
    model = nn.model.SequentialModel([-1, 20], [nn.layer.Dense(16, activation=nn.activation.ReLU()), nn.layer.Dense(10)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    return ParallelSGD(model, ArrayDataset(X, Y, X[:50], Y[:50]))


def slow(folder: Path) -> Path | None:
    hangs = "; ".join(f"hang 2@e1.b{batch} for 60ms" for batch in range(2, 12))
    with local_workers(3) as nodes:
        return job().parallel(nodes, epoch=2, block_size=64, mission_title="Slow", fault=hangs, directory=folder).report


def killed(folder: Path) -> Path | None:
    options: dict[str, Any] = {"fault": "kill 1@e2.b3", "on_failure": "wait", "directory": folder}
    with local_workers(3) as nodes:
        return job().parallel(nodes, epoch=3, block_size=64, mission_title="Killed", **options).report


def restarted(folder: Path) -> Path | None:
    """Marks the restart in its curves and batches; its codec has long names of variables."""
    options: dict[str, Any] = {"fault": "kill 1@e2.b3", "on_failure": "restart", "codec": "ring", "directory": folder}
    with local_workers(2) as nodes:
        return job().parallel(nodes, epoch=3, block_size=64, mission_title="Restarted", **options).report


def sixteen(folder: Path) -> Path | None:
    with in_process(16) as nodes:
        return job().parallel(nodes, epoch=3, block_size=16, mission_title="16 workers", directory=folder).report


def compared(folder: Path) -> Path | None:
    """The page of `psgd compare`, of three runs of which two have equal curves."""
    with in_process(2) as nodes:
        for epoch, block_size in ((4, 64), (3, 64), (4, 32)):
            job().parallel(nodes, epoch=epoch, block_size=block_size, mission_title="A rather long title", directory=folder)
    page = folder / "compare.html"
    runs = [f"A rather long title-{number}" for number in (1, 2, 3)]
    subprocess.run([sys.executable, "-m", "psgd", "compare", "--directory", str(folder), "-o", str(page), *runs], check=True)
    return page


def failed(folder: Path) -> Path | None:
    """Its page begins with the story of its end."""
    with local_workers(3) as nodes, contextlib.suppress(JobFailed):
        job().parallel(nodes, epoch=3, block_size=64, mission_title="Failed", fault="kill 1@e2.b3", directory=folder)
    return folder / "runs" / "Failed-1" / "report.html"


def many(folder: Path) -> Path | None:
    with in_process(64) as nodes:
        return job().parallel(nodes, epoch=3, block_size=8, mission_title="64 workers", directory=folder).report


@contextlib.contextmanager
def served(*arguments: object, key_file: object = "") -> Iterator[str]:
    """The address at which `psgd page` shows what it is asked for."""
    command = [sys.executable, "-m", "psgd", "page", *map(str, arguments)]
    environ = os.environ | ({"PSGD_KEY_FILE": str(key_file)} if key_file else {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        try:
            yield next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        finally:
            server.terminate()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[NodeAssignment, Path]]:
    """Three workers as those of a cluster, and the file that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    with local_workers(3) as workers:
        nodes = NodeAssignment(workers.key_file)
        for node, address in workers.items():
            nodes.add(node, address)
        file = folder / "worker.json"
        file.write_text(json.dumps({"Worker": [str(address) for _, address in workers.items()]}))
        yield nodes, file


@contextlib.contextmanager
def live_running(folder: Path) -> Iterator[str]:
    """The address of the page of a job that waits for one of its workers while it is looked at."""
    options: dict[str, Any] = {"fault": "hang 1@e2.b3 for 15s", "stall_timeout": 100, "directory": folder}
    with cluster(folder) as (nodes, file):
        run = threading.Thread(target=lambda: job().parallel(nodes, epoch=3, block_size=64, mission_title="Live", **options))
        run.start()
        with served("--job", "--workers", file, key_file=nodes.key_file) as address:
            yield address
        run.join()


@contextlib.contextmanager
def live_begin(folder: Path) -> Iterator[str]:
    """Of a job that has not trained a batch: title, settings and model are there."""
    addresses: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            for address in re.findall(r"http://\S+", record.getMessage()):
                addresses.put(address)

    heard, log = Hears(logging.INFO), logging.getLogger(SUBMIT_LOGGER)
    log.addHandler(heard)
    options: dict[str, Any] = {"fault": "hang 1@e1.b1 for 20s", "stall_timeout": 100, "directory": folder, "page": True}
    try:
        with local_workers(2) as nodes:
            run = threading.Thread(
                target=lambda: job().parallel(nodes, epoch=3, block_size=64, mission_title="Begin", **options)
            )
            run.start()
            yield addresses.get(timeout=60)
            run.join()
    finally:
        log.removeHandler(heard)


@contextlib.contextmanager
def live_failed(folder: Path) -> Iterator[str]:
    """Of one that has failed, as its agents tell it."""
    options: dict[str, Any] = {"fault": "swallow 0-1@e2.b3", "stall_timeout": 3, "directory": folder}
    with cluster(folder) as (nodes, file):
        with contextlib.suppress(JobFailed):
            job().parallel(nodes, epoch=3, block_size=64, mission_title="Live", **options)
        with served("--job", "--workers", file, key_file=nodes.key_file) as address:
            yield address


@contextlib.contextmanager
def live_many(folder: Path) -> Iterator[str]:
    """Of 64 workers, by the folder of their run."""
    many(folder)
    with served(folder / "runs" / "latest") as address:
        yield address


def problems(page: Path | str, pictures: Path, name: str, *more: str) -> list[str]:
    """What is wrong with the page of a run as a browser shows it; one of the site consists of files, and has no charts, a live
    one asks its own server for more.
    """
    site = isinstance(page, Path) and page.is_relative_to(SITE)
    command = ["node", str(SHOOT), str(page), str(pictures), name, *more]
    shot = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if shot.returncode:
        return [f"it could not be opened: {shot.stderr.strip()}"]
    told = json.loads(shot.stdout)
    own = ("file:", "data:", "blob:") if site else () if isinstance(page, Path) else (page.partition("#")[0],)
    asked = [address for address in told["requests"][1:] if not address.startswith(own)]
    found = [f"console: {text}" for text in told["errors"]] + [f"asks for {address}" for address in asked]
    found += [f"{seen} pixels wide in a window of {width}" for width, seen in told["widths"].items() if seen > int(width)]
    found += [f"{width} pixels: {text}" for width, texts in told["texts"].items() for text in texts[:8]]
    found += [f"the chart {chart} has no data" for chart, points in told["charts"].items() if not points]
    found += (
        []
        if told["charts"]
        or site
        or "begin" in more
        or told.get("tables", 0) >= (2 if name.startswith("compared") else _FEWEST_TABLES)
        else ["it shows no chart, or too few tables"]
    )
    return found


def main(folder: str = "") -> int:
    pictures = Path(folder or tempfile.mkdtemp(prefix="pages-"))
    pictures.mkdir(parents=True, exist_ok=True)
    wrong: dict[str, bool] = {}

    def note(name: str, found: list[str]) -> None:
        wrong[name] = bool(found)
        print(f"{name}: {'; '.join(found) or 'fine'}", flush=True)

    for make, *more in ((slow, "dark"), (killed,), (restarted,), (failed,), (sixteen, "dark"), (many,), (compared,)):
        name = make.__name__
        page = make(pictures / f"run-{name}")
        found = ["it was not written"] if page is None else problems(page, pictures, name, *more)
        if page is not None:
            found += [f"without scripts: {each}" for each in problems(page, pictures, f"{name}-plain", "plain", *more)]
        note(name, found)
    for watch, *more in ((live_begin, "begin"), (live_running, "dark"), (live_failed,), (live_many,)):
        name = watch.__name__
        with watch(pictures / f"run-{name}") as address:
            found = problems(address, pictures, name, *more)
        note(name, found)
    for guide, scheme in itertools.product(GUIDES, ("light", "dark")):
        name = f"{guide.replace('/', '.')}-{scheme}"
        note(name, problems(SITE / f"{guide}.html", pictures, name, *(["dark"] if scheme == "dark" else [])))
    print(
        f"{sum(wrong.values())} of {len(wrong)} pages are not as they should be. The pictures are in {pictures}: look at them."
    )
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
