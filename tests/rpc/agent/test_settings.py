"""Where an agent's settings come from, and what each wrong one says."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from network.nodes import DEFAULT_PORT
from rpc.agent.settings import AgentSettings, default_work_dir, gather
from rpc.errors import SettingsError


def write(path: Path, text: str) -> Path:
    file = path / "worker.toml"
    file.write_text(text)
    return file


def test_defaults(tmp_path: Path) -> None:
    settings = gather({}, {}, tmp_path / "worker.toml")
    assert settings == AgentSettings()
    assert (settings.listen, settings.port, settings.slots, settings.level) == ("127.0.0.1", DEFAULT_PORT, 1, logging.INFO)
    assert (settings.key_file, settings.work_dir, settings.code_policy) == (None, None, "any")


def test_the_file_sets_everything(tmp_path: Path) -> None:
    text = 'listen = "a"\nport = 1\nkey_file = "k"\nwork_dir = "w"\nslots = 3\nlog_level = "debug"\n'
    settings = gather({}, {}, write(tmp_path, text))
    assert settings == AgentSettings("a", 1, "k", "w", 3, "debug")
    assert settings.level == logging.DEBUG


def test_command_line_before_environment_before_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'listen = "file"\nport = 1\nkey_file = "file"\n')
    environ = {"PSGD_LISTEN": "env", "PSGD_PORT": "2", "PSGD_KEY_FILE": "env"}
    options = {"listen": "line", "port": 0, "key_file": "line", "slots": None}
    chosen = [gather(o, e, file) for o in (options, {}) for e in (environ, {})]
    assert [(s.listen, s.port, s.key_file) for s in chosen] == [
        ("line", 0, "line"),
        ("line", 0, "line"),
        ("env", 2, "env"),
        ("file", 1, "file"),
    ]
    assert (
        gather({}, {"PSGD_LISTEN": "", "PSGD_PORT": "", "PSGD_KEY_FILE": ""}, file).listen == "file"
    )  # set to nothing: not set


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": -1}, "The port must be a number from 0 to 65535, got -1."),
        ({"port": 65536}, "The port must be a number from 0 to 65535, got 65536."),
        ({"slots": 0}, "The number of slots must be 1 or more, got 0."),
        ({"keep_jobs": 0}, "The number of jobs to keep must be 1 or more, got 0."),
        ({"output_mib": 0}, "The MiB of a job's output to keep must be 1 or more, got 0."),
        ({"log_level": "loud"}, "The log level must be one of DEBUG, INFO, WARNING, ERROR, got 'loud'."),
        ({"listen": ""}, "The address to listen on must be a host, got ''; for all of this machine's, say 0.0.0.0."),
        # of the environment
        *((port, f"PSGD_PORT must be a number from 0 to 65535, got '{port}'.") for port in ("x", "1.5", "0x10", "-")),
    ],
)
def test_bad_values(tmp_path: Path, options: dict[str, Any] | str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        if isinstance(options, str):
            gather({}, {"PSGD_PORT": options}, tmp_path / "none")
        else:
            gather(options, {}, tmp_path / "none")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"port = {port}", f"port must be a int, got {port}") for port in ("'x'", "True", "1.0")),
        ("slots = '1'", "slots must be a int"),
        ("listen = 5", "listen must be a str, got 5"),
        ("key_file = ['a']", "key_file must be a str"),
        ("keyfile = 'a'", "may set listen, port, key_file, work_dir, slots, log_level, output_mib, got 'keyfile'"),
        ("code_policy = 'any'", "got 'code_policy'"),
        *((text, "cannot be read: ") for text in ("port = ", "\0")),
        ("port = 70000", "from 0 to 65535, got 70000"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        gather({}, {}, write(tmp_path, text.replace("True", "true")))
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "worker.toml").mkdir()
    with pytest.raises(SettingsError, match=r"cannot be read: .*directory"):
        gather({}, {}, tmp_path / "worker.toml")
    (tmp_path / "other.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read: "):
        gather({}, {}, tmp_path / "other.toml")


def test_work_directory() -> None:
    """XDG rules: a relative path counts as not set."""
    assert default_work_dir(7, {"XDG_STATE_HOME": "/state"}) == Path("/state/psgd/agent-7")
    for environ in ({}, {"XDG_STATE_HOME": "state"}, {"XDG_STATE_HOME": ""}):
        assert default_work_dir(7, environ) == Path.home() / ".local/state/psgd/agent-7"
