"""The tables `WH` of a run, as they are read: what the weights were after each epoch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ..weight_hashes import HASH_COLUMNS
from .door import Door
from .tables import read_table, warn

__all__ = ["read_hashes"]

_FOLDER: Final = re.compile(r"Node-(-?[0-9]{1,9})-Retrieve")


def read_hashes(run: Path) -> dict[int, dict[str, dict[int, str]]]:
    """Return those in the tables of a run's workers; rows that are not whole are left out, and a warning names the worker.

    Raises: RecordError for what is no table of a run, such as a link in its place.
    """
    found: dict[int, dict[str, dict[int, str]]] = {}
    door = Door(run)
    for folder in door.names(folders=True):
        match = _FOLDER.fullmatch(folder)
        for name in door.names(folder) if match else ():
            if match and name.startswith("WH-") and name.endswith(".csv"):
                columns, remark = read_table(door, f"{folder}/{name}")
                warn([remark])
                for epoch, variable, value in zip(*(columns.get(each, []) for each in HASH_COLUMNS), strict=True):
                    found.setdefault(int(epoch), {}).setdefault(str(variable), {})[int(match[1])] = str(value)
    return found
