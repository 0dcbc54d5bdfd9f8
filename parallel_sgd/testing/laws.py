"""Laws that hold for every codec, tried on one codec in memory, in seconds: for authors of codecs.

>>> from parallel_sgd.codec import Plain
>>> from parallel_sgd.testing import check_codec
>>> print(check_codec(Plain).summary())     # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from parallel_sgd.batch_sync import AsynchronizedSGD, SynchronizedSGD
from parallel_sgd.codec import BlockWeight, Codec, GlobalSettings, netEncapsulation
from parallel_sgd.codec.bank import made
from parallel_sgd.codec.parameters import check_parameters
from parallel_sgd.engine.accounts import SENT
from parallel_sgd.engine.channel import Key
from parallel_sgd.profiles import DuplicateAssignment, IIDBlockAssignment, ISetting
from parallel_sgd.simulation.immediate import Link, reliable
from rpc.user_code import note, raised_by

from .array_job import Array, ArrayJob, Shapes, expected, gradient, start

SHAPES: Final[Shapes] = ((20, 13), (13,), (1,))
WORKERS: Final = 3


class CodecLawError(AssertionError):
    """A codec breaks a law; the message says which one, with which assignment, and how."""


@dataclass(frozen=True)
class CodecReport:
    """Report of `check_codec`: the laws that hold, the laws that do not apply and why, and the codec's costs and losses.

    Args:
        codec: name of the class.
        held: the laws that hold.
        skipped: {law: the reason why it does not apply}.
        wire_bytes: bytes per worker and batch, as they travel.
        dense_bytes: the same for Plain's dense exchange.
        error: ||result - exact mean|| / ||exact mean||, of the first batch.
    """

    codec: str
    held: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    wire_bytes: float = 0.0
    dense_bytes: float = 0.0
    error: float = 0.0

    def summary(self) -> str:
        """Return the report as lines for people."""
        lines = [f"{self.codec}: {len(self.held)} laws hold"]
        lines += [f"  holds     {law}" for law in self.held]
        lines += [f"  not tried {law}: {reason}" for law, reason in self.skipped.items()]
        lines.append(
            f"  sends {self.wire_bytes:,.0f} bytes per worker and batch; dense arrays to everybody {self.dense_bytes:,.0f}"
        )
        lines.append(f"  differs from the exact mean by {self.error:.2e} of its length")
        return "\n".join(lines)


def check_codec(
    codec: type[Codec],
    *,
    server: type[Codec] | None = None,
    parameters: Mapping[Hashable, Any] | None = None,
    assignments: Sequence[ISetting] | None = None,
    replicas_agree: bool = True,
) -> CodecReport:
    """Run the laws on a codec class, and return the report.

    A codec that is `asynchronous` is tried under AsynchronizedSGD.

    Args:
        codec: the class.
        server: the codec of the parameter server, by default the same class where it needs one.
        parameters: `codec_extra_parameters`.
        assignments: the jobs on which each law is tried; default: three workers and one worker, with a block each, and for
            codecs that take the first copy of a block four workers in pairs with the same block.
        replicas_agree: False, or `agrees = False` in the class, is for codecs that leave workers with different values, as
            gossip does.

    Raises: CodecLawError for the first law that is broken; ValueError for a parameter that no codec reads; TypeError for an
        argument that is no class of codecs; any error that the codec raises.
    """
    for name, kind in (("codec", codec), ("server", Codec if server is None else server)):
        if not isinstance(kind, type) or not issubclass(kind, Codec):
            raise TypeError(f"check_codec '{name}' must be a class derived from Codec, got {kind!r}")
    # as a job does, so that a misspelt one is not taken for one that has no effect
    check_parameters(parameters or {}, [codec, *([server] if server else [])])
    trial = _Trial(
        codec,
        server or (codec if codec.traits.needs_server else None),
        dict(parameters or {}),
        replicas_agree and codec.traits.agrees,
    )
    usual: tuple[ISetting, ...] = (IIDBlockAssignment(WORKERS), IIDBlockAssignment(1))
    if codec.traits.takes_first_copy:
        usual += (DuplicateAssignment(4, 2),)
    chosen = usual if assignments is None else assignments
    report = CodecReport(codec.__name__)
    for law, holds in _LAWS.items():
        reasons = [reason for reason in (_tried(holds, trial, assignment) for assignment in chosen) if reason]
        if len(reasons) == len(chosen):
            report.skipped[law] = reasons[0]
        else:
            report.held.append(law)
    wire, dense, error = trial.costs(chosen[0])
    return CodecReport(report.codec, report.held, report.skipped, wire, dense, error)


@dataclass
class _Trial:
    """One codec on jobs of arrays."""

    codec: type[Codec]
    server: type[Codec] | None
    parameters: dict[Hashable, Any]
    replicas_agree: bool

    def run(self, assignment: ISetting, link: Link = reliable, *, tail: bool = False) -> ArrayJob:
        """Run three batches of three variables; with `tail` the second one is a single sample, which the last block has."""
        last = assignment.block_count - 1

        def of_tail(batch: int, block: int, variable: int, shapes: Shapes) -> Array:
            # the mean over blocks stays what it would be: the one sample counts for all of them
            return gradient(batch, block, variable, shapes) * np.float32(1 if batch != 1 else (last + 1) * (block == last))

        return ArrayJob(
            assignment,
            shapes=SHAPES,
            codec=self.codec,
            server=self.server,
            parameters=self.parameters,
            sync_type=AsynchronizedSGD if self.codec.traits.asynchronous else SynchronizedSGD,
            link=link,
            content=of_tail if tail else gradient,
        ).run()

    def fail(self, law: str, assignment: ISetting, how: str) -> CodecLawError:
        """Return the error that tells how a law is broken, and with which assignment."""
        workers = f"{_workers(assignment)}, {type(assignment).__name__}"
        return CodecLawError(f"{self.codec.__name__} on {workers}: {law} {how}")

    def costs(self, assignment: ISetting) -> tuple[float, float, float]:
        """Return bytes per worker and batch, those of a dense exchange, and the relative error of the first batch."""
        job = self.run(assignment)
        sent = sum(job.exchanges[node].accounts.total(SENT).wire for node in assignment.nodes)
        workers = assignment.node_count
        values = sum(int(np.prod(shape)) for shape in SHAPES)
        exact = np.concatenate([value.ravel() for value in expected(0, assignment.block_count, SHAPES)])
        found = np.concatenate([value.ravel() for value in job.results[assignment.nodes[0]][0]])
        error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
        return sent / workers / job.batches, 4.0 * values * (workers - 1), error


Law = Callable[[_Trial, ISetting], str]


def _workers(assignment: ISetting) -> str:
    """Return the number of workers of an assignment in words."""
    return f"{assignment.node_count} worker{'s' * (assignment.node_count != 1)}"


def _tried(holds: Law, trial: _Trial, assignment: ISetting) -> str:
    """Return why a law was skipped, "" where it holds. Raises: CodecLawError; an error of the codec, with a note."""
    try:
        return holds(trial, assignment)
    except CodecLawError:
        raise
    except Exception as error:
        # with the author's line: the error is of the codec and not of the laws
        note(error)
        told = f"It was tried on {_workers(assignment)}, {type(assignment).__name__}; 'assignments' names others."
        vars(error).setdefault("__notes__", []).append(told)  # `add_note` is new in Python 3.11
        raise


def _gives_results(trial: _Trial, assignment: ISetting) -> str:
    """Try that every batch ends with results that are finite; the exchange itself sees to the right shapes."""
    try:
        job = trial.run(assignment)
    except FloatingPointError as error:
        if raised_by(error):
            raise
        raise trial.fail("results must be finite", assignment, f"but are not: {error}") from error
    for node, batches in job.results.items():
        for number, batch in enumerate(batches, start=1):
            for variable, value in enumerate(batch):
                where = f"batch {number}, variable {variable} of node {node}"
                if not np.isfinite(value).all():
                    raise trial.fail("results must be finite", assignment, f"but are not at {where}")
    return ""


def _takes_zeros(trial: _Trial, assignment: ISetting) -> str:
    """Try that a batch of fewer samples than blocks, of which some give zeros, is a batch like any other."""
    law = "blocks without samples, which give zeros, must do no harm,"
    try:
        job = trial.run(assignment, tail=True)
    except FloatingPointError as error:  # what the engine says of a result that is not finite
        if raised_by(error):
            raise
        raise trial.fail(law, assignment, f"but: {error}") from error
    if not all(np.isfinite(value).all() for batches in job.results.values() for batch in batches for value in batch):
        raise trial.fail(law, assignment, "but the results are not finite")
    found = _bits(job)
    if trial.replicas_agree and any(bits != found[assignment.nodes[0]] for bits in found.values()):
        raise trial.fail(law, assignment, "but workers get different results")
    return ""


def _leaves_input(trial: _Trial, assignment: ISetting) -> str:
    """Try that the arrays that a codec is given stay as they are."""
    try:
        _changed(trial, assignment, writeable=False)
    # tried again with an array that may be changed: the codec may have refused for a reason of its own
    except ValueError as error:  # NumPy's for a write into what is read-only, or one of the codec's own
        try:
            block = _changed(trial, assignment, writeable=True)
        except ValueError:
            raise error from None
        if block is None:
            raise
        raise trial.fail("content must not be changed,", assignment, f"but block {block} was: {error}") from error
    return ""


def _changed(trial: _Trial, assignment: ISetting, *, writeable: bool) -> int | None:
    """Give a new codec all blocks of the first worker; return the first block that it has changed, None for none."""
    changed = None
    # of the scope "model" a codec has all variables as one vector
    variables = range(len(SHAPES)) if trial.codec.traits.scope == "model" else range(1)

    def of(array: Callable[[int], Array]) -> Array:
        return array(0) if len(variables) == 1 else np.concatenate([array(variable).reshape(-1) for variable in variables])

    with GlobalSettings.use(assignment, trial.parameters, values=[of(lambda variable: start(variable, SHAPES))]):
        codec = made(trial.codec, 0)
        for block in assignment.node_2_block[0]:
            content = of(partial(_block, block))
            before = content.copy()
            content.flags.writeable = writeable
            packets = codec.update_blocks(BlockWeight(content, block))
            # a generator runs when it is read
            if packets is not None and not isinstance(packets, netEncapsulation):
                list(packets)
            if changed is None and content.tobytes() != before.tobytes():
                changed = block
    return changed


def _block(block: int, variable: int) -> Array:
    return gradient(0, block, variable, SHAPES)


def _repeats(trial: _Trial, assignment: ISetting) -> str:
    """Try that the same job gives the same bits."""
    if _bits(trial.run(assignment)) != _bits(trial.run(assignment)):
        raise trial.fail("a repeated job must give the same bits", assignment, "but they differ")
    return ""


def _agrees(trial: _Trial, assignment: ISetting) -> str:
    """Try that all workers have the same result after every batch."""
    if not trial.replicas_agree or assignment.node_count == 1:
        return "workers may differ" if not trial.replicas_agree else "there is one worker"
    found = _bits(trial.run(assignment))
    odd = [node for node in assignment.nodes if found[node] != found[assignment.nodes[0]]]
    if odd:
        raise trial.fail("all workers must have the same results", assignment, f"but node(s) {odd} have others than node 0")
    return ""


def _any_order(trial: _Trial, assignment: ISetting) -> str:
    """Try that the order in which packets arrive changes nothing."""
    if trial.codec.traits.asynchronous:
        return "packets count when they come"
    # seeded: a law that fails must fail again
    rng = np.random.default_rng(1)
    return _same(trial, assignment, lambda *_: (float(rng.random()),), "packets that arrive in another order")


def _duplicates(trial: _Trial, assignment: ISetting) -> str:
    """Try that a packet that arrives twice changes nothing."""
    if not _sends_again(trial.codec):
        return "each packet is sent once: it has no do_something_to_save_yourself(), and no worker repeats a block"
    return _same(trial, assignment, lambda *_: (0.0, 0.0), "packets that arrive twice")


def _rescue(trial: _Trial, assignment: ISetting) -> str:
    """Try that the rescue makes up for packets of one node that are lost once."""
    if trial.codec.traits.asynchronous:
        return "nobody waits for a packet"
    if not _sends_again(trial.codec):
        return "it has no do_something_to_save_yourself(), which would send it again"
    seen: set[tuple[int, int, Key]] = set()

    def lose_once(sender: int, receiver: int, key: Key) -> Sequence[float]:
        # lost once: the second copy of a packet arrives
        again = (sender, receiver, key) in seen
        seen.add((sender, receiver, key))
        return (0.0,) if again or key[2] != 1 or sender != 0 else ()

    try:
        return _same(trial, assignment, lose_once, "packets that were lost and rescued")
    except TimeoutError as error:
        if raised_by(error):
            raise
        return f"tried, and do_something_to_save_yourself() does not make up for it ({error})"


def _sends_again(codec: type[Codec]) -> bool:
    """Tell if a block may come twice: an overdue worker sends again, or several workers hold the block."""
    rescues = codec.do_something_to_save_yourself is not Codec.do_something_to_save_yourself
    return rescues or codec.traits.takes_first_copy


_LAWS: Final[Mapping[str, Law]] = {
    "input is never changed": _leaves_input,
    "every batch gives finite results": _gives_results,
    "the same job gives the same bits": _repeats,
    "all workers agree": _agrees,
    "blocks without samples do no harm": _takes_zeros,
    "the order of arrival changes nothing": _any_order,
    "a packet that comes twice changes nothing": _duplicates,
    "a lost packet is made up for": _rescue,
}


def _same(trial: _Trial, assignment: ISetting, link: Link, what: str) -> str:
    if assignment.node_count == 1 and trial.server is None:
        return "there is one worker"
    if _bits(trial.run(assignment, link)) != _bits(trial.run(assignment)):
        raise trial.fail(what, assignment, "change the results")
    return ""


def _bits(job: ArrayJob) -> dict[int, list[bytes]]:
    return {node: [value.tobytes() for batch in batches for value in batch] for node, batches in job.results.items()}
