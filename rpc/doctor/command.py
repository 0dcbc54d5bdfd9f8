"""`worker.py --doctor`: where the agents are that it looks at, and what it prints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from network.key_files import find_keys
from network.nodes import Address

from ..agent.registration import registrations
from ..agent.settings import AgentSettings
from ..elastic.discovery import DiscoveryError, FileDiscovery
from ..errors import SettingsError
from .examine import examine
from .report import Report, Worker

EXIT_WELL, EXIT_WRONG = 0, 1
_NODE_FILE = "worker.json"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound


def run(settings: AgentSettings, hosts: Sequence[str], folder: str | None, as_json: bool) -> int:
    """Examine the agents of `hosts` and `folder`, or those that can be found, and print what is known; the exit code.

    Raises: SettingsError for what names no agents; NetworkError for a key that cannot be used.
    """
    named = [address for host in hosts for address in _named(host)]
    if folder is not None:
        named += _registered(Path(folder))
    key = (settings.keyring or find_keys(settings.key_file, os.environ, create=False)).offered
    bar: tqdm[None] | None = None

    def show(done: int, of: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=of, unit="way", leave=False, disable=None)
        bar.update(done - bar.n)

    own: Address | None = None
    if not hosts and folder is None:
        named = _named(_NODE_FILE) if os.path.exists(_NODE_FILE) else []
        own = Address(_ANYWHERE.get(settings.listen, settings.listen), settings.port)
        own = None if own in named else own
    try:
        report = examine(list(dict.fromkeys([*([own] if own else []), *named])), key, show)
    finally:
        if bar is not None:
            bar.close()
    if own is not None and named and _may_be_left_out(report.workers):
        report = report.without(own)
    _print(report, as_json)
    return EXIT_WRONG if report.problems else EXIT_WELL


def _may_be_left_out(workers: Sequence[Worker]) -> bool:
    """Whether the first, that of this machine, is not there, as where one only submits, or is there by another address."""
    own, *others = workers
    return own.status is None or own.status.instance in {each.status.instance for each in others if each.status is not None}


def _print(report: Report, as_json: bool) -> None:
    text = json.dumps(report.as_data(), indent=2) if as_json else report.as_text()
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _named(text: str) -> list[Address]:
    """What a HOST stands for: an address, a .json node file, or a folder in which agents register."""
    if os.path.isdir(text):
        return _registered(Path(text))
    try:
        if text.endswith(".json"):
            return [host.address for host in FileDiscovery(text).find()]
        return [Address.parse(text)]
    except (DiscoveryError, ValueError) as error:
        raise SettingsError(f"--doctor HOSTS: {error}") from error


def _registered(folder: Path) -> list[Address]:
    try:
        found = [Address.parse(one.address) for one in registrations(folder)]
    except OSError as error:
        raise SettingsError(f"The folder {folder} cannot be read: {error.strerror or error}.") from error
    if not found:
        raise SettingsError(f"No worker is registered in {folder}.")
    return found
