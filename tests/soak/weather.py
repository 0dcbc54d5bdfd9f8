"""What shall go wrong in one job, drawn from a seed: so that a storm can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WORKERS, SPARE = 4, 4
FIRST = 3  # workers of a job with discovery at its beginning: one is left when two have failed
EPOCHS, BATCHES = 8, 44  # of the job on Digits with four blocks of 8 samples
ATTEMPTS = 6  # in which something happens
_LASTING = ("0.3s", "1s", "1500ms")
_FATAL = ("kill {w}@{at}", "exit {w}@{at} code 3", "raise {w}@{at}", "stop {w}@{at}", "hang {w}@{at}")
_PASSING = ("stop {w}@{at} for {t}", "hang {w}@{at} for {t}", "+20ms {w}>{v}@{at} for {t}", "swallow {w}-{v}@{at} for {t}")
_CUTTING = ("cut {w}-{v}@{at} for {t}",)


@dataclass(frozen=True)
class Storm:
    """A fault plan, a policy, and for jobs with discovery which of the agents are seen, look by look."""

    seed: int
    policy: str
    plan: str
    seen: list[tuple[int, ...]] = field(default_factory=list)


def draw(seed: int) -> Storm:
    """Every third storm has workers that come and leave, the others restart on the same nodes."""
    chance = random.Random(seed)
    if seed % 3 == 2:
        return Storm(seed, "shrink", _plan(chance, FIRST, fatal=FIRST - 1), _hosts(chance))
    return Storm(seed, "restart", _plan(chance, WORKERS, fatal=ATTEMPTS))


def _plan(chance: random.Random, workers: int, fatal: int) -> str:
    """One fault that a process does not survive, or a cut, in each of the first attempts, and some that pass."""
    clauses = []
    for attempt in range(ATTEMPTS):
        # where hosts change an attempt is short, so what is to happen in it comes soon
        epoch = 1 + attempt if fatal < ATTEMPTS else chance.randint(1 + attempt, EPOCHS)
        at = f"e{epoch}.b{chance.randint(1, BATCHES)}"
        kinds = [*_FATAL, *_CUTTING] if attempt < fatal else []
        for kind in [*chance.sample(kinds, min(1, len(kinds))), chance.choice(_PASSING)]:
            w, v = chance.sample(range(workers), 2)
            clauses.append(kind.format(w=w, v=v, at=f"{at}@a{attempt + 1}", t=chance.choice(_LASTING)))
    return "; ".join(clauses)


def _hosts(chance: random.Random) -> list[tuple[int, ...]]:
    """Between two and four agents at a time; one of those that were there always stays."""
    agents = range(WORKERS + SPARE)
    answers = [tuple(range(FIRST))] * 6
    for _ in range(chance.randint(3, 8)):
        staying = chance.choice(answers[-1])
        others = chance.sample([agent for agent in agents if agent != staying], chance.randint(1, WORKERS - 1))
        answers += [(staying, *others)] * chance.randint(4, 8)
    return [*answers, tuple(agents)]
