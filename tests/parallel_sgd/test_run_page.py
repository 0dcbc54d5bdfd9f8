"""`report.html` and the timeline of a run, read as a browser would, without one; `make browser` looks at them in Chromium."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from psgd.cli import main

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.dataset.transforms.abstract import AbsTransformer
from parallel_sgd import JobFailed, ParallelSGD, in_process, local_workers, run_page
from parallel_sgd.codec import BlockWeight, GlobalSettings
from parallel_sgd.codec.plain import Plain
from parallel_sgd.record.run import JobResult
from parallel_sgd.run_page import RunRecords, terms
from parallel_sgd.run_page.blame import DATA as LOADING
from parallel_sgd.run_page.blame import NODE, PAUSE, SEND
from parallel_sgd.run_page.data import _placed, page_data
from parallel_sgd.run_page.report import render
from parallel_sgd.run_page.story import checkpoint_of, lines
from rpc.messages import Verdict
from tests.parallel_sgd.networks import mlp
from tests.sources import ROOT

CHARTS = {"causes", "phases", "waits", "curve-0", "curve-1", "batches", "links", "variables"}
PHASES = ("data", "compute", "encode", "send", "wait", "merge", "rule")
SECTIONS = ["result", "curves", "time", "each", "bytes", "records", "model", "environment"]
RANDOM = np.random.default_rng(3)
X, Y = RANDOM.normal(size=(64, 64)).astype(np.float32), RANDOM.integers(0, 10, 64)
DATA = ArrayDataset(X, Y, X[:8], Y[:8])


class Page(HTMLParser):
    """Attributes: `ids`, what has one and its tag; `tables`, the rows of each; `text`; `links`, addresses of anything."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: dict[str, str] = {}
        self.open: list[str] = []
        self.tables: list[int] = []
        self.text, self.scripts = "", 0
        self.links: list[str] = []
        self.data: dict[str, Any] = {}
        self.feed(path.read_text("utf-8"))
        assert not [tag for tag in self.open if tag not in ("meta", "img")], "a tag is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [str(given[name]) for name in ("src", "href", "action") if name in given]
        if given.get("id"):
            self.ids[str(given["id"])] = tag
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "table":
            assert given["aria-label"]
            self.tables.append(0)
        if tag == "tr":
            self.tables[-1] += 1
        if tag == "div" and given.get("class") == "chart":
            assert given["role"] == "img" and given["aria-label"]
        self.scripts += tag == "script"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if self.ids.get("data") and not self.data:
                self.data = json.loads(data)
        elif self.open and self.open[-1] != "style":
            self.text += data


def train(folder: Path, **options: Any) -> JobResult:
    settings: dict[str, Any] = {"epoch": 2, "block_size": 8, "directory": folder, "mission_title": "T", **options}
    job = ParallelSGD(mlp(units=4), DATA, settings.pop("transform", None))
    with in_process(2) as nodes:
        return job.parallel(nodes, **settings)


def test_a_page_says_which_workers_have_tables(tmp_path: Path) -> None:
    """Of many workers in one process the first have them; a row of one without accounts would say that it had sent nothing."""
    folder = train(tmp_path).folder
    assert folder is not None
    for kind in ("BA", "AC"):
        (folder / "Node-1-Retrieve" / f"{kind}-T-N(1).csv").unlink()
    records = RunRecords.read(folder)
    data = page_data(records)
    assert "Of 2 workers these have left tables of batches and links: 0." in render(records, data)
    assert (data["links"]["nodes"], data["links"]["senders"]) == ([0, 1], [0])
    assert (data["waits"]["nodes"], data["waits"]["waiters"]) == ([0, 1], [0])
    assert all(row == 0 for _, row, _ in data["waits"]["cells"])


def test_a_run_has_a_page_that_needs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every chart has data and a table of it; no address leads out; the timeline has every second of every batch."""
    result = train(tmp_path)
    assert result.report == tmp_path / "runs" / "T-1" / "report.html"
    page = Page(result.report)
    assert not capsys.readouterr().out
    assert [name for name, tag in page.ids.items() if tag == "section"] == SECTIONS
    assert page.ids.keys() >= CHARTS and len(page.tables) >= 10 and min(page.tables) > 1
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in page.links)
    text = result.report.read_text("utf-8")
    assert text.count('<details open class="numbers">') == len(CHARTS) - 1, "two curves share a table"
    assert "<noscript><p>This browser runs no scripts" in text and 'querySelectorAll(".numbers")' in text
    assert not re.search(r">[0-9.]+e-[0-9]+<", text), "seconds stand with a unit"
    assert "default-src 'none'" in result.report.read_text("utf-8") and page.scripts == 3
    data = page.data
    assert data["waits"]["cells"] and data["links"]["cells"] and data["variables"]["cells"] and data["causes"]
    assert (
        data["curves"]["names"] == ["Loss", "accuracy", "bytes"]
        and len(data["curves"]["epoch"]) == len(data["curves"]["step"]) + 2
        and "<h3>bytes sent</h3>" in text
    )
    assert len(data["batches"]["rows"]) == 2 * 2 * 4 and data["phases"]["workers"] == [0, 1]
    (summed,) = {sum(cell[2] for cell in data[name]["cells"]) for name in ("links", "variables")}
    assert {way[2] for way in data["links"]["ways"]} == {"process"} and summed == sum(way[3] for way in data["links"]["ways"])
    assert summed == sum(entry.wire for books in result.accounts.values() for entry in books if entry.direction == "sent")
    assert (
        "Every block of every batch went into the weights exactly once" in page.text and f"{result['Loss']:,.6g}" in page.text
    )
    events = json.loads(gzip.decompress((result.report.parent / "timeline.json.gz").read_bytes()))["traceEvents"]
    took = sum(event["dur"] for event in events if event["ph"] == "X") / 1e6
    assert took == pytest.approx(sum(sum(data["phases"]["seconds"][name]) for name in PHASES), rel=0.01)
    arrows = [[event["id"] for event in events if event["ph"] == kind] for kind in "sf"]
    assert arrows[0] == arrows[1] == list(range(1, 1 + len(arrows[0]))) and arrows[0]  # Perfetto takes numbers only
    waits = [event for event in events if event["name"] == "wait"]
    for end in (event for event in events if event["ph"] == "f"):
        assert [one for one in waits if one["pid"] == end["pid"] and one["ts"] <= end["ts"] < one["ts"] + one["dur"]]


def test_the_result_tells_the_best_epoch_the_time_and_what_differs(tmp_path: Path) -> None:
    result = train(tmp_path, epoch=3)
    assert result.report is not None
    text = Page(result.report).text
    assert re.search(r"Best: epoch \d, test accuracy [01]\.\d{4}\.", text)
    assert re.search(r"The workers spent their time computing \d+ %, exchanging \d+ %, waiting \d+ %\.", text)
    assert "2 workers take turns in one process: more of them are not faster." in text
    assert re.search(r"test Loss\s*[0-9.]+test accuracy\s*\dbest epoch", text), "as large figures, too"
    assert re.search(r"2 workers, which took turns, took \S+ m?s; one alone would have needed at most \S+ m?s\. Counted", text)
    differs = text.partition("Settings that differ from the defaults")[2].partition("All settings")[0]
    assert "block_size8" in differs and "epoch3" in differs and "seed" not in differs and "network_bandwidth" not in differs
    assert str(tmp_path) not in result.report.read_text("utf-8")


def test_a_restart_is_a_mark_in_the_curves_and_stands_below_the_result(tmp_path: Path) -> None:
    result = train(tmp_path)
    assert result.folder is not None and result.report is not None
    assert Page(result.report).data["restarts"] == []
    path = result.folder / "outcome.json"
    outcome = json.loads(path.read_text("utf-8"))
    cause = dict.fromkeys(("kind", "host", "phase", "detail", "reason"), "x") | dict.fromkeys(
        ("node", "rank", "exit_code", "signal", "pid", "attempt"), 0
    )
    incident = {
        "time": 1.0,
        "attempt": 0,
        "message": "x",
        "verdicts": [],
        "causes": [{**cause, "epoch": 2, "batch": 3, "seconds": 1}],
    }
    path.write_text(json.dumps({**outcome, "incidents": [incident]}))
    page = Page(run_page.write_report(result.folder))
    assert page.data["restarts"] == [[2, 3]]
    assert page.data["batches"]["restarts"] == [] and "restart" not in page.data["phases"]["seconds"], "none at that time"
    assert "done after 1 restart" in page.text and "A dotted red line" in page.text and "A red band" not in page.text
    assert [name for name, tag in page.ids.items() if tag == "section"][:4] == ["result", "curves", "story", "time"]


def test_the_time_of_a_restart_is_a_band_in_the_batches_and_no_evaluation(tmp_path: Path) -> None:
    result = train(tmp_path)
    assert result.folder is not None and result.report is not None
    before = Page(result.report).data["phases"]["seconds"]
    batches = run_page.RunRecords.read(result.folder).batches
    last = {node: [row for row in rows if row.epoch == 1][-1] for node, rows in batches.items()}
    first = {node: next(row for row in rows if row.epoch == 2) for node, rows in batches.items()}
    moment = (last[0].end + first[0].begin) / 2
    following = min(row.begin for rows in batches.values() for row in rows if row.begin >= moment)
    path = result.folder / "outcome.json"
    incident = {"time": moment, "attempt": 0, "message": "x", "verdicts": [], "causes": []}
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "incidents": [incident]}))
    page = Page(run_page.write_report(result.folder))
    ((left, right),) = page.data["batches"]["restarts"]
    zero = min(rows[0].begin for rows in batches.values())
    assert (left, right) == (round(1e6 * (moment - zero)), round(1e6 * (following - zero)))
    seconds = page.data["phases"]["seconds"]
    assert seconds["restart"][0] > 0
    for node in batches:
        within = last[node].end <= moment <= first[node].begin
        restart = first[node].begin - last[node].end if within else 0
        assert seconds["restart"][node] == pytest.approx(restart, abs=2e-6)
        assert seconds["restart"][node] + seconds["between"][node] == pytest.approx(before["between"][node], abs=5e-6)
    assert "A red band is a restart" in page.text and "Restarts are not counted." in page.text


def test_words_have_their_exact_terms_as_tooltips(tmp_path: Path) -> None:
    """In the heads of tables, and for the script; a cause is told from others by the begin of its label."""
    report = train(tmp_path).report
    assert report is not None
    text, page = report.read_text("utf-8"), Page(report)
    for phase in (*PHASES, "between"):
        short, exact = terms.PHASES[phase]
        assert f'<abbr title="{exact}">{short}</abbr>' in text.replace("&#x27;", "'"), phase
        assert exact.startswith(f"{phase}: ")
    (told,) = re.findall(r"const WORDS = (\{.*?\});", text)
    assert {phase: tuple(those) for phase, those in json.loads(told).items()} == dict(terms.PHASES)
    assert 'title="Bottlenecks: ' in text and 'title="ledger: ' in text
    causes = page.data["causes"]
    places = [cause["place"] for cause in causes]
    assert len(set(places)) == len(places)
    # which causes a run has depends on the machine
    kinds = {NODE: "compute", LOADING: "load", SEND: "send", PAUSE: "evaluate"}
    assert {kind: _placed(kind, "worker 1") for kind in kinds} == {kind: f"worker 1: {word}" for kind, word in kinds.items()}
    own = [(kinds[cause["kind"]], cause["place"]) for cause in causes if cause["kind"] in kinds]
    assert all(re.fullmatch(rf"worker \d: {word}", place) for word, place in own), own


@pytest.mark.processes
def test_a_page_of_a_failed_run_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    with local_workers(2) as nodes, pytest.raises(JobFailed):
        ParallelSGD(mlp(units=4), DATA).parallel(
            nodes, epoch=2, block_size=8, directory=tmp_path, fault="kill 1@e1.b2", mission_title="F"
        )
    text = (tmp_path / "runs" / "F-1" / "report.html").read_text("utf-8")
    assert "parallel_sgd/engine/" in text, "its traceback"
    assert str(ROOT) not in text and str(tmp_path) not in text


@pytest.mark.processes
def test_links_are_not_blamed_for_turns_on_the_cores(tmp_path: Path) -> None:
    """More workers than cores are told first, in the result, and take the place of links among the causes."""
    job = ParallelSGD(mlp(units=4), DATA)
    with local_workers(2) as nodes:
        result = job.parallel(nodes, epoch=2, block_size=8, directory=tmp_path, fault="+20ms 0-1")
    assert result.folder is not None and result.report is not None
    path = result.folder / "outcome.json"
    outcome = json.loads(path.read_text("utf-8"))

    def page_with(cores: int) -> Page:
        outcome["environment"] |= {"cores": str(cores), "workers on these cores": "2"}
        path.write_text(json.dumps(outcome))
        assert result.folder is not None
        return Page(run_page.write_report(result.folder))

    # A worker that begins late waits for its turn, too.
    links = [cause for cause in page_with(2).data["causes"] if cause["kind"] in ("link", "start")]
    assert any(cause["kind"] == "link" for cause in links)
    page = page_with(1)
    (turns,) = [cause for cause in page.data["causes"] if cause["kind"] in ("cores", "link")]
    assert turns["kind"] == "cores" and turns["seconds"] == pytest.approx(sum(cause["seconds"] for cause in links))
    told = page.text.index("2 workers share 1 core of this machine and take turns")
    assert told < page.text.index("Best: epoch") and "one alone would have needed at most" in page.text


class Spoils(AbsTransformer):
    """Puts a folder where the page is to be."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, *samples: Any, **_: Any) -> Any:
        self.place.mkdir()
        return samples


def test_a_run_that_fails_has_a_page_that_says_why(tmp_path: Path) -> None:
    """As text, whatever is in it."""

    class Refuses(Plain):
        batches = 0

        def update_blocks(self, block_weight: BlockWeight) -> Any:
            type(self).batches += 1
            if self.batches > 20:
                raise RuntimeError("</script><b>it is full</b> & more")
            return super().update_blocks(block_weight)

    with pytest.raises(RuntimeError, match="it is full"):
        train(tmp_path, codec=Refuses)
    page = Page(tmp_path / "runs" / "T-1" / "report.html")
    what = re.escape("RuntimeError: </script><b>it is full</b> & more")
    told = rf"{what}.*Refuses\.update_blocks raised {what} \(.*test_run_page\.py:\d+\).*Node\(0\) of the job raised it\."
    assert re.search(told, page.text, re.DOTALL) and "failed" in page.text and page.scripts == 3
    assert page.data["batches"]["rows"] and "no result" in page.text
    assert [name for name, tag in page.ids.items() if tag == "section"] == ["story", *SECTIONS]


LOST = "network.errors.PeerLost: Node(0) at 127.0.0.1:7 is lost: Broken pipe."
VERDICTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (
        {"kind": "crashed", "signal": 9},
        ("Worker 1 died, killed by signal 9 (SIGKILL), in epoch 2, batch 3 of attempt 1 (process 77 on pc).", "want of memory"),
    ),
    (
        {"kind": "crashed", "detail": "ValueError: no", "trace": "ValueError: no", "epoch": 0},
        ("Worker 1 raised an error, before the first batch of attempt 1 (process 77 on pc): ValueError: no.", "its traceback"),
    ),
    (
        {"kind": "crashed", "detail": LOST, "trace": LOST},
        ("Worker 1 lost its connection with worker 0 (Broken pipe), in", "look at the network", "Workers 1 and 2 ended."),
    ),
    ({"kind": "exited", "exit_code": 3}, ("Worker 1 ended by itself with exit code 3, in", "saw the process end")),
    ({"kind": "stuck", "detail": "The limit was 2 s."}, ("Worker 1 hung, in", "no progress for 2.1 s. The limit was 2 s.")),
    ({"kind": "silent"}, ("Worker 1 fell silent with its machine pc, in", "no heartbeat either.")),
    ({"kind": "cut", "detail": "3 of 4 came."}, ("Worker 1 was cut off from others, in", "For 2.1 s no batch went on. 3 of 4")),
    ({"kind": "deadlock"}, ("Worker 1 waited for others, who waited too, in", "For 2.1 s no batch went on.")),
]


@pytest.mark.parametrize(
    ("every", "where", "kept", "said"),
    [
        ("epoch", "in process", True, "The newest checkpoint is that of epoch 2"),
        ("epoch", "in process", False, None),
        ("epoch", "agents", False, "Its agents have checkpoints"),
        (2, "agents", False, "Its agents have checkpoints"),
        # which end with their program, and their checkpoints with them
        ("epoch", "launched agents", False, None),
        # more batches than the worker that is behind has trained, seconds that nobody knows, and none at all
        (10_000, "agents", False, None),
        ("10s", "agents", False, None),
        (None, "agents", False, None),
    ],
)
def test_from_where_a_run_can_go_on(tmp_path: Path, every: int | str | None, where: str, kept: bool, said: str | None) -> None:
    """A checkpoint is told where one is here, or where each worker has come so far that its agent must have one."""
    folder = train(tmp_path, checkpoint_every=every, verbose=0).folder
    assert folder is not None
    begun = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**begun, "about": {**begun["about"], "nodes": where}}))
    for path in [] if kept else folder.glob("Node-*/checkpoints"):
        shutil.rmtree(path)
    assert checkpoint_of(RunRecords.read(folder)) == said


@pytest.mark.share(3)
@pytest.mark.parametrize(("given", "told"), VERDICTS)
def test_a_verdict_is_told_in_plain_words(tmp_path: Path, given: dict[str, Any], told: tuple[str, ...]) -> None:
    """Who failed, how that was noticed, what was done, and what is lost."""
    about: dict[str, Any] = {"job": "20260101-000000-00000000", "node": 1, "attempt": 0, "host": "pc", "pid": 77}
    where: dict[str, Any] = {"phase": "step", "epoch": 2, "batch": 3, "seconds": 2.1}
    verdict = Verdict(**{**about, **where, **given})

    class Fails(Plain):
        def update_blocks(self, block_weight: BlockWeight) -> Any:
            if GlobalSettings.current().step == (1, 2):
                raise JobFailed({1: ("failed", "x"), 2: ("stopped", "y")}, {}, verdict.job, [verdict], "Given up: enough.")
            return super().update_blocks(block_weight)

    with pytest.raises(JobFailed):
        train(tmp_path, codec=Fails, checkpoint_every=1)
    (page,) = (Page(path) for path in tmp_path.glob("runs/T-1/report.html"))
    lost = ("6 of 8 batches had been trained: 1 of 2 epochs were complete. The newest checkpoint is that of epoch 2, batch 2:",)
    for text in (*told, "Given up: enough.", *lost):
        assert text in page.text, text


def test_the_command_takes_the_folder_of_a_run_or_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with runs is its newest one, whatever links beside it lead to."""
    train(tmp_path)
    run = train(tmp_path).report
    assert run is not None
    (tmp_path / "none").mkdir()
    (run.parent / "outcome.json").unlink()
    for given in (tmp_path, tmp_path / "runs", run.parent, tmp_path / "Node-0-Retrieve"):
        assert (main(["report", str(given)]), capsys.readouterr().out) == (0, f"{run}\n")
    page = Page(run)
    assert "not ended" in page.text and "it still goes on, or who started it ended before" in page.text
    (run.parent / "outcome.json").write_text('{"state": "do')
    assert main(["report", str(run.parent)]) == 0
    assert "outcome.json is cut off or damaged: the page is made without it" in capsys.readouterr().err
    run.unlink()
    run.mkdir()
    assert main(["report", str(run.parent)]) == 1
    assert f"the report of {run.parent} cannot be written: {run}: Is a directory" in capsys.readouterr().err
    (run.parent / "outcome.json").unlink()
    (run.parent / "outcome.json").mkdir()
    wrong = {
        "none": "it is empty",
        "nowhere": "there is no such folder",
        "runs/T-2": "outcome.json cannot be read: it is no regular file of its own",
    }
    for name, said in wrong.items():
        assert main(["report", str(tmp_path / name)]) == 2
        assert (
            "'run' must be the folder of a run, as runs/latest, or its name in runs/, got" in (told := capsys.readouterr().err)
            and said in told
        )


@pytest.mark.parametrize(
    ("fault", "attempt", "hint"),
    [
        ("kill 1@e2.b3", 0, "The job had asked for it: kill 1@e2.b3."),
        ("+1s 0>1; kill 1@e2.b3@a*; kill 2@e1.b1", 0, "asked for it: kill 1@e2.b3@a*."),
        ("kill 1@e2@a2; kill 2@e1.b1", 1, "asked for it: kill 1@e2@a2."),
        ("kill 1@e2.b3@a2", 0, "want of memory"),
        ("kill 1@e2.b3", 1, "want of memory"),
        ("kill 11@e2.b3; kill 2@e2.b3", 0, "want of memory"),
        ("", 0, "want of memory"),
    ],
)
def test_a_kill_that_was_asked_for_is_no_want_of_memory(tmp_path: Path, fault: str, attempt: int, hint: str) -> None:
    cause: dict[str, Any] = {"kind": "crashed", "node": 1, "rank": 0, "signal": 9, "reason": "killed", "detail": ""}
    where: dict[str, Any] = {"attempt": attempt, "epoch": 2, "batch": 3, "host": "pc", "pid": 77}
    outcome = {"state": "failed", "message": "x", "causes": [{**cause, **where}], "fault": fault}
    (noticed,) = (line for line in lines(RunRecords(tmp_path, None, outcome)).splitlines() if line.startswith("How it was"))
    assert hint in noticed


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = train(tmp_path, transform=Spoils(tmp_path / "runs" / "T-1" / "report.html"))
    assert result["Loss"] > 0 and result.report is None
    assert [record for record in caplog.records if "report of the run could not be written" in record.getMessage()]


@pytest.mark.parametrize("spoil", [lambda text: text[: len(text) // 2], lambda text: "\x00\n1,2\n", lambda text: ""])
def test_tables_that_are_cut_off_or_something_else_make_a_page_nevertheless(
    tmp_path: Path, spoil: Callable[[str], str]
) -> None:
    result = train(tmp_path)
    folder = tmp_path / "runs" / "T-1"
    for path in [*folder.rglob("*.csv"), folder / "outcome.json", folder / "job.json"]:
        path.write_text(spoil(path.read_text("utf-8")), "utf-8")
    assert run_page.write_report(folder) == result.report
    assert run_page.write_report(str(folder)) == result.report
    assert run_page.RunRecords.read(f"{folder}/").batches == run_page.RunRecords.read(folder).batches
    with pytest.raises(NotADirectoryError, match="No folder of a run: 'nowhere'"):
        run_page.write_report("nowhere")
    assert [name for name, tag in Page(folder / "report.html").ids.items() if tag == "section"][:3] == [
        "story",
        "result",
        "curves",
    ]


@pytest.mark.share(2)
@pytest.mark.parametrize(("workers", "batches"), [(8, 1000), (64, 250)])
def test_the_page_of_a_long_run_stays_small(tmp_path: Path, workers: int, batches: int) -> None:
    head = "Time,Epochs,Batches,Data,Compute,Encode,Send,Wait,Merge,Rule,Put,Sent,Total,Peer\n"
    phases = ",".join(f"{seconds:.6f}" for seconds in (0.00112, 0.01231, 0.00123, 0.00041, 0.01234, 0.00211, 0.00143))
    for node in range(workers):
        folder = tmp_path / f"Node-{node}-Retrieve"
        folder.mkdir()
        rest = f"{phases},0.015071,0.015064,0.030950,{(node + 1) % workers}"
        rows = [f"{1.8e9 + 0.031 * place:.6f},{1 + place // 100},{1 + place % 100},{rest}" for place in range(batches)]
        (folder / f"BA-T-N({node}).csv").write_text(head + "\n".join(rows) + "\n")
    path = run_page.write_report(tmp_path)
    rows = Page(path).data["batches"]["rows"]
    assert path.stat().st_size < 5_000_000 and sum(row[11] for row in rows) == workers * batches


def test_what_is_vendored_is_what_its_readme_says() -> None:
    folder = Path(run_page.__file__).parent / "vendor"
    (name, digest), *more = re.findall(
        r"^\| `(.*?)` \|.*`([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.MULTILINE
    )
    assert not more and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert (
        "</script" not in (folder / name).read_text("utf-8")
        and (folder / "LICENSE").is_file()
        and (folder / "NOTICE").is_file()
    )


def test_paper_is_white(tmp_path: Path) -> None:
    """Who reads on a dark screen prints on white paper: dark colours are for screens, and dark charts are inverted."""
    report = train(tmp_path).report
    assert report is not None
    page = report.read_text("utf-8")
    media = re.findall(r"@media ([^{]*)\{", page)
    assert media and all(each.startswith("screen and") for each in media if "dark" in each), media
    assert re.search(r"@media print \{.*\.dark canvas \{ filter: invert", page, re.DOTALL)


def test_paper_is_not_told_to_scroll(tmp_path: Path) -> None:
    """What a hand does on a screen stands apart, and a printer leaves it out."""
    report = train(tmp_path).report
    assert report is not None
    page = report.read_text("utf-8")
    assert re.findall(r"<[^>]*>[^<]*[Ss]croll, [^<]*", page) == [
        '<span class="drawn used">Scroll, pinch or drag the bar below to zoom.'
    ]
    hidden = re.search(r"@media print \{.*?([^{};]*) \{ display: none !important; \}", page, re.DOTALL)
    assert hidden is not None and ".used" in hidden[1].split(", ")


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, "contrast ratio"), which for text is to be at least 4.5."""

    def luminance(colour: str) -> float:
        levels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in levels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_of_pages_stands_out_from_its_ground() -> None:
    style = Path(run_page.__file__).with_name("page.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in re.findall(r":root \{([^}]*--ink[^}]*)\}", style)
    )
    pairs = [(scheme[text], scheme[ground]) for scheme in (light, dark)
             for text in ("ink", "soft", "blue", "good", "bad", "warn") for ground in ("back", "card")]  # fmt: skip
    pairs += [("#ffffff", ground) for ground in re.findall(r"\.state\.\w+ \{ background: (#\w{6});", style)]
    assert len(pairs) == 30
    assert not [(*pair, round(contrast(*pair), 2)) for pair in pairs if contrast(*pair) < 4.5]
