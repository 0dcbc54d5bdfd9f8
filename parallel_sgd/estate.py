"""What one needs to drive a job: the same for its submitter and for every heir, as data. Nobody's code is loaded here.

The *estate* is the same for all attempts, the *charter* says what has become of the job so far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from network.nodes import Address, NodeAssignment
from network.wire import Kind, pack
from rpc import shipping
from rpc.files import parsed, read_result
from rpc.recovery import Recovery
from rpc.shipping import Bundle
from rpc.submit.groups import pack_executable

from .answers import Replies, replies_of
from .executors import WorkerExecutor
from .server_executor import ServerExecutor
from .spec import JobSpec

HEIR = "parallel_sgd.heir"


@dataclass(frozen=True)
class Estate:
    """`holders` are the workers that have each block, `recipe` tells how to load the data set where it is at hand."""

    job: str
    title: str
    policy: str
    max_restarts: int
    min_workers: int
    is_elastic: bool
    bandwidth: float
    blas_threads: int
    stall: float
    holders: Sequence[Sequence[int]]
    workers: Bundle
    server: Bundle
    recipe: bytes
    replies: Replies

    @property
    def block_2_node(self) -> Sequence[Sequence[int]]:
        """The workers that hold each block, as in an assignment."""
        return self.holders

    def to_bytes(self) -> bytes:
        """The estate as it travels.

        Raises: ValueError when it exceeds what a message may hold.
        """
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["workers"], content["server"] = _of_bundle(self.workers), _of_bundle(self.server)
        content["holders"] = [[int(node) for node in nodes] for nodes in self.holders]
        return b"".join(bytes(part) for part in pack(Kind.MESSAGE, (), content).buffers)

    @classmethod
    def read(cls, path: Path) -> Estate:
        """The estate in a file that holds `to_bytes`.

        Raises: ProtocolError, OSError, TypeError.
        """
        content = dict(read_result(path, ()))
        bundles = {name: Bundle(part["objects"], part["code"], (), part["sources"]) for name, part in _bundles(content)}
        return cls(**{**content, **bundles})


def _bundles(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, content[name]) for name in ("workers", "server")]


def _of_bundle(bundle: Bundle) -> dict[str, Any]:
    return {"objects": bundle.objects, "code": bundle.code, "sources": bundle.sources}


def make_estate(spec: JobSpec, samples_size: int, job: str) -> Estate:
    """What the submitter of a job drives it with, and leaves to its heirs.

    Raises: TypeError for code that cannot travel, ValueError for too much of it.
    """
    objects = spec.shipped()
    return Estate(
        job,
        spec.title,
        spec.on_failure,
        spec.max_restarts,
        spec.min_workers,
        spec.discovery is not None,
        spec.bandwidth,
        spec.blas_threads,
        spec.stall_timeout,
        spec.plan.assignment.block_2_node,
        pack_executable(WorkerExecutor, objects),
        pack_executable(ServerExecutor, objects),
        shipping.pack({"dataset": objects["dataset"]}).objects,
        replies_of(spec, samples_size),
    )


@dataclass(frozen=True)
class Charter:
    """The newest attempt, its nodes as texts, and what `Recovery` remembers."""

    attempt: int
    nodes: Mapping[str, str]
    recovery: Mapping[str, Any]

    @classmethod
    def of(cls, attempt: int, nodes: NodeAssignment, recovery: Recovery) -> Charter:
        """The charter of an attempt that has started."""
        return cls(attempt, {str(node): str(address) for node, address in nodes.items()}, recovery.state_dict())

    def to_json(self) -> str:
        """As a text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Charter:
        """What `to_json` made.

        Raises: ValueError, TypeError.
        """
        return cls(**parsed(json.loads, text))

    def assignment(self) -> NodeAssignment:
        """The nodes and where they are."""
        made = NodeAssignment()
        for node, address in self.nodes.items():
            made.add(int(node), Address.parse(address))
        return made
