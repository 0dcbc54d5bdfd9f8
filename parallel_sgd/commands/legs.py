"""Legs of a computation of a run again: where the workers went on with the state of one of them, because states of others were
lost, the computation does the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rpc.submit import Run

from ..checkpoint.locate import HeldCheckpoints, stores_of_run
from ..engine.progress import NOBODY, START, Position
from ..record.tables import read_parts, told_at_the_start


class Leg(NamedTuple):
    """Batches that one job computes again.

    Args:
        begin: position behind which it begins.
        end: position with which it ends.
        workers: number of its workers.
        owner: worker of the leg before with the state that all workers begin with; NOBODY for the first one.
    """

    begin: Position
    end: Position
    workers: int
    owner: int = NOBODY

    @classmethod
    def whole(cls, start: int, until: int, workers: int) -> Leg:
        """Make the leg from the end of an epoch to that of another."""
        return cls(Position(start, 0), Position(until, 0), workers)


def legs_of(run: Path, start: int, until: int, workers: int, *, asked: bool) -> list[Leg]:
    """Return the legs from the end of an epoch to that of another.

    Args:
        run: the folder of the run.
        start: number of completed epochs at the beginning.
        until: the last epoch.
        workers: number of workers by the command line, or else by the record of the run.
        asked: whether the command line tells it; else each leg has as many as its part of the run had.
    """
    # of the last attempt, of which a first worker is in each
    parts = next(iter(read_parts(run).values()), [])
    begin, end = Position(start, 0), Position(until, 0)
    lost = [part for part in parts if part.owner != NOBODY and max(begin, START) < part.position <= end]
    if not lost:
        return [Leg.whole(start, until, workers if asked else _began_afresh(run, workers))]
    borders = [*(part.position for part in lost), end]
    # an earlier release told none
    first = next((part.workers for part in reversed(parts) if part.position <= begin), 0) or workers
    legs = [Leg(begin, borders[0], workers if asked else first)]
    for part, border in zip(lost, borders[1:], strict=True):
        legs.append(Leg(part.position, border, workers if asked else part.workers, part.owner))
    return legs


def _began_afresh(run: Path, workers: int) -> int:
    """Return the number of workers that trained from the start: those of a later attempt where the first one left nothing."""
    attempts: dict[int, int] = {}
    for node, attempt, _ in told_at_the_start(run):
        attempts[attempt] = attempts.get(attempt, 0) + (node >= 0)
    # with parts an attempt went on, and where none has lost a state the number of workers decides nothing
    return workers if len(attempts) < 2 or read_parts(run) else attempts[max(attempts)] or workers


def begins_anew(run: Path, epoch: int) -> bool:
    """Tell if the workers of a run went on with the state of one of them behind the end of an epoch.

    Args:
        run: the folder of the run.
        epoch: number of completed epochs.
    """
    parts = next(iter(read_parts(run).values()), [])
    return any(part.owner != NOBODY and part.position == Position(epoch, 0) for part in parts)


def state_behind(again: Path, leg: Leg, owner: int) -> Path | None:
    """Return the checkpoint of a worker at the end of a leg that was computed; None where the computation has left none on this
    machine.

    Args:
        again: the folder of the computation.
        leg: the leg.
        owner: the worker.
    """
    run = Run.read(again)
    held = HeldCheckpoints([] if run is None else stores_of_run(run))
    offers = [offer for offer in held.offers if offer.position == leg.end and offer.owner >= 0]
    own = next((offer for offer in offers if offer.owner == owner), None)
    # of a state that all workers have, the first one alone leaves a file
    other = next((offer for offer in offers if not offer.personal), None)
    found = own or other
    return None if found is None else held.file(found.owner, found.position)
