"""The merge rules of one node and the collectors that feed them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from .collector import Collector, collector
from .merge import MergeRule
from .units import Units


class Merging:
    """A copy of a merge rule for each place, with what it remembers, and collectors that are used again."""

    def __init__(self, units: Units, rule: MergeRule) -> None:
        self._units = units
        self._pattern = rule
        self._rules: dict[int, MergeRule] = {}
        self._free: dict[int, list[Collector]] = {}
        self._made: list[Collector] = []

    @property
    def duplicates(self) -> int:
        """Contributions that were there already."""
        return sum(found.duplicates for found in self._made)

    def collector(self, place: int) -> Collector:
        """Return an empty collector."""
        free = self._free.get(place)
        if free:
            return free.pop()
        self._made.append(collector(self._units, self._rule(place)))
        return self._made[-1]

    def take_back(self, collectors: dict[int, Collector]) -> None:
        """Take collectors that are not needed any more out of a dict by place."""
        for place, found in collectors.items():
            found.reset()
            self._free.setdefault(place, []).append(found)
        collectors.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return what the rules remember, as `merge.<place>.<name>`."""
        return {f"merge.{at}.{name}": value for at, rule in self._rules.items() for name, value in rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Take over a copy of what `state_dict` returned; return the names that are of nothing here."""
        rest = dict(state)
        for place in sorted({int(name.split(".")[1]) for name in rest if name.startswith("merge.")}):
            own = [name for name in rest if name.startswith(f"merge.{place}.")]
            self._rule(place).load_state_dict({name.split(".", 2)[2]: rest.pop(name) for name in own})
        return rest

    def clear(self) -> None:
        """Let go of all buffers."""
        self._free.clear()
        self._made.clear()

    def _rule(self, place: int) -> MergeRule:
        found = self._rules.get(place)
        if found is None:
            found = self._rules[place] = deepcopy(self._pattern)
        return found
