"""Standby driver: it takes over a job that has lost its driver. An agent starts this process; it loads no user code."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from network.errors import NetworkError, ProtocolError
from network.keys import KEY_SIZE, Key
from network.nodes import PARAMETER_SERVER, NodeAssignment
from network.request import Request
from nn.dataset.interface import Arrays
from rpc import limits, shipping
from rpc.agent import ATTEMPT_STATE, MANIFEST
from rpc.lease import OVER, Candidacy, Decision, Newer, later_term, new_driver
from rpc.messages import NO_CODE
from rpc.submit import SHRINK, Recovery
from rpc.support.console import open_descriptors
from rpc.support.files import parsed, read_regular
from rpc.support.logs import CleanFormatter, get_logger

from ..engine.job_executor import DATA, samples_at_hand
from ..errors import JobFailed
from .manifest import AttemptState, JobManifest
from .membership import Membership, SameNodes, Survivors
from .restart_loop import Begin, RestartLoop, RunningAttempt

ORPHANED = 70  # exit code of a standby driver without its agent
_log = get_logger("Drive")


class StandbyDriver:
    """Driver that claims the job until it drives or another one does; `node` is the one of this agent.

    Args:
        folder: folder of the job.
        cache: folder with the data sets of the agent.
        request: opens connections, by the key that the agent has told.
    """

    def __init__(self, folder: Path, cache: Path, request: Request) -> None:
        # written by the agent for this process: a regular file, no link
        order: dict[str, Any] = parsed(json.loads, read_regular(folder / ATTEMPT_STATE))
        self.node, self._place, self._sha256 = int(order["node"]), int(order["place"]), str(order["sha256"])
        self._state = AttemptState.from_json(order["attempt_state"])
        self._address = self._state.assignment()[self.node]
        self._manifest = JobManifest.read(folder / MANIFEST)
        self._folder, self._cache = folder, cache
        self._request = request
        self._driver = new_driver(f"Node({self.node})")
        self._since = int(order["term"]), self._state.attempt
        # above all terms that were agreed to, and different from that of any other driver
        self._term = later_term(self._since[0], self._driver)
        self._said = ""

    def run(self) -> None:
        """Drive the job to its end.

        Raises: JobFailed, NetworkError.
        """
        begin, pause = time.monotonic(), limits.PAUSE_SECONDS
        while True:
            # a newer attempt than the one that we know is a reason to ask again, the same one is not
            before = self._state.attempt
            with contextlib.closing(self._candidacy()) as candidacy:
                decision = self._claim(candidacy)
                if decision is Decision.DRIVE:
                    return self._drive(candidacy)
                # too few nodes for too long: a partition that does not heal
                if decision is Decision.PAUSE and time.monotonic() - begin > limits.WAIT_SECONDS:
                    reason = f"It could not go on within {limits.WAIT_SECONDS:g} s. {candidacy.reasons}"
                    _log.error("Giving up: %s", reason)
                    candidacy.conclude(candidacy.election.granted, "left", reason)
                    return None
            if decision is Decision.NEWER and self._state.attempt != before:
                continue
            if decision is not Decision.PAUSE:
                return None
            # by place, so that two standby drivers do not split the nodes again
            time.sleep(pause + self._place * limits.PLACE_SECONDS)
            pause = min(pause * 1.5, limits.LONGEST_PAUSE_SECONDS)

    def _candidacy(self) -> Candidacy:
        """Make a candidacy for the job as it stands by our state of the attempt."""
        candidate = self._manifest.candidate(self._driver, self._sha256, self._term, self._since, is_standby=True)
        return Candidacy(self._request, self._state.assignment(), candidate, _log)

    def _claim(self, candidacy: Candidacy) -> Decision:
        """Claim the job in one round. Where the job has gone on, or was about to, ours is the newer state afterwards."""
        decision, election = candidacy.ask(), candidacy.election
        self._term = election.term
        if election.newer is not None and decision is Decision.NEWER:
            return self._follow(candidacy, election.newer)
        if decision is Decision.OVER:
            # outcomes of nodes that know the end; the first one will do
            outcome = next(answer.outcome for answer in election.denied.values() if answer.outcome in OVER)
            candidacy.conclude(election.granted, outcome, "")  # agents that do not know yet that the job is over hear of it
        # each decision but to drive is told, once for the same words
        if decision is not Decision.DRIVE:
            self._say(f"{decision.value}. {candidacy.reasons}".strip())
        return decision

    def _follow(self, candidacy: Candidacy, newer: Newer) -> Decision:
        """Go on from a newer attempt, if it has a place for us."""
        try:
            state = AttemptState.from_json(newer.attempt_state)
            # by address: in the newer attempt this node may have another number, or none
            places = [node for node, address in state.assignment().items() if address == self._address]
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"A node has a state of the attempt that cannot be read: {error}") from error
        if not places:
            self._say(f"attempt {state.attempt + 1} goes on without this node")
            candidacy.conclude([self.node], "left", f"Attempt {state.attempt + 1} goes on.")
            return Decision.YIELD
        self._state, self._since, self.node = state, (newer.agreed, state.attempt), places[0]
        return Decision.NEWER

    def _say(self, text: str) -> None:
        # standby drivers ask again and again: the same words would fill the log
        if text != self._said:
            _log.info("Job %s is not driven from here: %s", self._manifest.job, text)
        self._said = text

    def _drive(self, candidacy: Candidacy) -> None:
        state, manifest, granted = self._state, self._manifest, candidacy.election.granted
        nodes, missing = state.assignment(), candidacy.missing
        _log.warning("Job %s: Node(%s) drives it from now on, attempt %s.", manifest.job, self.node, state.attempt + 1)
        recovery = Recovery(manifest.policy, manifest.options.max_restarts)
        recovery.load_state_dict(state.recovery)
        # above every attempt that any node knows (FD-14)
        attempt = 1 + max([state.attempt, *(answer.attempt for answer in granted.values())])
        loop = RestartLoop(
            manifest,
            self._membership(nodes),
            recovery,
            self._request,
            self._load_samples,
            # no folder: files stay with their nodes until they are fetched
            None,
            driver=self._driver,
            begin=Begin(attempt, candidacy.election.term, state.kernels),
        )
        with candidacy.take_connections() as com:
            coordinator = loop.coordinator(com, state.attempt, nodes)
            groups = [[PARAMETER_SERVER]] if nodes.has_parameter_server else []
            coordinator.adopt([*groups, nodes.worker_ids], granted, missing, candidacy.early)
            # started by another driver, so its nodes are asked as a standby driver asks
            loop.drive(RunningAttempt(com, coordinator, nodes, self._since[0], is_ours=False))
        _log.info("Job %s has ended well.", manifest.job)

    def _membership(self, nodes: NodeAssignment) -> Membership:
        if self._manifest.is_elastic:
            _log.warning("The discovery of hosts has ended with the submitter: nobody joins from here on.")
        return Survivors(nodes, self._manifest.min_workers) if self._manifest.policy == SHRINK else SameNodes(nodes)

    def _load_samples(self) -> Arrays:
        """Load the data set, for a node that lacks it: from this agent's cache, or from where it usually lies.

        Raises: NetworkError when it is not here either.
        """
        package = self._manifest.resources[DATA]
        # no code: a recipe of a user's own class is refused, built-in data sets are found by name
        recipe = shipping.load(self._manifest.recipe, b"", NO_CODE)[0]["dataset"]
        arrays = samples_at_hand(self._cache, package["checksum"], recipe)
        if arrays is None:
            raise NetworkError(f"The data set {package['name']} is not on node {self.node}, so it cannot be sent to others.")
        return arrays


def main() -> None:
    """Run the interpreter that the agent starts: folder of the job and cache as arguments, the key on stdin."""
    open_descriptors()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # the key comes by stdin, so that it is in no argument and no environment (SEC-16)
    secret = os.read(0, KEY_SIZE)
    # the agent holds the other end of stdin: when it is gone, so is this process
    request = Request(key=Key(secret))
    threading.Thread(target=_heed_agent, args=(request,), name="agent", daemon=True).start()
    driver = StandbyDriver(Path(sys.argv[1]), Path(sys.argv[2]), request)
    try:
        driver.run()
    except (JobFailed, NetworkError) as error:
        _log.error("%s", error)  # the agents know it, too


def _heed_agent(request: Request) -> None:
    """Take each key that the agent sends in place of the one before, and end with the agent.

    Args:
        request: opens the connections of the driver.
    """
    while secret := os.read(0, KEY_SIZE):
        # the agent sends a key in one piece
        if len(secret) == KEY_SIZE:
            request.key = Key(secret)
    # at once, without cleaning up: the agent's end must end this driver, whatever it does just now
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
