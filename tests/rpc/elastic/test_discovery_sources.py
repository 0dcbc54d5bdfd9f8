"""Which of the agents that are registered in a folder are believed."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from network.dial import Target
from network.errors import NetworkError, PeerLost
from network.key_files import create_key_file
from network.keys import new_key
from network.testing import VirtualClock
from rpc.agent.registration import Registration
from rpc.elastic import DiscoveryError, FolderDiscovery, discovery_of
from rpc.elastic.discovery_sources import ReachableAgents

ONE = Registration("slurm", "7.0", 0, 2, "10.0.0.1:4000", 1, "a", 100.0)
TWO = replace(ONE, rank=1, address="10.0.0.2:4000", host="b")


class Phone:
    """Stands for the network: `there` answer, others do not."""

    def __init__(self, *there: str) -> None:
        self.there, self.called = set(there), list[str]()

    def __call__(self, targets: Mapping[int, Target], limit: float) -> tuple[dict[int, Any], dict[int, NetworkError]]:
        self.called += [str(target.address) for target in targets.values()]
        answers = {n: str(target.address) in self.there for n, target in targets.items()}
        lost: NetworkError = PeerLost(None, "it", "connection refused")
        return {n: Line() for n, yes in answers.items() if yes}, {n: lost for n, yes in answers.items() if not yes}


class Line:
    def close(self) -> None:
        pass


def test_who_answers_once_is_believed_and_who_does_not_is_called_more_and_more_rarely() -> None:
    clock, phone = VirtualClock(), Phone("10.0.0.1:4000")
    living = ReachableAgents(new_key(), clock, phone)
    assert living.among([ONE, TWO]) == [ONE] and living.silent == {"slurm-7.0-1": "it is lost: connection refused."}
    times = []
    for tenth in range(1200):
        clock.advance_to(tenth / 10)
        before = len(phone.called)
        assert living.among([ONE, TWO]) == [ONE]
        if len(phone.called) > before:
            times.append(tenth / 10)
    assert "10.0.0.1:4000" not in phone.called[1:] and times == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
    phone.there.add("10.0.0.2:4000")
    clock.advance(30.0)
    assert living.among([ONE, TWO]) == [ONE, TWO] and living.silent == {}
    assert living.among([]) == []
    assert living.among([replace(ONE, started=300.0)]) == [replace(ONE, started=300.0)]  # another agent: called again
    assert phone.called[-1] == "10.0.0.1:4000"


def test_who_listens_for_another_machine_only_is_not_called() -> None:
    here = replace(ONE, address="127.0.0.1:4000", host=socket.gethostname())
    phone = Phone("127.0.0.1:4000")
    living = ReachableAgents(new_key(), VirtualClock(), phone)
    assert living.among([here]) == [here]
    assert living.among([replace(here, host="elsewhere")]) == []
    assert living.silent == {"slurm-7.0-0": "it listens on 127.0.0.1:4000 of elsewhere only; start it with --listen 0.0.0.0"}


def test_a_folder_without_a_key_or_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=r"The folder .* cannot be used: Key file .* does not exist"):
        FolderDiscovery(tmp_path, tmp_path / "key").find()
    create_key_file(tmp_path / "key")
    (tmp_path / "file").touch()
    broken = discovery_of(FolderDiscovery(tmp_path / "file"), tmp_path / "key")
    with pytest.raises(DiscoveryError, match=r"The folder .*/file cannot be used: .*Not a directory"):
        broken.find()
    assert FolderDiscovery(tmp_path / "later", tmp_path / "key").find() == []
