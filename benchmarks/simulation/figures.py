"""Figures that the commands of this folder measured, each in a file of `figures/`, and parts of docs/simulation.md of them.

python -m benchmarks.simulation.figures        write these parts of the page anew, and draw the scatter plot
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks import machine
from rpc.support.files import publish
from rpc.support.processors import load_per_core, usable_cores

FOLDER: Final = Path(__file__).parent / "figures"
ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "simulation.md"
PICTURES: Final = ROOT / "docs" / "pictures" / "simulated"
END: Final = "<!-- end -->"


class Kept:
    """Rows that a command measures, in a file that has each as soon as it is there, so that an interrupted command goes on.

    Args:
        path: the file; None: nothing is kept.
        command: the words by which it was made.
        anew: whether what the file has is left out.

    Attributes:
        content: what the file has: `command`, `machine`, `date`, `load` (least and largest per core), `rows`, and more, such as
            a `note` that was written by hand.
    """

    def __init__(self, path: Path | None, command: str, anew: bool = False) -> None:
        self._path = path
        self.content: dict[str, Any] = {"command": command, "rows": []}
        if path is not None and path.exists() and not anew:
            self.content = json.loads(path.read_text("utf-8"))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows."""
        return list(self.content["rows"])

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row.

        Args:
            row: what was measured.
        """
        load = round(load_per_core(), 1)
        low, high = self.content.get("load", (load, load))
        self.content |= {
            "machine": f"{platform.system()} {platform.release().partition('-')[0]}, {usable_cores()} cores, {machine.cpu()}",
            "date": datetime.now(timezone.utc).date().isoformat(),
            "load": [min(low, load), max(high, load)],
        }
        self.content["rows"].append(dict(row))
        self.write()

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a value that was made and kept before, or make and keep it.

        Args:
            name: that of the value.
            make: returns it, as JSON has it.
        """
        made: dict[str, Any] = self.content.setdefault("made", {})
        if name not in made:
            made[name] = make()
            self.write()
        return made[name]

    def write(self) -> None:
        """Write the file."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            publish(self._path, json.dumps(self.content, indent=1) + "\n", 0o644)


def read(name: str) -> dict[str, Any]:
    """Return the content of a file of figures.

    Args:
        name: the file's, without its ending.
    """
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return content


def origin(content: Mapping[str, Any]) -> str:
    """Return the words that say where, when and under which load figures were made.

    Args:
        content: that of a file.
    """
    made = f"`{content['command']}`, {content['date']}: {content['machine']}"
    if "load" in content:
        low, high = content["load"]
        made += f", under a load of {low:g}{f' to {high:g}' if high > low else ''} per core"
    return f"{made}; {content['note']}" if content.get("note") else made


def begin(name: str) -> str:
    """Return the line of the page before a part.

    Args:
        name: that of the part.
    """
    return f"<!-- figures: {name} -->"


def written(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with its parts made anew.

    Args:
        page: its text.
        parts: text of each part by name.

    Raises: ValueError where the page has no place for a part.
    """
    for name, text in parts.items():
        before, found, rest = page.partition(f"{begin(name)}\n")
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError(f"The page must have {begin(name)!r} and {END!r} behind it, got neither or one.")
        page = f"{before}{found}\n{text.strip()}\n\n{END}{after}"
    return page


def makers() -> dict[str, Callable[[dict[str, Any]], str]]:
    """Return the function that makes a part of the page of the content of its file, by name."""
    from benchmarks.simulation import __main__ as speed
    from benchmarks.simulation import failures, jobs, regret, studies, truth

    found: dict[str, Callable[[dict[str, Any]], str]] = {
        "truth-a": truth.part,
        "truth-b": truth.part,
        "regret": regret.part,
        "simgrid": speed.part,
        "jobs": jobs.part,
        "failures": failures.part,
    }
    return found | {f"study-{name}": partial(studies.part, name) for name in studies.STUDIES if name != "map"}


def parts() -> dict[str, str]:
    """Return the parts of the page whose files have rows, by name; the others stay as they are."""
    files = {path.stem: read(path.stem) for path in FOLDER.glob("*.json")}
    return {name: make(files[name]) for name, make in makers().items() if files.get(name, {}).get("rows")}


def plot() -> str:
    """Return the scatter plot of all settings that were compared."""
    from benchmarks.simulation import truth

    return truth.scatter(*(read(path.stem) for path in sorted(FOLDER.glob("truth-*.json"))))


def main() -> int:
    """Write the page and the scatter plot; return the exit code."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    publish(PAGE, written(PAGE.read_text("utf-8"), parts()), 0o644)
    publish(PICTURES / "truth.svg", plot(), 0o644)
    return 0


if __name__ == "__main__":
    sys.exit(main())
