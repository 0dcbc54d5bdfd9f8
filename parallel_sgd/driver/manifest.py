"""Data with which a job is driven on agents, shared by its submitter and standby drivers. No user code is loaded here.

The *manifest* is the same for all attempts, the *attempt state* tells how far the job has come. Executors ask the driver for
*job resources*: settings, model, samples, checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from network.errors import ProtocolError
from network.nodes import Address, NodeAssignment
from network.wire import Kind, pack
from nn.dataset.interface import Arrays, leaves
from rpc import limits
from rpc.lease import Candidate
from rpc.shipping import Bundle
from rpc.submit import SHRINK, Recovery
from rpc.support.files import parsed, read_result
from rpc.support.logs import clean_text

from ..engine.channel import Parameter_Server
from ..engine.job_executor import CHECKPOINT, DATA, MISC, MODEL, SAMPLES, SETTING, TELLS, TRANSFER, options_of
from ..options.job_options import PlainOptions

Resources = Mapping[str, Any]
_MOST_IDENTITY: Final = 1000  # characters that a node may tell
STANDBY = "parallel_sgd.driver.standby"
"""Module of which an agent starts `main` when the driver is gone."""
_BUNDLES = ("workers", "server")
SERVER_TRANSFER = "server_transfer"
"""Request of the parameter server in place of TRANSFER."""


@dataclass(frozen=True)
class JobManifest:
    """All that a driver must know of a job to start each attempt, also a standby driver on another machine.

    Args:
        job: id of the job.
        policy: the reaction to failures, one of `rpc.submit.POLICIES`.
        min_workers: number of workers below which the job fails.
        is_elastic: whether discovery finds further hosts.
        holders: for each block the workers that have it.
        workers: bundle with the executor of a worker.
        server: bundle with the executor of the parameter server; None for a job without one.
        recipe: tells how to load the data set where it is at hand.
        resources: the job resources, by request.
    """

    job: str
    policy: str
    min_workers: int
    is_elastic: bool
    holders: Sequence[Sequence[int]]
    workers: Bundle
    server: Bundle | None
    recipe: bytes
    resources: Resources

    @cached_property
    def options(self) -> PlainOptions:
        return options_of(self.resources)

    def candidate(self, driver: str, sha256: str, term: int, since: tuple[int, int], is_standby: bool) -> Candidate:
        """Make the candidate that asks the nodes of the attempt `since` for the job; `sha256` is that of the manifest."""
        # under shrink nodes that failed are left out, so the election does not wait for them
        leaves_out = self.policy == SHRINK
        return Candidate(
            self.job, driver, sha256, term, since, is_standby=is_standby, is_elastic=self.is_elastic, leaves_out=leaves_out
        )

    def to_bytes(self) -> bytes:
        """Return the manifest as it travels.

        Raises: ValueError when it exceeds the size of a message.
        """
        # by name: bundles have fields that do not travel, such as classes
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in _BUNDLES:
            if (bundle := content[name]) is not None:
                content[name] = {"objects": bundle.objects, "code": bundle.code, "sources": bundle.sources}
        # plain integers, whichever numbers the assignment of a user has
        content["holders"] = [[int(node) for node in nodes] for nodes in self.holders]
        return b"".join(bytes(part) for part in pack(Kind.MESSAGE, (), content).buffers())

    @classmethod
    def read(cls, path: Path) -> JobManifest:
        """Read the manifest in a file that holds `to_bytes`.

        Raises: ProtocolError for a file that holds anything else, OSError.
        """
        try:
            content = dict(read_result(path, ()))
            # the reader looks at the form, the constructor at the names: a manifest lies on a disk
            bundles = {name: Bundle(classes=(), **content[name]) for name in _BUNDLES if content[name] is not None}
            return cls(**{**content, **bundles})
        except (TypeError, ValueError, KeyError) as error:
            raise ProtocolError(f"{path} holds no manifest of a job: {error}") from error


@dataclass(frozen=True)
class AttemptState:
    """State in which the newest attempt began, handed on to agents so that a standby driver can go on from it.

    Args:
        attempt: its number, from 0.
        nodes: its nodes, as texts.
        recovery: the memory of `Recovery`.
        kernels: the BLAS kernels that all attempts have.
    """

    attempt: int
    nodes: Mapping[str, str]
    recovery: Mapping[str, Any]
    kernels: str = ""

    @classmethod
    def of(cls, attempt: int, nodes: NodeAssignment, recovery: Recovery, kernels: str = "") -> AttemptState:
        return cls(attempt, {str(node): str(address) for node, address in nodes.items()}, recovery.state_dict(), kernels)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AttemptState:
        """Read a text that `to_json` made. Other nodes tell it, too, so every part is checked.

        Raises: ValueError, TypeError.
        """
        # a nested structure could exhaust the stack of a plain reader
        state = cls(**parsed(json.loads, text))
        # plain types exactly, before anything is computed with them
        right = type(state.attempt) is int and isinstance(state.nodes, dict) and isinstance(state.recovery, dict)
        if not right or not all(type(text) is str for text in (*state.nodes.values(), state.kernels)):
            raise ValueError("The state of an attempt must have a number, addresses by node, and what recovery remembers.")
        # addresses are parsed here, so that a wrong one is an error of the text and not of a later attempt
        state.assignment()
        try:
            # only to see that it can be read
            Recovery(SHRINK, 0).load_state_dict(state.recovery)
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"What recovery remembers is malformed: {error}.") from error
        return state

    def assignment(self) -> NodeAssignment:
        made = NodeAssignment()
        for node, address in self.nodes.items():
            made.add(int(node), Address.parse(address))
        return made


def package_bytes(resources: Resources) -> int:
    """Return the bytes of samples and model."""
    return int(resources[DATA]["bytes"]) + len(resources[MODEL])


def attempt_resources(
    resources: Resources,
    attempt: int,
    workers: int,
    bandwidth: float,
    samples: Callable[[], Arrays],
    told: Callable[[int, str], None] | None = None,
) -> Callable[[int, str], Any]:
    """Return a function of node and request that answers the requests of one attempt.

    Args:
        resources: those of all attempts.
        attempt: number of the attempt, from 0.
        workers: number of its workers.
        bandwidth: bytes per second, for the time that the server waits for its workers.
        samples: called for a node without samples.
        told: called with a node and the identity of its process, or None.
    """
    # the server starts before its workers, which may take all the time that they are given
    start_seconds = workers * package_bytes(resources) / bandwidth + limits.GROUP_SLACK_SECONDS + limits.START_SECONDS

    def answer(node: int, request: str) -> Any:
        if request.startswith(TELLS):
            if told is not None:
                # what a node tells goes into files and logs: no control characters, and not too long (SEC-17)
                told(node, clean_text(request.removeprefix(TELLS))[:_MOST_IDENTITY])
            return None
        if request == SETTING:
            return {**resources[SETTING], "attempt": attempt, "workers": workers}
        if request == MISC:
            return {**resources[MISC], "start_seconds": start_seconds}
        if request == SAMPLES:
            return leaves([np.asarray(array) for array in samples()])
        if request == CHECKPOINT:
            # one content for each owner: several workers may take the same
            sent = resources[CHECKPOINT]
            content = sent["contents"].get(sent["of"].get(node))
            tables = sent["tables"].get(node, [])
            return {"content": content, "whole": sent["whole"], "said": sent["said"], "tables": tables}
        # both ask for TRANSFER; the names of their codecs differ
        return resources[SERVER_TRANSFER if request == TRANSFER and node == Parameter_Server else request]

    return answer
