"""A run seen while it goes on: by whom, what, and that nobody who looks can hold it up."""

from __future__ import annotations

import http.client
import json
import logging
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psgd.cli import main

import numpy as np
import pytest

from network.key_files import create_key_file
from nn.dataset import ArrayDataset
from nn.dataset.transforms.abstract import AbsTransformer
from parallel_sgd import ParallelSGD, in_process, simulated
from parallel_sgd.engine.accounts import BATCH_COLUMNS
from parallel_sgd.engine.progress import COLUMNS
from parallel_sgd.nodes import machine_of
from parallel_sgd.record.door import Door
from parallel_sgd.record.tables import read_columns
from parallel_sgd.run_page import RunRecords
from parallel_sgd.run_page import live as serving
from parallel_sgd.run_page.live import LivePage
from parallel_sgd.run_page.sources import RunSource, SampledTables, Seen
from rpc.submit import PROGRESS
from rpc.support.logs import SUBMIT_LOGGER
from tests.parallel_sgd.networks import mlp

X, Y = np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32), np.arange(64) % 10
HEAD = "Time,Epochs,Batches,in,Total,Loss\n"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[LivePage]:
    """Of a run whose worker writes on."""
    folder = tmp_path / "agent-0" / "job.0" / "out"
    folder.mkdir(parents=True)
    (folder / "TR-T-N(0).csv").write_text(HEAD + "".join(f"{n / 10},1,{n},20,{n},0.5\n" for n in range(1, 11)))
    with LivePage(RunSource(lambda: tmp_path, epochs=2)) as live:
        yield live


def get(address: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    url = urlsplit(address)
    with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())


def states(address: str, how: str = "") -> Iterator[dict[str, Any]]:
    """What a viewer is told, until it is told that there is no more."""
    url = urlsplit(address)
    with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)) as connection:
        connection.request("GET", f"/events?{url.fragment}{how}")
        answer = connection.getresponse()
        while line := answer.readline().decode():
            if line.startswith("event: end"):
                return
            if line.startswith("data: "):
                yield json.loads(line[6:])


def test_the_page_is_for_who_has_the_token_and_only_to_be_read(page: LivePage) -> None:
    status, text, headers = get(page.address)
    assert status == 200 and "EventSource" in text and headers["referrer-policy"] == "no-referrer"
    assert "connect-src 'self'" in text and headers["content-security-policy"] == "frame-ancestors 'none'"
    assert ">loading</span>" in text and "begun" not in text, "before its first state nothing is known of a run"
    url = urlsplit(page.address)
    token = url.fragment.removeprefix("token=")
    assert len(token) == 24 and url.path == "/" and not url.query and token not in text
    wrong = ("", "?token=", "?token=x", f"?token={token}x", f"?token=x&token={token}", f"?Token={token}", "?token=%C3%BC")
    assert [get(page.address, f"/events{query}")[0] for query in wrong] == [403] * len(wrong)
    assert get(page.address, Host="evil.example")[0] == 400
    assert [get(page.address, method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3
    assert page.address.startswith("http://127.0.0.1:")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run the script")
def test_the_token_leaves_the_address_and_a_reload_still_has_it(page: LivePage) -> None:
    """The script's own function, with what a browser has: an address, a history, and a memory of the tab, or none."""
    source = (Path(serving.__file__).with_name("live.js")).read_text("utf-8")
    function = source[source.index("function tokenOf()") : source.index("function lost()")]
    fragment = urlsplit(page.address).fragment
    told = []
    for keeps in ("true", "false"):
        code = f"""
            const kept = new Map(), location = {{hash: "#{fragment}", pathname: "/"}};
            const refuse = () => {{ throw new Error("SecurityError"); }};
            const memory = {{getItem: key => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value)}};
            const sessionStorage = {keeps} ? memory : {{getItem: refuse, setItem: refuse}};
            const history = {{replaceState: (state, title, path) => {{ location.hash = ""; location.pathname = path; }}}};
            {function}
            const first = tokenOf(), address = location.pathname + location.hash, again = tokenOf();
            const other = () => {{ location.hash = ""; kept.clear(); return tokenOf(); }};
            console.log(JSON.stringify([first, again, address, other() ?? null]));
        """
        ran = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True, timeout=60)
        told.append(json.loads(ran.stdout))
    token = fragment.removeprefix("token=")
    assert told == [[token, token, "/", None], [token, token, f"/#{fragment}", None]]


def test_silent_strangers_shut_nobody_out(page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 connections that send half a request and no more: few are held, the oldest goes, and viewers come and stay."""
    monkeypatch.setattr(serving, "STRANGER_SECONDS", 1e9)
    url = urlsplit(page.address)
    there = states(page.address)
    assert next(there)["state"] == "running"
    with ExitStack() as silent:
        held = []
        for _ in range(600):
            one = silent.enter_context(socket.create_connection((url.hostname, url.port), 60))
            one.sendall(b"GET / HT")
            held.append(one)
        assert next(states(page.address))["state"] == next(there)["state"] == "running"
        assert get(page.address)[0] == 200
        assert sum(not is_hung_up_on(one) for one in held) <= serving.MOST_STRANGERS < 100


def is_hung_up_on(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("request_line", ["", "GET / HT", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2])
def test_a_connection_without_the_token_has_its_time(
    page: LivePage, monkeypatch: pytest.MonkeyPatch, request_line: str
) -> None:
    """Whatever is said over it; one with the token stays."""
    monkeypatch.setattr(serving, "STRANGER_SECONDS", 0.3)
    url = urlsplit(page.address)
    there = states(page.address)
    assert next(there)["state"] == "running"
    with socket.create_connection((url.hostname, url.port), 60) as stranger:
        began = time.monotonic()
        stranger.sendall(request_line.encode())
        with suppress(ConnectionError):
            while stranger.recv(1 << 20):
                pass
        assert 0.2 < time.monotonic() - began < 4, "sooner than the server lets go of one that has had its answer"
    assert next(there)["state"] == "running"


def test_viewers_get_what_the_workers_have_written_and_slow_ones_stop_nobody(page: LivePage) -> None:
    url = urlsplit(page.address)
    with ExitStack() as slow:
        for _ in range(300):
            one = slow.enter_context(socket.create_connection((url.hostname, url.port)))
            one.sendall(f"GET /events?{url.fragment} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())  # and reads nothing
        told_twice = states(page.address)
        first = next(told_twice)
        assert next(told_twice)["state"] == "running"  # another one comes by itself
        assert first["state"] == "running" and first["done"] == 0.25 and first["left"] > 0
        assert [line["label"] for line in first["page"]["curves"]["step"]] == ["training"]
    told: list[dict[str, Any]] = []

    def come() -> None:
        with suppress(OSError, http.client.HTTPException):  # the page closes, and may turn a viewer away
            told.extend(states(page.address))

    viewer = threading.Thread(target=come)
    viewer.start()
    page.__exit__()
    viewer.join(60)
    assert not viewer.is_alive() and (not told or told[-1]["done"] == 0.25)


def test_the_last_state_tells_how_it_ended(page: LivePage) -> None:
    told: list[dict[str, Any]] = []
    begun = threading.Event()

    def look() -> None:
        for state in states(page.address):
            told.append(state)
            begun.set()

    viewer = threading.Thread(target=look)
    viewer.start()
    assert begun.wait(60)
    page.end = {"state": "failed", "message": "worker 1 was killed"}
    page.__exit__()
    viewer.join(60)
    assert (told[-1]["state"], told[-1]["message"]) == ("failed", "worker 1 was killed")


def test_tabs_behind_others_cost_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told where the job is and how it ended; as soon as somebody looks there is a state after the other."""
    monkeypatch.setattr(serving, "SECONDS", 0.001)
    monkeypatch.setattr(serving, "_REST", 0)
    monkeypatch.setattr(serving, "_MOST_SECONDS", 3600.0)
    looks = []

    class Counting(RunSource):
        def look(self) -> Seen:
            looks.append(threading.get_ident())
            return super().look()

    with LivePage(Counting(lambda: tmp_path)) as live:
        behind = states(live.address, "&hidden=1")
        assert next(behind)["state"] == "running"
        for _ in range(20):
            assert get(live.address)[0] == 200
        assert len(looks) == 1
        ahead = states(live.address)
        for _ in range(4):
            next(ahead)
        assert len(looks) > 1
        live.end = {"state": "done"}
    assert [*behind][-1]["state"] == [*ahead][-1]["state"] == "done"


def test_what_went_wrong_stays_in_the_log_of_a_page(page: LivePage) -> None:
    """How far the workers are is told twice a second, in a line of its own each time."""
    log = logging.getLogger(SUBMIT_LOGGER)
    log.error("Node(0) failed")
    for percent in range(100):
        log.info(PROGRESS, f"Worker(0):{percent:3d}%")
    told = next(states(page.address))
    assert [line.partition(" ")[2] for line in told["log"]] == ["ERROR Node(0) failed"]
    assert told["page"]["recent"] == 0


@pytest.mark.parametrize("just_ended", [False, True])
def test_of_a_job_that_ended_at_some_time_nobody_knows_how_long_it_took(tmp_path: Path, just_ended: bool) -> None:
    told = serving._told(Seen(RunRecords(tmp_path, None, {"state": "done"}), 1.0, began=1e9), 0.0, just_ended)
    assert (told["passed"] is not None) == just_ended


def test_one_viewer_too_many_is_hung_up_on(page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that viewers take no files that the job needs; those who are there go on."""
    monkeypatch.setattr(serving, "MOST_VIEWERS", 20)
    url = urlsplit(page.address)
    request = f"GET /events?{url.fragment} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with ExitStack() as held:
        seen = []
        for _ in range(30):
            viewer = held.enter_context(socket.create_connection((url.hostname, url.port), 60))
            try:
                viewer.sendall(request)
                seen.append(viewer.recv(9))
            except (ConnectionResetError, BrokenPipeError):
                seen.append(b"")
        assert seen == [b"HTTP/1.1 "] * 20 + [b""] * 10


def test_a_table_that_grows_is_read_as_a_whole_one_is(tmp_path: Path) -> None:
    """Row by row, in pieces of rows, and from its begin where another one has taken its place."""
    path, tables, door = tmp_path / "EV-T-N(0).csv", SampledTables(), Door(tmp_path)
    text = "A,Epoch\n1,4\n2,5\n3,6\n"
    assert not tables.read(door, path.name)
    for end in range(1, len(text) + 1):
        path.write_text(text[:end])
        whole = text[: text.rfind("\n", 0, end) + 1]
        (tmp_path / "EV-whole.csv").write_text(whole)
        assert tables.read(door, path.name) == read_columns(tmp_path / "EV-whole.csv")
    (tmp_path / "new.csv").write_text("A,Epoch\n" + "7,8\n" * 5)
    (tmp_path / "new.csv").replace(path)
    assert tables.read(door, path.name) == read_columns(path)


def test_of_a_long_table_a_state_has_a_sample(tmp_path: Path) -> None:
    """Batches up to the last whole row, one after the other; steps from all of the run, the first one, so that a page that is
    opened late has whole curves, and the last one among them; nothing of what no page shows.
    """
    tables, rows, door = SampledTables(), 200_000, Door(tmp_path)
    heads = {"BA": ",".join(BATCH_COLUMNS), "TR": "Time,Epochs,Batches,in,Total,B", "LEDGER": ",".join(COLUMNS)}
    rest = {"BA": ",1,1" + 10 * ",0" + ",", "TR": ",1,1,1,1,0", "LEDGER": ",1,1,1,1,1"}

    def read(kind: str, worker: int) -> list[Any]:
        name, lines = f"{kind}-T-N({worker}).csv", (f"{number}{rest[kind]}\n" for number in range(rows))
        (tmp_path / name).write_text(f"{heads[kind]}\n{''.join(lines)}7,")
        return list(tables.read(door, name).get("Time", []))

    batches, steps = read("BA", 0), read("TR", 0)
    assert batches == list(range(rows - len(batches), rows)) and 2_000 < len(batches) < 10_000
    gaps = [after - before for before, after in pairwise([*steps, rows])]
    assert (steps[0], steps[-1]) == (0, rows - 1) and min(gaps[:-1]) > 0 and max(gaps) < rows / 10 and len(steps) < 5_000
    assert not read("LEDGER", 0)
    for worker in range(1, 64):
        (tmp_path / f"BA-T-N({worker}).csv").write_text(f"{heads['BA']}\n1{rest['BA']}\n")
        tables.read(door, f"BA-T-N({worker}).csv")
    assert 20 * len(read("TR", 64)) < 8 * len(steps) and 4 * len(read("BA", 64)) < len(batches)


def test_workers_that_were_numbered_anew_are_seen_by_their_new_numbers(tmp_path: Path) -> None:
    """Of three worker 1 was killed, and worker 2 goes on in its place: nothing of the attempt before is shown."""
    for agent, worker, attempt, rows in ((0, 0, 1, 16), (1, 1, 0, 5), (2, 1, 1, 15), (2, 2, 0, 5)):
        folder = tmp_path / f"agent-{agent}" / f"job.{worker}"
        (folder / "out").mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps({"attempt": attempt}))
        (folder / "out" / f"TR-T-N({worker}).csv").write_text(
            HEAD + "".join(f"1,1,{n + 1},20,{n + 1},0.5\n" for n in range(rows))
        )
    seen = RunSource(lambda: tmp_path, epochs=1).look()
    assert seen.done == 0.75 and [len(tables["TR"]["Total"]) for tables in seen.records.tables.values()] == [16, 15]
    assert RunRecords.read(tmp_path).tables.keys() == {0, 1, 2}  # what is left of it all is told in the report


TOLD: list[str] = []
SEEN: list[dict[str, Any]] = []


class Looks(AbsTransformer):
    """Opens the page of the run when the samples are made, in the program of the job."""

    def __call__(self, *samples: Any, **_: Any) -> Any:
        for address in re.findall(r"http://\S+", "\n".join(TOLD)):  # there is none while the job is only checked
            SEEN.append(next(states(address)))
        return samples


class Keeps(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        TOLD.append(record.getMessage())


def test_a_job_shows_itself_and_gives_the_same_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train(folder: str, **options: Any) -> dict[str, float]:
        job = ParallelSGD(mlp(units=4), ArrayDataset(X, Y, X[:8], Y[:8]), Looks())
        with in_process(2) as nodes:
            return job.parallel(nodes, epoch=2, block_size=8, directory=tmp_path / folder, **options)

    caplog.set_level("INFO")
    threads = set(threading.enumerate())
    calm = train("calm")
    log, keeps = logging.getLogger(SUBMIT_LOGGER), Keeps()
    log.addHandler(keeps)
    try:
        assert train("seen", page=True) == calm
    finally:
        log.removeHandler(keeps)
    (state,) = SEEN
    assert state["state"] == "running" and state["done"] == 0 and state["log"]
    assert "token" not in "".join(state["log"]), "the page may be shown to others"
    assert "The files of this run are in" not in "".join(state["log"]), (
        "which the line of the job tells, on a short console, too"
    )
    assert set(threading.enumerate()) <= threads


def test_a_page_that_cannot_be_served_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit codes of all commands: 2 for an argument, of which nothing was started, 4 where nobody can be reached."""
    (tmp_path / "job.json").write_text(json.dumps({"format": 1, "job": "J", "title": "T", "began": 1, "nodes": {}}))
    (tmp_path / "worker.json").write_text('{"Worker": ["127.0.0.1:1"]}')
    (tmp_path / "Node-0-Retrieve").mkdir()
    (tmp_path / "Node-0-Retrieve" / "TR-T-N(0).csv").write_text(HEAD)
    create_key_file(key := tmp_path / "key")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            LivePage(RunSource(lambda: tmp_path), port=port)
        assert main(["page", str(tmp_path), "--port", str(port)]) == 2
        assert f"port {port} of this machine cannot be used: Address already in use" in capsys.readouterr().err
    assert main(["page", "--job", "--workers", str(tmp_path / "worker.json"), "--key-file", str(key)]) == 4
    assert "None of the workers can be reached: " in capsys.readouterr().err


def test_a_job_that_has_its_agents_for_itself_shows_no_cluster() -> None:
    """Workers of this machine are no cluster; agents of others, an agent that cannot be reached, or another job are told."""

    class Sees:
        def __init__(self, **tables: Any) -> None:
            self.tables = tables

        def look(self) -> Seen:
            return Seen(RunRecords(Path(), None), job="J", nodes=nodes, **self.tables)

        def close(self) -> None:
            pass

    nodes = [{"node": f"worker {n}", "agent": f"127.0.0.1:{n}", "state": "running"} for n in (0, 1)]
    here = [{"agent": f"127.0.0.1:{n}", "host": "pc", "slots": "1 of 1 in use", "problem": ""} for n in (0, 1)]
    jobs = [{"job": "J", "title": "T", "state": "running"}]
    for agents, of_jobs, hidden in (
        (here, jobs, True),
        ([here[0], {**here[1], "host": "other"}], jobs, False),
        ([here[0], {**here[1], "problem": "unreachable"}], jobs, False),
        ([*here, {**here[0], "agent": "127.0.0.1:2"}], jobs, False),
        (here, [*jobs, {"job": "K", "title": "U", "state": "done"}], False),
    ):
        with LivePage(Sees(agents=agents, jobs=of_jobs)) as live:
            tables = next(states(live.address))["tables"]
        assert tables["nodes"] == nodes
        assert (tables["agents"], tables["jobs"]) == (([], []) if hidden else (agents, of_jobs))


def test_title_settings_and_model_are_there_before_the_first_batch(tmp_path: Path) -> None:
    """Of a job that has no folder with a record yet; as they are at its first state, and in a job of `parallel(page=True)`."""
    about = {"title": "T", "settings": [{"setting": "epoch", "value": "3"}], "model": "dense 650"}
    with LivePage(RunSource(lambda: None), about=about) as live:
        state = next(states(live.address))
    assert state["title"] == "T" and state["about"] == about and not state["job"] and not state["page"]["batches"]["rows"]
    seen: list[dict[str, Any]] = []

    entered = LivePage.__enter__

    def enter(self: LivePage) -> LivePage:
        live = entered(self)
        seen.append(next(states(live.address)))  # nothing is trained before the page is entered
        return live

    with pytest.MonkeyPatch.context() as patch, in_process(1) as nodes:
        patch.setattr(LivePage, "__enter__", enter)
        job = ParallelSGD(mlp(units=4), ArrayDataset(X, Y, X[:8], Y[:8]))
        job.parallel(nodes, epoch=3, page=True, directory=tmp_path, mission_title="Digits")
    (state,) = seen
    assert state["title"] == "Digits" and {"setting": "epoch", "value": "3"} in state["about"]["settings"]
    assert "Dense" in state["about"]["model"] or "dense" in state["about"]["model"]


def test_a_simulated_run_is_told_as_one_while_it_goes_on(tmp_path: Path) -> None:
    """With the number of workers whose curves are there; a run that is measured has no such note."""
    notes = []
    for number, nodes in enumerate([simulated(17, "star 100Mbit/s 1ms", compute="1ms", codec_time=0), in_process(2)]):
        job = ParallelSGD(mlp(units=4), ArrayDataset(X, Y))
        folder = job.parallel(nodes, epoch=1, block_size=1, directory=tmp_path / str(number)).folder
        assert folder is not None
        (folder / "outcome.json").unlink()
        with LivePage(RunSource(partial(Path, folder))) as live:
            notes.append(next(states(live.address))["note"])
    platform = "star of 17 hosts; 100 Mbit/s and 1 ms; model alpha-beta, ports shared fairly, TCP"
    some = "The curves here are those of 4 of 17 workers."
    assert notes == [f"Simulated, not measured, on {platform}: seconds of a virtual clock. {some}", ""]


def test_links_are_not_blamed_for_turns_on_the_cores(tmp_path: Path) -> None:
    """Of a run that goes on, which has no outcome that tells where it is computed."""
    with in_process(2) as nodes:
        result = ParallelSGD(mlp(units=4), ArrayDataset(X, Y)).parallel(nodes, epoch=3, block_size=4, directory=tmp_path)
    assert result.folder is not None
    (result.folder / "outcome.json").unlink()
    record = json.loads((result.folder / "job.json").read_text())
    assert record["about"]["machine"] == machine_of(nodes)
    kinds = []
    for told in (record["about"]["machine"], {"workers on these cores": "2", "cores": "1"}, {"cores": 1}, "none"):
        (result.folder / "job.json").write_text(json.dumps({**record, "about": {**record["about"], "machine": told}}))
        with LivePage(RunSource(lambda: result.folder)) as live:
            kinds.append({cause["kind"] for cause in next(states(live.address))["page"]["causes"]})
    assert "link" in kinds[2] and "cores" not in kinds[2]
    assert kinds == [kinds[2] - {"link", "start"} | {"cores"}] * 2 + [kinds[2]] * 2
