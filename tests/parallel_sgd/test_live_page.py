"""A run seen while it goes on: by whom, what, and that nobody who looks can hold it up."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from nn.dataset import ArrayDataset
from nn.dataset.transforms.abstract import AbsTransformer
from parallel_sgd import ParallelSGD, in_process
from parallel_sgd.run_page.live import LivePage
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
    with LivePage(lambda: tmp_path, epochs=2) as live:
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


def test_viewers_get_what_the_workers_have_written_and_a_slow_one_stops_nobody(page: LivePage) -> None:
    url = urlsplit(page.address)
    with socket.create_connection((url.hostname, url.port)) as slow:
        slow.sendall(f"GET /events?{url.query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())  # and reads nothing
        first = next(states(page.address))
        assert first["state"] == "running" and first["done"] == 0.25 and first["left"] > 0
        assert [line["label"] for line in first["page"]["curves"]["step"]] == ["training"]
    told: list[dict[str, Any]] = []
    viewer = threading.Thread(target=lambda: told.extend(states(page.address)))
    viewer.start()
    page.__exit__()
    viewer.join(60)
    assert not viewer.is_alive() and (not told or told[-1]["done"] == 0.25)


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
            LivePage(lambda: tmp_path, port=taken.getsockname()[1])
