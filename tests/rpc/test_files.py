"""Names, files and results that people or nodes give: read within limits, published past planted links."""

from __future__ import annotations

import os
import re
import resource
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network.errors import ProtocolError
from network.nodes import Address
from nn.dataset.plan import Plan
from parallel_sgd import parse_worker
from parallel_sgd.elastic.job import StateFile
from parallel_sgd.federated import load_client
from rpc import shipping
from rpc.agent.registration import registrations
from rpc.agent.scheduler_env import announced
from rpc.agent.settings import gather
from rpc.agent.store import JobRecord
from rpc.elastic.discovery import DiscoveryError, FileDiscovery
from rpc.errors import SettingsError
from rpc.submit.run_folder import Run
from rpc.support import files
from rpc.support.files import MOST_BYTES, continued, publish, read_result, read_text, write_result
from rpc.support.identity import host_name, is_job_id, new_job_id, process_name

from ..parallel_sgd.networks import mlp
from ..statements import covers
from .travel import ROOT

READERS: dict[str, tuple[Callable[[Path], Any], type[Exception] | None]] = {
    "worker.json": (lambda path: parse_worker(1, filename=path), ValueError),
    "discovery": (lambda path: FileDiscovery(path).find(), DiscoveryError),
    "job.json": (JobRecord.read, ValueError),
    "worker.toml": (lambda path: gather({}, {}, path), SettingsError),
    "x.agent.json": (lambda path: registrations(path.parent), None),  # left out
    "runs/x-1/job.json": (lambda path: Run.read(path.parent), None),  # no run that has begun
}
NO_FILE, DEEP = "no regular file", b"[" * 90_000
CONTENTS = {
    "nested too deeply": DEEP,
    f"at most {MOST_BYTES} bytes": b" " * (MOST_BYTES + 1),
    "it is UTF-16 text; save it as UTF-8": '{"Worker": ["127.0.0.1"]}'.encode("utf-16"),
    "byte 0xe9 at position 0 is no UTF-8 text; save it as UTF-8": b"\xe9",
}
PIPES = ("job.json", "x.agent.json", "runs/x-1/job.json")  # a person may name a pipe, as a shell does


@pytest.mark.parametrize(
    ("name", "said"), [*((name, said) for name in READERS for said in CONTENTS), *((name, NO_FILE) for name in PIPES)]
)
def test_no_content_gets_past_a_reader(tmp_path: Path, name: str, said: str) -> None:
    """90,000 brackets in 90 kB, more bytes than it may have, bytes that are no text: one kind of error that names the fault. A
    pipe in the place of a file that a person does not name holds nobody up."""
    read, error = READERS[name]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if said == NO_FILE:
        os.mkfifo(path)
    else:
        path.write_bytes((b"a = " if name == "worker.toml" and said == "nested too deeply" else b"") + CONTENTS[said])
    if error is None:
        assert not read(path)
        return
    with pytest.raises(error, match=said):
        read(path)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


@pytest.mark.parametrize("name", ["worker.json", "discovery", "worker.toml"])
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (os.mkfifo, "it is a pipe, into which no program has written for 0.1 s"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
        (bind, "it is a socket"),
    ],
    ids=["a pipe", "a folder", "a device", "a socket"],
)
def test_what_stands_in_the_place_of_a_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, made: Callable[[Path], Any], said: str
) -> None:
    """A file that a person names: nothing in its place holds the program up for longer than its limit."""
    monkeypatch.setattr(files, "PIPE_SECONDS", 0.1)
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    path = Path(name)
    made(path)
    read, error = READERS[name]
    with pytest.raises(error or OSError, match=said) as caught:
        read(path)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "read",
    [
        StateFile,
        Plan.load,
        lambda path: load_client(mlp(), path, 0),
        lambda path: shipping._check_policy("0" * 64, str(path)),
    ],
    ids=["state of an elastic job", "plan of columns", "checkpoint", "list of hashes"],
)
def test_files_that_are_no_files_of_a_command(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"no(t a)? regular file") as caught:
        read(tmp_path / "pipe")
    assert str(tmp_path / "pipe") in str(caught.value)


def test_a_writer_that_is_silent_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of `--workers <(command)`, which may ask a scheduler for its hosts."""
    monkeypatch.setattr(files, "PIPE_SECONDS", 0.01)
    os.mkfifo(tmp_path / "pipe")
    writer, read, looks = os.open(tmp_path / "pipe", os.O_RDWR), os.read, 0

    def look(descriptor: int, most: int) -> bytes:
        """Write, and leave, when the limit has passed several times."""
        nonlocal looks
        looks += 1
        if looks == 4:
            os.write(writer, b"late")
            os.close(writer)
        return read(descriptor, most)

    monkeypatch.setattr(os, "read", look)
    assert read_text(tmp_path / "pipe") == "late"


def test_a_pipe_of_a_shell_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of `--workers <(command)`: read to its end, however late and in how many parts its writer writes."""
    monkeypatch.setattr(files, "PIPE_SECONDS", 120.0)  # on a busy machine the writer may be late
    os.mkfifo(tmp_path / "pipe")
    parts = "import sys, time\nfor part in ('ab', 'c' * 100_000):\n with_pipe.write(part); with_pipe.flush()"
    program = f"with_pipe = open({str(tmp_path / 'pipe')!r}, 'w')\n{parts}"
    with subprocess.Popen([sys.executable, "-c", program]):
        assert read_text(tmp_path / "pipe") == f"ab{'c' * 100_000}"
    command = (
        "import sys; from pathlib import Path; from rpc.support.files import read_text; print(read_text(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{command}" <(echo told)'], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "told\n\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, ending: str) -> None:
    """As an editor of Windows saves it: a node file and the settings of an agent read the same with and without it."""
    nodes, settings = tmp_path / "worker.json", tmp_path / "worker.toml"
    nodes.write_bytes(b"\xef\xbb\xbf" + f'{{"Worker":{ending}["127.0.0.1:7"]}}{ending}'.encode())
    settings.write_bytes(b"\xef\xbb\xbf" + f"slots = 3{ending}".encode())
    assert parse_worker(1, filename=nodes, key_file="own.key").key_file == "own.key"
    assert parse_worker(1, filename=nodes)[0] == FileDiscovery(nodes).find()[0].address == Address("127.0.0.1", 7)
    assert gather({}, {}, settings).slots == 3


def test_worker_json_may_come_from_a_command() -> None:
    """As a shell does it: worker.json is <(a command)."""
    end, other = os.pipe()
    with open(end, "rb"):
        with open(other, "wb") as writing:
            writing.write(b'{"Worker": ["127.0.0.1:1"]}')
        assert len(parse_worker(1, filename=f"/dev/fd/{end}")) == 1


def test_an_address_is_announced_past_what_others_have_planted(tmp_path: Path) -> None:
    """In a folder in which others write: a link at the name is replaced and not followed, one at the name of a draft that could
    be foreseen is not met; the file is its owner's alone, whatever the umask. What cannot be published leaves nothing."""
    victim, path = tmp_path / "victim", tmp_path / "address"
    victim.write_text("precious")
    for link in (path, tmp_path / f"address.{os.getpid()}", tmp_path / "address.new"):
        link.symlink_to(victim)
    (tmp_path / "folder").mkdir()
    before = os.umask(0)
    try:
        with announced(str(path), "127.0.0.1:7", lambda _: None):
            assert path.read_text() == "127.0.0.1:7\n" and not path.is_symlink()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    with pytest.raises(OSError, match="directory: ") as caught:
        publish(tmp_path / "folder", "text")
    assert str(caught.value).endswith(f"directory: '{tmp_path / 'folder'}'")  # and not "-> None"
    assert victim.read_text() == "precious" and not path.exists()
    assert {each.name for each in tmp_path.iterdir()} == {"address.new", f"address.{os.getpid()}", "victim", "folder"}


@dataclass
class Figures:
    loss: float
    weights: Any


@pytest.mark.parametrize(
    ("before", "text", "in_place"),
    [
        ("a,1\nb,2\n", "a,1\n", True),
        ("a,1\n", "a,1\nä,2\n", True),
        ("a,1\n", "a,1\n", True),
        ("a,1\nb,2\n", "a,1\nc,3\n", False),
        ("", "a,1\n", False),
        (None, "a,1\n", False),
    ],
)
def test_a_file_is_continued_in_its_place(tmp_path: Path, before: str | None, text: str, in_place: bool) -> None:
    """Where one content begins with the other; else the file stays as it was, and so does one behind a link or another name."""
    path = tmp_path / "table.csv"
    if before is not None:
        path.write_text(before, "utf-8")
    assert continued(path, text) == in_place
    assert path.exists() == (before is not None)
    assert before is None or path.read_text("utf-8") == (text if in_place else before)
    for make in (Path.symlink_to, Path.hardlink_to):
        target, other = tmp_path / "target.csv", tmp_path / f"{make.__name__}.csv"
        target.write_text("a,1\nb,2\n")
        make(other, target)
        assert not continued(other, "a,1\n") and target.read_text() == "a,1\nb,2\n"


def test_results_as_files(tmp_path: Path) -> None:
    """Plain values; more than one frame, and an instance of a class that both sides know; half of a file is none."""
    path = tmp_path / "r"
    for content in (None, 7, "text", (1, [2.5, b"x"]), {"a": {3: True}}):
        write_result(path, content, ())
        assert read_result(path, ()) == content
    weights = np.arange(5_000_000, dtype=np.float32)
    write_result(path, Figures(0.5, weights), (Figures,))
    figures = read_result(path, (Figures,))
    assert figures.loss == 0.5
    np.testing.assert_array_equal(figures.weights, weights)
    with pytest.raises(TypeError, match="Figures"):
        write_result(path, Figures(0.5, None), ())
    write_result(path, np.arange(1000), ())
    whole = path.read_bytes()
    for kept in (0, 10, 100, -1):
        path.write_bytes(whole[:kept])
        with pytest.raises(ProtocolError, match="holds no result that can be read: "):
            read_result(path, ())


def test_a_result_without_room_leaves_no_file(tmp_path: Path) -> None:
    """The part for which there was room would be read as what a node has sent that breaks the protocol."""
    path, (soft, hard) = tmp_path / "r", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_result(path, np.arange(1000), ())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()


@covers("SEC-10")
def test_names_of_jobs_and_processes() -> None:
    """An agent makes folders of job ids; no two pairs of job and node share a name; processes of one host share its name."""
    ids = {new_job_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_job_id(job) and re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", job) for job in ids)
    assert all(map(is_job_id, ["a", "A1", "20261120-173000-9f86d081", "a.b_c-d", "x" * 48]))
    wrong = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "-a",
        "_a",
        "a/b",
        "a\\b",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "x" * 49,
        "../x",
        "a:b",
        "~",
        "*",
    ]
    assert not any(map(is_job_id, wrong))
    pairs = [(job, node) for job in ("a", "a.0", "a.1", "a.ps2", "a.ps2.0", "a-1") for node in (-2, 0, 1, 10)]
    assert len({process_name(*pair) for pair in pairs}) == len(pairs)
    assert (process_name("job", 3), process_name("job", -2)) == ("job.3", "job.ps2")
    command = [sys.executable, "-c", "from rpc.support.identity import host_name; print(host_name())"]
    other = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)
    assert other.stdout.strip() == host_name() and re.fullmatch("[0-9a-f]{32}", host_name())
