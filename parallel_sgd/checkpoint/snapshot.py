"""The state of one node between two batches, and its file.

The file is a tensor file (`nn.tensor_files`: safetensors-compatible, sealed by a SHA-256 over all its bytes). Tensors:
`value/<variable>`, `optimizer/<name>`, `codec/<variable id>.<name>`, `callback/<class>:<name>`, `client/<name>@<client>`, and
`history`, the batches behind the state, which are too many for metadata. Metadata: `format`, and `snapshot`, a JSON
object with the fields of `Header` and the numbers of the state. Nothing in it can run.

To add a field: one of `Header` with a default, which files before it have. `WorkerPlan.header` fills in the facts that a job
knows of its nodes, `Keeper` those that change between checkpoints. A file with a field that this release does not know is
refused by its name, so `FORMAT` stays; it changes with the meaning of existing fields, and then `FORMATS` keeps the formats
that can still be read.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, get_type_hints

import numpy as np

from network import VERSION
from nn.arrays import Array
from nn.tensor_files import ModelFileError, parse, seal
from nn.threads import describe_kernels
from parallel_sgd.engine.batches import FIXED
from parallel_sgd.engine.progress import History

from ..engine.progress import Part, Position, Progress

FORMAT: Final = "psgd.checkpoint/1"
FORMATS: Final = (FORMAT,)
"""All formats that can be read; FORMAT is the one that is written."""
_FAMILY: Final = "psgd.checkpoint/"
_SCALARS = (bool, int, float, str, type(None))

VALUE, OPTIMIZER, CODEC, CALLBACK = "value", "optimizer", "codec", "callback"
CLIENT, EARLIER = "client", "earlier"
_HISTORY: Final = "history"


class CheckpointError(ValueError):
    """Error of a checkpoint that is damaged, of another job or version, or does not fit the job.

    The message says which and why.
    """


class OtherJob(CheckpointError):
    """Error of a checkpoint that is whole, but of another job."""


def versions() -> dict[str, str]:
    """Return the versions on which the bits of a state depend, besides its job: {name: version}."""
    python = platform.python_version()
    # describe_kernels: other kernels add in another order, so the last bits of what follows differ
    return {"parallel_sgd": VERSION, "numpy": np.__version__, "python": python, "kernels": describe_kernels()}


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Describe the versions that decide on the last bits and are others now.

    Args:
        was: the versions of before, by name.
        now: those of now.
    """
    # only names that both have: a file of an earlier release may know fewer
    return [f"{name} {was[name]} (here {now[name]})" for name in now if name in was and was[name] != now[name]]


@dataclass(frozen=True, kw_only=True)
class Header:
    """Description of a state: its job, its node, and its position.

    A parameter server, which sees no data, leaves `batch_size`, `batches` and `samples` 0.

    Args:
        job: id of the job.
        attempt: of the job, from 0.
        node: id of the node of the state.
        title: of the job.
        seed: of the job's random numbers.
        progress: position of the state, and the history before it.
        personal: whether other workers have other states at that position, so that each needs its own to go on as if nothing
            had happened.
        blocks: the blocks of every worker.
        batch_size: samples in a batch of all workers; the last of an epoch may have fewer.
        batches: number of batches in an epoch.
        samples: number of all samples of an epoch.
        order: name of the order in which samples are dealt.
        optimizer: class name of the optimizer.
        rule: class name of the rule.
        versions: on which the bits depend; see `versions`.
        clients: identity of the population of clients; "" for a job without one.
        commit: whether it was left when training ended too early, and the schedule did not ask for it.
        parts: parts of the training behind the state, the fields of `Part` each; empty for a training without interruption,
            None in a checkpoint of a release that did not tell them.
    """

    job: str
    attempt: int
    node: int
    title: str
    seed: int
    progress: Progress
    personal: bool
    blocks: list[list[int]]
    batch_size: int = 0
    batches: int = 0
    samples: int = 0
    order: str = FIXED
    optimizer: str = ""
    rule: str = ""
    clients: str = ""
    versions: dict[str, str] = field(default_factory=versions)
    commit: bool = False
    parts: list[list[int]] | None = field(default_factory=list)

    @property
    def position(self) -> Position:
        return self.progress.position

    @property
    def workers(self) -> int:
        return len(self.blocks)

    @property
    def loss(self) -> float | None:
        """Loss of the evaluation at this position; None between two evaluations."""
        # between evaluations the entry is that of the epoch before
        return self.progress.evaluation.get("Loss") if self.position.batch == 0 else None


# read off the annotations, so that a new field is checked without another list
_PLAIN: Final = {name: kind for name, kind in get_type_hints(Header).items() if kind in (bool, int, str)}


@dataclass(frozen=True)
class Snapshot:
    """A state of one node between two batches.

    Args:
        header: description of the state.
        arrays: of the state, by `<part>/<name>`.
        numbers: of the state, by `<part>/<name>`.
    """

    header: Header
    arrays: Mapping[str, Array]
    numbers: Mapping[str, bool | int | float | str | None]

    def part(self, kind: str) -> dict[str, Any]:
        """Return the arrays and numbers of one part of the state, by name; `kind` is VALUE, OPTIMIZER or another part."""
        start = f"{kind}/"
        # names of arrays and of numbers are one name space: no part has both under one name
        both = {**self.arrays, **self.numbers}
        return {name[len(start) :]: value for name, value in both.items() if name.startswith(start)}

    def pieces(self) -> list[bytes | memoryview]:
        """Return the content of the file, one piece after the other.

        Raises: TypeError for an array of a type that cannot be stored, ValueError for a state of too many numbers.
        """
        progress, arrays = self.header.progress, dict(self.arrays)
        # the history is cut out first: `asdict` would copy every stretch into JSON
        header = asdict(replace(self.header, progress=replace(progress, history=History())))
        header["progress"][_HISTORY] = progress.history.attempts
        if progress.history.stretches:
            arrays[_HISTORY] = progress.history.to_array()
        fields = {"header": header, "numbers": dict(self.numbers)}
        return seal(arrays, {"format": FORMAT, "snapshot": json.dumps(fields, separators=(",", ":"))})

    @classmethod
    def read(cls, data: bytes | memoryview, job: str | None = None) -> Snapshot:
        """Read the snapshot in a file's content.

        Args:
            data: the content; the arrays of the snapshot are read-only views of it.
            job: id of the job of which it must be; None for any.

        Raises: CheckpointError naming the fault; OtherJob for a snapshot of another job.
        """
        try:
            # views: a checkpoint of gigabytes is not in memory twice
            arrays, metadata = parse(data)
        except ModelFileError as error:
            raise CheckpointError(str(error)) from error
        found = metadata.get("format", "")
        # the family tells a newer release from a file that is no checkpoint at all
        if found not in FORMATS:
            if found.startswith(_FAMILY):
                raise CheckpointError(f"its format is {found[:40]!r}, of another version than {FORMAT!r}")
            raise CheckpointError(f"it is no checkpoint: its format is {found[:40]!r}, not {FORMAT!r}")
        try:
            content = json.loads(metadata.get("snapshot", ""))
            header = _header(content["header"], arrays.pop(_HISTORY, None))
            numbers = _numbers(content["numbers"])
        # a file that parses may still hold anything: each of these errors is its author's, and becomes one kind
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"its description is malformed: {str(error)[:100]}") from error
        # after all else: a file that is whole but of another job is told apart (`OtherJob`), and need not alarm
        if job is not None and header.job != job:
            raise OtherJob(f"it is of job {header.job[:48]!r}, not of {job!r}")
        return cls(header, arrays, numbers)


def number_of(name: str, value: object) -> bool | int | float | str | None:
    """Return a number of a state in the form in which it can be stored.

    Raises: TypeError for anything else.
    """
    # NumPy's scalars are no JSON, and Python's have the same value
    if isinstance(value, np.generic):
        value = value.item()
    # `type`, not `isinstance`: a subclass of int or str could not be read back as itself
    if type(value) not in _SCALARS:
        raise TypeError(
            f"The state {name!r} must be an array, a number, a text or None to be saved, got {type(value).__name__}"
        )
    return value  # type: ignore[return-value]


def _header(fields: dict[str, Any], table: Array | None) -> Header:
    progress = fields.pop("progress")
    epoch, batch = progress.pop("position")
    evaluation = {str(name): float(value) for name, value in progress.pop("evaluation").items()}
    history = History() if table is None else History.of_array(progress.pop(_HISTORY), table)  # others have none
    header = Header(
        progress=Progress(Position(epoch, batch), progress.pop("steps"), float(progress.pop("seconds")), evaluation, history),
        **{"parts": None, **fields},
    )
    for name, kind in _PLAIN.items():
        # bool is a kind of int, so types are compared exactly
        if type(found := getattr(header, name)) is not kind:
            raise ValueError(f"'{name}' must be {kind.__name__}, got {found!r}")
    # negative counts would be used as indices and sizes later
    if not all(type(number) is int and number >= 0 for number in (epoch, batch, header.progress.steps)):
        raise ValueError("'position' and 'steps' must be counts")
    if not all(type(block) is int for blocks in header.blocks for block in blocks):
        raise ValueError("'blocks' must be lists of integers")
    if not all(len(part) == len(Part._fields) and all(type(number) is int for number in part) for part in header.parts or ()):
        raise ValueError(f"'parts' must be lists of {len(Part._fields)} integers")
    return header


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    return {str(name): number_of(name, value) for name, value in fields.items()}
