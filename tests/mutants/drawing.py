"""Which mutants are in the list: drawn by seeds, from each so many for each contract page and package, kinds in turn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.mutants.changes import KINDS, Change, changes
from tests.mutants.listing import Mutant, MutantList
from tests.mutants.places import Place, PlaceError, functions, places_in
from tests.sources import PACKAGES, ROOT

# the files that carry out a contract page, and how many mutants are drawn from them
PAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "submission": (
        7,
        ("rpc/submit/*", "rpc/agent/*", "rpc/job/*", "parallel_sgd/batch_sync/*", "parallel_sgd/engine/exchange.py"),
    ),
    "failure-detection": (6, ("rpc/liveness/*", "rpc/verdict.py", "parallel_sgd/driver/restart_loop.py")),
    "elastic": (6, ("rpc/elastic/*", "parallel_sgd/elastic/*", "parallel_sgd/driver/membership.py")),
    "security": (
        6,
        ("network/acceptor.py", "network/h*.py", "network/key*.py", "network/values.py", "rpc/support/logs.py"),
    ),
    "faults": (5, ("network/faults/*", "parallel_sgd/engine/fault_injection.py", "parallel_sgd/checkpoint/*", "rpc/lease/*")),
    "codecs": (7, ("parallel_sgd/codec/*",)),
    "conventions": (
        5,
        (
            "parallel_sgd/options/job_options.py",
            "parallel_sgd/engine/plan.py",
            "parallel_sgd/profiles/*",
            "nn/model/*",
            "nn/data.py",
        ),
    ),
}
# and from all files of a package
SHARES = {"nn": 6, "network": 4, "rpc": 2, "executor": 4, "parallel_sgd": 1, "psgd": 1}


def areas() -> list[str]:
    """The area of each number of a seed: pages first, then packages."""
    return [page for page, (count, _) in PAGES.items() for _ in range(count)] + [
        package for package, count in SHARES.items() for _ in range(count)
    ]


def numbers_of(listed: MutantList) -> range:
    """The numbers that the list is to have: so many for each of its seeds."""
    return range(1, len(listed.seeds) * len(areas()) + 1)


def area_of(number: int) -> str:
    return areas()[(number - 1) % len(areas())]


def kind_of(number: int) -> str:
    """Kinds take turns; each seed begins one later, so that an area with a single number gets another one."""
    earlier_seeds = (number - 1) // len(areas())
    return KINDS[(number + earlier_seeds) % len(KINDS)]


def files_of(area: str) -> tuple[str, ...]:
    """Patterns of the files that an area draws from."""
    return PAGES[area][1] if area in PAGES else (f"{area}/*",)


def draw(listed: MutantList) -> list[Mutant]:
    """Fill every number without a mutant, and draw anew those whose statement is gone; returns what is new."""
    listed.mutants = [mutant for mutant in listed.mutants if _stands(mutant)]
    taken = {mutant.number for mutant in listed.mutants}
    new = []
    for number in numbers_of(listed):
        if number not in taken:
            new.append(_drawn(listed, number))
            listed.mutants.append(new[-1])
    return new


def _stands(mutant: Mutant) -> bool:
    try:
        return bool(mutant.place)
    except PlaceError:
        return False


def _drawn(listed: MutantList, number: int) -> Mutant:
    """The first choice of the number's own sequence that is in a function of which the list has nothing yet."""
    area, seed = area_of(number), listed.seeds[(number - 1) // len(areas())]
    functions = {(mutant.package, mutant.name) for mutant in listed.mutants}
    refused = {mutant.key for mutant in listed.replaced}
    for place, change in _choices(seed, number, area):
        mutant = Mutant(number, area, change.kind, place.package, place.name, place.statement, change.becomes)
        if (place.package, place.name) not in functions and mutant.key not in refused:
            return mutant
    raise LookupError(f"{area} has no further mutant of kind {kind_of(number)}")


def _choices(seed: int, number: int, area: str) -> Iterator[tuple[Place, Change]]:
    """Functions in an order of chance, each with one change: long functions do not come more often."""
    named = [
        (package, name)
        for package in PACKAGES
        for name, (path, _) in functions(package).items()
        if any(fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in files_of(area))
    ]
    rng = random.Random(f"{seed} {number}")
    for package, name in rng.sample(named, len(named)):
        options = [(place, change) for place in places_in(package, name) for change in changes(place.node)]
        fitting = [option for option in options if option[1].kind == kind_of(number)]
        if fitting:
            yield rng.choice(fitting)


def lacking(listed: MutantList) -> list[str]:
    """Areas and kinds of which the list has too little."""
    found = [f"number {number}" for number in numbers_of(listed) if [m.number for m in listed.mutants].count(number) != 1]
    found += [f"package {package}" for package in PACKAGES if all(m.package != package for m in listed.mutants)]
    found += [m.name for m in listed.mutants if (m.area, m.kind) != (area_of(m.number), kind_of(m.number))]
    return found
