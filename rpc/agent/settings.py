"""Settings of an agent: command line before environment before `worker.toml` before defaults."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network.keys import Keyring
from network.nodes import DEFAULT_PORT, LAST_PORT

from ..errors import SettingsError
from ..messages import ANY_CODE
from ..support.files import read_toml
from .output import DEFAULT_LIMIT

_FILE_KEYS = {
    "listen": str,
    "port": int,
    "key_file": str,
    "work_dir": str,
    "slots": int,
    "log_level": str,
    "output_mib": int,
    "keep_jobs": int,
}
_KINDS = {str: "a text", int: "an integer"}
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True)
class AgentSettings:
    """Settings of an agent.

    Args:
        listen: host to listen on.
        port: 0 picks a free one.
        key_file: None means the usual places (loopback only).
        work_dir: None means the user's state directory.
        slots: jobs at once.
        log_level: a name in `LEVELS`.
        code_policy: see `rpc.shipping.load`.
        keep_jobs: ended jobs of which the files are kept.
        output_mib: MiB of a job's output that its log keeps.
        own_kernels: its jobs have the BLAS kernels that its environment gives, as the process that started it has.
        keyring: keys that come from no file, instead of `key_file`.
        metrics_port: on loopback, where metrics are served; 0 picks a free one, None serves none. `worker.toml` cannot set it:
            all agents of a user read that.
    """

    listen: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    key_file: str | None = None
    work_dir: str | None = None
    slots: int = 1
    log_level: str = "INFO"
    code_policy: str = ANY_CODE
    keep_jobs: int = 20
    output_mib: int = DEFAULT_LIMIT >> 20
    own_kernels: bool = False
    keyring: Keyring | None = None
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        if not self.listen:
            raise SettingsError("The address to listen on must be a host, got ''; for all of this machine's, say 0.0.0.0.")
        host, colon, port = self.listen.rpartition(":")
        if colon and ":" not in host and port.isdecimal():  # as the node file has it; an address of IPv6 has more colons
            raise SettingsError(
                f"The address to listen on must be a host, got {self.listen!r}; the port is an option of its own: "
                f"--listen {host} --port {port}."
            )
        if not 0 <= self.port <= LAST_PORT:
            raise SettingsError(f"The port must be a number from 0 to {LAST_PORT}, got {self.port}.")
        if self.metrics_port is not None and not 0 <= self.metrics_port <= LAST_PORT:
            raise SettingsError(f"--metrics-port must be a number from 0 to {LAST_PORT}, got {self.metrics_port}.")
        if self.metrics_port and self.metrics_port == self.port:
            raise SettingsError(f"--metrics-port must be another port than that of the worker, got {self.port} for both.")
        if self.slots < 1:
            raise SettingsError(f"The number of slots must be 1 or more, got {self.slots}.")
        if self.keep_jobs < 1:
            raise SettingsError(f"The number of jobs to keep must be 1 or more, got {self.keep_jobs}.")
        if self.output_mib < 1:
            raise SettingsError(f"The MiB of a job's output to keep must be 1 or more, got {self.output_mib}.")
        if self.log_level.upper() not in LEVELS:
            raise SettingsError(f"The log level must be one of {', '.join(LEVELS)}, got {self.log_level!r}.")

    @property
    def level(self) -> int:
        return int(getattr(logging, self.log_level.upper()))


def gather(
    options: Mapping[str, Any], environ: Mapping[str, str], file: Path, defaults: Mapping[str, Any] | None = None
) -> AgentSettings:
    """Gather settings from command-line `options` (None: not given), the environment, `file` where it exists, and `defaults`.

    Raises: SettingsError.
    """
    found = {**(defaults or {}), **_read_file(file)}
    if environ.get("PSGD_LISTEN"):
        found["listen"] = environ["PSGD_LISTEN"]
    if environ.get("PSGD_PORT"):
        try:
            found["port"] = int(environ["PSGD_PORT"])
        except ValueError:
            raise SettingsError(f"PSGD_PORT must be a number from 0 to 65535, got {environ['PSGD_PORT']!r}.") from None
    if environ.get("PSGD_KEY_FILE"):
        found["key_file"] = environ["PSGD_KEY_FILE"]
    # last: the command line is what the user has said most recently
    found.update({name: value for name, value in options.items() if value is not None})
    return AgentSettings(**found)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        content = read_toml(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.") from error
    content.pop("kernel_probe", None)  # of releases that measured kernels
    for name, value in content.items():
        if name not in _FILE_KEYS:
            raise SettingsError(f"{file} may set {', '.join(_FILE_KEYS)}, got {name!r}.")
        # by type: true is no port
        if type(value) is not _FILE_KEYS[name]:
            raise SettingsError(f"{file}: {name} must be {_KINDS[_FILE_KEYS[name]]}, got {value!r}.")
    return content


def default_work_dir(port: int, environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/psgd/agent-<port>`, else `~/.local/state/psgd/agent-<port>`."""
    return state_directory(environ) / f"agent-{port}"


def state_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/psgd`, else `~/.local/state/psgd`."""
    base = environ.get("XDG_STATE_HOME", "")
    # the XDG specification has relative paths ignored
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return root / "psgd"
