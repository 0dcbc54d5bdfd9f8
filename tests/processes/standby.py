"""Stands in for the driver that an agent starts: it has been given the key, and waits for the end of its agent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from network.keys import KEY_SIZE


def main() -> None:
    secret = os.read(0, KEY_SIZE)
    Path(sys.argv[1], "key-size").write_text(str(len(secret)))
    while os.read(0, KEY_SIZE):
        pass
