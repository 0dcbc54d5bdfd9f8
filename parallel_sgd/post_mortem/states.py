"""The states that a node has kept of a job: how far each is, whether it can be gone on from, and how large it is."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from parallel_sgd.checkpoint.places import FOLDER
from parallel_sgd.checkpoint.position import Position
from parallel_sgd.checkpoint.snapshot import FORMAT
from parallel_sgd.checkpoint.store import position_of


@dataclass(frozen=True)
class KeptState:
    """A checkpoint file. `valid` is None where nobody has read it as a whole; `why` says what is wrong with it."""

    name: str
    position: Position
    size: int
    saved: float
    valid: bool | None
    why: str = ""
    attempt: int = 0
    personal: bool = False
    loss: float | None = None

    def describe(self) -> str:
        """In one line."""
        verdict = {True: "valid", False: "NOT VALID", None: "not checked"}[self.valid]
        loss = "" if self.loss is None else f", Loss {self.loss:.6g}"
        whose = ", of this worker alone" if self.personal else ""
        why = f" ({self.why})" if self.why else ""
        return f"{self.name}: after {self.position}, attempt {self.attempt + 1}{loss}, {self.size} bytes{whose}: {verdict}{why}"


def kept_states(listed: Any) -> list[KeptState]:
    """Those in an agent's list of kept files, the most advanced first; what is no checkpoint, or no list, is left out."""
    found = []
    for entry in listed if isinstance(listed, list) else []:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            position = position_of(entry["name"])
            if entry["folder"] == FOLDER and position is not None:
                found.append(_state(entry, position))
    return sorted(found, key=lambda state: state.position, reverse=True)


def _state(entry: dict[str, Any], position: Position) -> KeptState:
    """Raises: KeyError, TypeError or ValueError for what no agent sends."""
    valid, why, about = entry["whole"], str(entry["why"]), entry["about"]
    header: dict[str, Any] = {}
    if valid is not False and about.get("format") != FORMAT:
        valid, why = False, f"its format is {str(about.get('format'))[:40]!r}, not {FORMAT!r}"
    elif "snapshot" in about:
        with contextlib.suppress(ValueError, RecursionError):  # cut, because it is very long
            header = json.loads(about["snapshot"])["header"]
    evaluation = header.get("progress", {}).get("evaluation", {})
    loss = evaluation.get("Loss") if position.batch == 0 else None
    return KeptState(
        str(entry["name"]),
        position,
        int(entry["size"]),
        float(entry["modified"]),
        None if valid is None else bool(valid),
        why,
        int(header.get("attempt", 0)),
        bool(header.get("personal", False)),
        None if loss is None else float(loss),
    )
