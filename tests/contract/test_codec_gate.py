"""SEC-24: whatever array a node sends in place of its own, it is refused with its name, or it changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from network.errors import BadContent
from parallel_sgd import Parameter_Server
from parallel_sgd.codec import LAQ, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.testing.array_job import ArrayJob

from .test_codecs import ROWS, bits, job_of

Array = np.ndarray[Any, Any]
ALTERED: dict[str, Callable[[Array], Any]] = {
    "0-d": lambda a: np.ones((), a.dtype),
    "empty": lambda a: a.reshape(-1)[:0],
    "(0, 5)": lambda a: np.ones((0, 5), a.dtype),
    "one number": lambda a: np.ones(1 if a.shape != (1,) else 2, a.dtype),
    "one more": lambda a: np.ones(a.size + 1, a.dtype),
    "another shape": lambda a: a.reshape(*a.shape, 1),
    "turned": lambda a: np.ones((2, *a.shape), a.dtype),
    "float64": lambda a: np.asarray(a, np.float64) if a.dtype != np.float64 else np.asarray(a, np.float32),
    "float16": lambda a: np.asarray(a, np.float16),
    "integers": lambda a: np.ones(a.shape, np.int8),
    "complex": lambda a: np.asarray(a, np.complex64),
    "an integer": lambda a: 5,
    "a number": lambda a: 2.5,
    "a NumPy number": lambda a: a.dtype.type(1),
    "nothing": lambda a: None,
    "a list": lambda a: [1.0],
    "big-endian": lambda a: np.ones(a.shape, ">u8"),
}

# what returns packets; the last ones are those of codecs that have taken them on
SENDING = ("update_blocks", "receive_blocks", "do_something_to_save_yourself", "receive_late", "answer")


class Hostile:
    """Alters the arrays in what one node sends from its second batch on, in slot `slot` of each packet that has so many."""

    def __init__(self, node: int, slot: int, alter: Callable[[Array], Any]) -> None:
        self.node, self.slot, self._alter = node, slot, alter
        self.altered = 0

    def packets(self, packets: Any, node: int) -> Any:
        if packets is None or node != self.node or GlobalSettings.current().step < (0, 1):
            return packets
        found = [packets] if isinstance(packets, netEncapsulation) else packets
        return [netEncapsulation(p.targets, self._content(p.content, iter(range(99)))) for p in found]

    def _content(self, content: Any, slots: Iterator[int]) -> Any:
        if isinstance(content, np.ndarray):
            if next(slots) != self.slot:
                return content
            self.altered += 1
            return self._alter(content)
        if isinstance(content, (tuple, list)):
            return type(content)([self._content(part, slots) for part in content])
        return content

    def of(self, kind: type[Codec]) -> type[Codec]:
        """The codec of a node that sends such things."""
        hostile = self

        def altered(name: str) -> Callable[..., Any]:
            theirs = getattr(kind, name)
            return lambda codec, *given: hostile.packets(theirs(codec, *given), codec.node_id)

        has = {name for base in kind.__mro__ for name in vars(base)}  # `hasattr` knows the names of before, too
        return type(kind.__name__, (kind,), {name: altered(name) for name in SENDING if name in has})


def job_with(kind: type[Codec], hostile: Hostile) -> ArrayJob:
    row = ROWS[kind]
    own, server = (hostile.of(kind), kind) if hostile.node >= 0 else (kind, hostile.of(kind))
    settings = {"parameters": row.parameters, "sync_type": row.sync_type, "batches": 2}
    return ArrayJob(assignment_of(kind), codec=own, server=server if row.server else None, **settings)  # type: ignore[arg-type]


def assignment_of(kind: type[Codec]) -> Any:
    return next(assignment for assignment in ROWS[kind].assignments if assignment.node_count > 1)


@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if kind.__name__ != "DummyCodec"])
@pytest.mark.share(12)
def test_no_altered_array_is_merged_in_silence(kind: type[Codec]) -> None:
    """Every slot of arrays, sent by a worker and by the server, with another shape or type: half of these by each of two."""
    honest = bits(job_of(kind, assignment_of(kind), batches=2))
    refused = tried = 0
    for node in (0, 1, Parameter_Server) if ROWS[kind].server else (0, 1):
        for slot in (0, 1):
            for name in list(ALTERED)[max(node, 0) :: 1 if node < 0 else 2]:
                if kind is LAQ and name == "nothing":
                    continue  # so a worker says that it has nothing new
                hostile = Hostile(node, slot, ALTERED[name])
                job = job_with(kind, hostile)
                try:
                    job.run()
                except BadContent as error:
                    assert error.node_id == node, (name, str(error))
                    assert re.match(rf"{kind.__name__}, variables? \d.*, epoch 1, batch \d$", error.what)
                    refused += 1
                else:
                    assert bits(job) == honest, f"{name} of node {node} was merged"
                tried += bool(hostile.altered)
                if not hostile.altered:
                    break  # there is no such slot
    assert refused >= tried * 0.8 > 5
