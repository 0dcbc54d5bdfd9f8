"""A run seen while it goes on: by whom, what, and that nobody who looks can hold it up."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.dataset.transforms.abstract import AbsTransformer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.run_page import live as serving
from parallel_sgd.run_page.live import LivePage
from parallel_sgd.run_page.sources import GrowingTables, RunSource
from parallel_sgd.table import read_columns
from rpc.logs import SUBMIT_LOGGER
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


def get(address: str, path: str | None = None, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    url = urlsplit(address)
    with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)) as connection:
        connection.request(method, f"{url.path}?{url.query}" if path is None else path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())


def states(address: str) -> Iterator[dict[str, Any]]:
    """What a viewer is told, until it is told that there is no more."""
    url = urlsplit(address)
    with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)) as connection:
        connection.request("GET", f"/events?{url.query}")
        answer = connection.getresponse()
        while line := answer.readline().decode():
            if line.startswith("event: end"):
                return
            if line.startswith("data: "):
                yield json.loads(line[6:])


def test_the_page_is_for_who_has_the_token_and_only_to_be_read(page: LivePage) -> None:
    status, text, headers = get(page.address)
    assert status == 200 and "EventSource" in text and headers["referrer-policy"] == "no-referrer"
    assert "connect-src 'self'" in text
    assert get(page.address, "/")[0] == get(page.address, "/?token=x")[0] == get(page.address, "/events?token=")[0] == 403
    assert get(page.address, Host="evil.example")[0] == 400
    assert [get(page.address, method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3
    assert page.address.startswith("http://127.0.0.1:")


def test_viewers_get_what_the_workers_have_written_and_slow_ones_stop_nobody(page: LivePage) -> None:
    url = urlsplit(page.address)
    with ExitStack() as slow:
        for _ in range(100):
            one = slow.enter_context(socket.create_connection((url.hostname, url.port)))
            one.sendall(f"GET /events?{url.query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())  # and reads nothing
        told_twice = states(page.address)
        first = next(told_twice)
        assert next(told_twice)["state"] == "running"  # another one comes by itself
        assert first["state"] == "running" and first["done"] == 0.25 and first["left"] > 0
        assert [line["label"] for line in first["page"]["curves"]["step"]] == ["training"]
    told: list[dict[str, Any]] = []
    viewer = threading.Thread(target=lambda: told.extend(states(page.address)))
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


def test_one_viewer_too_many_is_hung_up_on(page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that viewers take no files that the job needs; those who are there go on."""
    monkeypatch.setattr(serving, "MOST_VIEWERS", 20)
    url = urlsplit(page.address)
    request = f"GET /events?{url.query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with ExitStack() as held:
        seen = []
        for _ in range(30):
            viewer = held.enter_context(socket.create_connection((url.hostname, url.port), 60))
            viewer.sendall(request)
            try:
                seen.append(viewer.recv(9))
            except ConnectionResetError:
                seen.append(b"")
        assert seen == [b"HTTP/1.1 "] * 20 + [b""] * 10


def test_a_table_that_grows_is_read_as_a_whole_one_is(tmp_path: Path) -> None:
    """Row by row, in pieces of rows, and from its begin where another one has taken its place."""
    path, tables = tmp_path / "BA-T-N(0).csv", GrowingTables()
    text = "A,B\n1,x\n2,y\n3,z\n"
    assert not tables.read(path)
    for end in range(1, len(text) + 1):
        path.write_text(text[:end])
        whole = text[: text.rfind("\n", 0, end) + 1]
        (tmp_path / "whole.csv").write_text(whole)
        assert tables.read(path) == read_columns(tmp_path / "whole.csv")
    (tmp_path / "new.csv").write_text("A,B\n" + "7,w\n" * 5)
    (tmp_path / "new.csv").replace(path)
    assert tables.read(path) == read_columns(path)
    with path.open("a") as file:
        file.writelines(f"{number},v\n" for number in range(100_000))
    (last, length) = tables.read(path)["A"][-1], len(tables.read(path)["A"])
    assert last == 99_999 and length <= 4_000
    for node in range(1, 40):  # of many tables less of each, or a state of many workers would take long
        other = path.with_name(f"BA-T-N({node}).csv")
        other.write_text(text)
        assert tables.read(other) == read_columns(other)
    assert len(tables.read(path)["A"]) <= 200


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
    threads = threading.active_count()
    calm = train("calm")
    log, keeps = logging.getLogger(SUBMIT_LOGGER), Keeps()
    log.addHandler(keeps)
    try:
        assert train("seen", page=True) == calm
    finally:
        log.removeHandler(keeps)
    (state,) = SEEN
    assert state["state"] == "running" and state["done"] == 0 and state["log"]
    assert threading.active_count() == threads


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            LivePage(RunSource(lambda: tmp_path), port=taken.getsockname()[1])
