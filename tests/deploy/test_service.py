"""The unit for systemd, and the procedure by which docs/day-two.md changes the key of workers that go on running."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from network import NetworkError, NodeAssignment, Request
from network.key_files import KeySource, load_key_file
from network.keys import Keyring, format_keyring, new_key
from rpc.agent.cli import add_options
from rpc.agent.settings import gather
from rpc.errors import SettingsError
from rpc.support.option_parser import OptionParser
from tests.processes.executors import Sum
from tests.processes.harness import AgentProcess, make_key, short_folder, wait_for
from tests.processes.harness import cluster as made_cluster
from tests.sources import ROOT

UNIT = ROOT / "deploy" / "psgd-worker.service"


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(UNIT.read_text("utf-8"))
    return found


def command() -> list[str]:
    return shlex.split(unit()["Service"]["ExecStart"])


def test_the_unit_starts_a_worker_with_options_that_there_are() -> None:
    program, *options = command()
    parser = OptionParser()
    add_options(parser)
    given = parser.parse_args(options)
    service = unit()["Service"]
    assert Path(program).name == "psgd-worker" and f'{Path(program).name} = "' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert given.grace < int(service["TimeoutStopSec"])  # jobs have saved their state before systemd kills what is left
    assert (
        Path(given.work_dir).parent == Path("/var/lib", service["StateDirectory"])
        and service["RestartPreventExitStatus"] == "2"
    )
    assert service["KillMode"] == "mixed"  # SIGTERM goes to the agent alone, which tells the jobs
    assert given.key_file in (ROOT / "docs" / "day-two.md").read_text("utf-8")


def test_settings_that_the_page_shows_are_those_that_there_are(tmp_path: Path) -> None:
    """Its block is a `worker.toml`, and all keys of one stand on the page."""
    text = (ROOT / "docs" / "day-two.md").read_text("utf-8")
    (block,) = re.findall(r"^```toml\n(.+?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "worker.toml").write_text(block)
    found = gather({}, {}, tmp_path / "worker.toml")
    assert (found.slots, found.output_mib, found.keep_jobs) == (2, 16, 50)
    (more,) = re.findall(r"^It may also have (.+?)\.", text, re.MULTILINE)
    (tmp_path / "worker.toml").write_text("nonsense = 1")
    with pytest.raises(SettingsError) as caught:
        gather({}, {}, tmp_path / "worker.toml")
    told = re.findall(r"\b[a-z]+_?[a-z]+\b", str(caught.value).partition(" may set ")[2].partition(", got ")[0])
    assert {*re.findall(r"`([a-z_]+)`", more), *re.findall(r"^([a-z_]+) =", block, re.MULTILINE)} == set(told)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_in_it(tmp_path: Path) -> None:
    copied = tmp_path / UNIT.name
    copied.write_text(UNIT.read_text("utf-8").replace(command()[0], sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", copied], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as place:
        yield place


@pytest.mark.processes
def test_the_command_of_the_unit_serves_and_leaves_in_its_time(folder: Path) -> None:
    """As systemd runs it, with places of this test: it ends with 0 on SIGTERM, with 2, so for good, by a wrong key."""
    make_key(folder / "key")
    _, *options = command()
    places = {"/etc/psgd/key": folder / "key", "/var/lib/psgd/agent": folder / "agent", "0.0.0.0": "127.0.0.1"}
    own = [str(places.get(option, option)) for option in options]
    announced = folder / "address"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-m", "rpc.agent.cli", *own, "--port", "0", "--announce", str(announced)]
    limit = int(unit()["Service"]["TimeoutStopSec"])
    with subprocess.Popen(run, env=environ, stderr=subprocess.DEVNULL, cwd=folder) as process:
        wait_for(announced.exists, "the worker")
        process.send_signal(signal.SIGTERM)
        assert process.wait(limit) == 0
    (folder / "key").chmod(0o644)
    assert subprocess.run(run, env=environ, stderr=subprocess.DEVNULL, cwd=folder, timeout=60, check=False).returncode == 2


def replace_key(path: Path, *parts: Path) -> None:
    """Put the keys of `parts` into the file, as the procedure does."""
    draft = path.with_name("key.next")
    draft.touch(0o600)
    draft.write_bytes(b"".join(part.read_bytes() for part in parts))
    os.replace(draft, path)


def reaches(agent: AgentProcess, key_file: Path) -> str:
    """Return "" where the holder of this key is served, else why not."""
    nodes = NodeAssignment(key_file)
    nodes.add(0, str(agent.address))
    try:
        with Request().request(nodes):
            return ""
    except NetworkError as error:
        return str(error)


@pytest.mark.processes
def test_the_key_is_changed_while_workers_run(folder: Path) -> None:
    """The steps of docs/day-two.md: at no moment a holder of a key that counts is refused, and no worker is started again."""
    with made_cluster(folder) as cluster:
        (agent,) = cluster.start(1)
        old, new = folder / "old.key", folder / "new.key"
        shutil.copy(cluster.key_file, old)
        make_key(new)
        pid = agent.pid
        assert reaches(agent, old) == "" and "key" in reaches(agent, new)
        replace_key(cluster.key_file, old, new)
        assert reaches(agent, old) == "" == reaches(agent, new)
        assert not cluster.run(Sum, folder / "first").failures  # a job, by the two keys of the file
        cluster.key_file.write_text("psgd-key-1 half of a li")  # while somebody writes it in place
        assert reaches(agent, old) == "" == reaches(agent, new)
        replace_key(cluster.key_file, new)
        assert "key" in reaches(agent, old) and reaches(agent, new) == ""
        assert not cluster.run(Sum, folder / "second").failures and agent.pid == pid
        (log,) = (agent.work / "log").glob("*.log")
        told = log.read_text("utf-8")
        ids = [load_key_file(path).offered.id.hex() for path in (old, new)]
        stamp = r"INFO Worker-\S+@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d: "
        assert re.search(rf"^{stamp}The key file has changed: {ids[0]} and {ids[1]} admit from now on\.$", told, re.MULTILINE)
        assert re.search(rf"^{stamp}The key file has changed: {ids[1]} admits from now on\.$", told, re.MULTILINE)
        assert told.count("The keys stay those that were read before: ") == 1
        assert re.search(r"INFO Worker-127\.0\.0\.1@\d\d:\d\d:\d\d: The key file has changed", agent.console)


def test_keys_are_read_again_only_from_a_file_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    make_key(path)
    told: list[str] = []
    first = load_key_file(path)
    source = KeySource(first, path, told.append)
    assert source.current() is first and told == []
    path.chmod(0o644)
    assert source.current() is first and source.current() is first and len(told) == 1 and "0644" in told[0]
    path.unlink()
    assert source.current() is first and len(told) == 2 and "does not exist" in told[1]
    make_key(path)
    assert source.current().keys == load_key_file(path).keys != first.keys and len(told) == 3
    late = KeySource(first, path, told.append)  # the file has changed after its keys were read
    assert late.current().keys == load_key_file(path).keys and len(told) == 4 and late.current().keys and len(told) == 4
    fixed = KeySource(Keyring((new_key(),)), None, told.append)
    assert fixed.current().keys == fixed.current().keys and len(told) == 4
    assert all(format_keyring(load_key_file(path)).split()[2] not in text for text in told)  # the secret
