"""The stored list: sixty mutants of each seed, and those that were taken out with the reason."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.mutants.places import Place, find

LIST = Path(__file__).with_name("list.json")


@dataclass
class Mutant:
    """One wrong change. `area` is the contract page or the package that it was drawn for."""

    number: int
    area: str
    kind: str
    package: str
    name: str
    statement: str
    becomes: str
    killed_by: str = ""  # the test that noticed it last, such as `tests/nn/test_plan.py::test_a`

    @property
    def place(self) -> Place:
        return find(self.package, self.name, self.statement)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.package, self.name, self.statement, self.becomes


@dataclass
class Replaced(Mutant):
    """A mutant that no test can kill, with the reason."""

    reason: str = ""


@dataclass
class MutantList:
    """The contents of list.json. The first sixty numbers are of the first seed, the next sixty of the second."""

    seeds: list[int]
    mutants: list[Mutant] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path = LIST) -> MutantList:
        stored = json.loads(path.read_text("utf-8"))
        return cls(stored["seeds"], [Mutant(**m) for m in stored["mutants"]], [Replaced(**m) for m in stored["replaced"]])

    def write(self, path: Path = LIST) -> None:
        self.mutants.sort(key=lambda mutant: mutant.number)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    def take_out(self, number: int, reason: str) -> None:
        """Remove a mutant for good; `draw` finds another one for its number."""
        mutant = next(mutant for mutant in self.mutants if mutant.number == number)
        self.mutants.remove(mutant)
        self.replaced.append(Replaced(**asdict(mutant), reason=reason))
