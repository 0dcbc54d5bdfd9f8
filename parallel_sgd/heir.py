"""Takes over a job whose driver is gone: a process that an agent starts (`rpc.agent.heir`). It loads no code of the user."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from network.errors import NetworkError
from network.keyring import KEY_SIZE, Key
from network.nodes import PARAMETER_SERVER, NodeAssignment
from network.request import Request
from nn.data.store import load_arrays
from nn.dataset import checksum_of
from nn.dataset.interface import AbsDataset
from rpc import shipping
from rpc.agent.heir import CHARTER, ESTATE
from rpc.agent.succession import LONGEST_PAUSE_SECONDS, PLACE_SECONDS
from rpc.files import parsed, read_regular
from rpc.logs import CleanFormatter, get_logger
from rpc.messages import Conclude
from rpc.recovery import SHRINK, Recovery
from rpc.succession.takeover import Claim, Decision, claim
from rpc.succession.will import new_driver

from .attempts import Attempts, Running
from .errors import JobFailed
from .estate import Charter, Estate
from .job_executor import DATA
from .membership import Membership, SameNodes, Survivors
from .training import Samples

ORPHANED = 70  # exit code of an heir whose agent is gone
PAUSE_SECONDS = 1.0
_log = get_logger("Drive")


class Heir:
    """Claims the job until it drives or somebody else does; `node` is the one of this agent, `cache` has its data sets."""

    def __init__(self, folder: Path, cache: Path, key: Key) -> None:
        order: dict[str, Any] = parsed(json.loads, read_regular(folder / CHARTER))
        self.node, self._place, self._sha256 = int(order["node"]), int(order["place"]), str(order["sha256"])
        self._charter = Charter.from_json(order["charter"])
        self._estate = Estate.read(folder / ESTATE)
        self._folder, self._cache = folder, cache
        self._request = Request(key=key)
        self._driver = new_driver(f"Node({self.node})")
        self._said = ""

    def run(self) -> None:
        """Drive the job to its end.

        Raises: JobFailed, NetworkError.
        """
        nodes = self._charter.assignment()
        found = self._claim(nodes)
        if found is None:
            return
        try:
            self._drive(found, nodes)
        finally:
            found.com.close()

    def _claim(self, nodes: NodeAssignment) -> Claim | None:
        """The nodes that have granted the job; None when it needs no driver."""
        pause = PAUSE_SECONDS
        while True:
            found = claim(self._request, nodes, self._estate.job, self._driver, self._sha256, _log)
            decision = found.decide(self._charter.attempt)
            if decision is Decision.DRIVE:
                return found
            reasons = [*(f"Node({n}): {d.reason}" for n, d in found.denied.items()), *found.missing.values()]
            self._say(f"{decision.value}. {' '.join(reasons)}".strip())
            if decision is Decision.OVER:
                self._spread(found)
            found.com.close()
            if decision is not Decision.PAUSE:
                return None
            time.sleep(pause + self._place * PLACE_SECONDS)  # by place, so that two heirs do not split the nodes again
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _say(self, text: str) -> None:
        if text != self._said:
            _log.info("Job %s is not driven from here: %s", self._estate.job, text)
        self._said = text

    def _spread(self, found: Claim) -> None:
        """Those who do not know yet that the job is over hear of it."""
        outcome = next(answer.outcome for answer in found.denied.values() if answer.outcome)
        for node in found.granted:
            found.com.post(node, Conclude(self._estate.job, node, outcome, "", "").to_value())

    def _drive(self, found: Claim, nodes: NodeAssignment) -> None:
        charter, estate = self._charter, self._estate
        _log.warning("Job %s: Node(%s) drives it from now on, attempt %s.", estate.job, self.node, charter.attempt + 1)
        missing = {**found.missing, **{node: answer.reason for node, answer in found.denied.items()}}
        for node in missing:
            if node in found.com.sessions:
                found.com.sessions[node].close()
        recovery = Recovery(estate.policy, estate.max_restarts)
        recovery.load_state_dict(charter.recovery)
        attempts = Attempts(
            estate,
            self._membership(nodes),
            recovery,
            self._request,
            self._load_samples,
            None,
            driver=self._driver,
            attempt=1 + max([charter.attempt, *(answer.attempt for answer in found.granted.values())]),
        )
        coordinator = attempts.adopted(found.com, charter.attempt)
        groups = [[PARAMETER_SERVER]] if nodes.has_parameter_server else []
        coordinator.adopt([*groups, nodes.worker_ids], found.granted, missing, found.early)
        attempts.drive(Running(found.com, coordinator, nodes))
        _log.info("Job %s has ended well.", estate.job)

    def _membership(self, nodes: NodeAssignment) -> Membership:
        if self._estate.is_elastic:
            _log.warning("The discovery of hosts has ended with the submitter: nobody joins from here on.")
        return Survivors(nodes, self._estate.min_workers) if self._estate.policy == SHRINK else SameNodes(nodes)

    def _load_samples(self) -> Samples:
        """The data set, for a node that lacks it: from this agent's cache, or from where it usually lies.

        Raises: NetworkError when it is not here either.
        """
        package = self._estate.replies[DATA]
        arrays = load_arrays(self._cache, package["checksum"])
        if arrays is None:
            recipe = shipping.load(self._estate.recipe, b"", shipping.NO_CODE)[0]["dataset"]
            if recipe is not None and issubclass(recipe[0], AbsDataset):
                loaded = recipe[0](**recipe[1]).load(download=False)
                arrays = loaded if checksum_of(loaded) == package["checksum"] else None
        if arrays is None:
            raise NetworkError(f"The data set {package['name']} is not on node {self.node}, so it cannot be sent to others.")
        return arrays


def main() -> None:
    """Entry point of the interpreter that the agent starts: folder of the job and cache as arguments, the key on stdin."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    secret = os.read(0, KEY_SIZE)
    threading.Thread(target=_end_with_agent, name="agent", daemon=True).start()
    heir = Heir(Path(sys.argv[1]), Path(sys.argv[2]), Key(secret))
    try:
        heir.run()
    except (JobFailed, NetworkError) as error:
        _log.error("%s", error)  # the agents know it, too


def _end_with_agent() -> None:
    while os.read(0, KEY_SIZE):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
