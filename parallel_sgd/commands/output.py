"""What commands print: results and JSON on standard output, complaints on standard error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.write(json.dumps(content) + "\n")


def complain(options: argparse.Namespace, error: Exception, **more: Any) -> None:
    """Say what went wrong; to machines also as JSON, with `more`."""
    sys.stderr.write(f"job_submit.py: {error}\n")
    if options.json:
        print_json({"error": str(error), **more})


def paths_of(files: Mapping[int, Sequence[Path]]) -> dict[str, list[str]]:
    """Saved files of each node, as texts."""
    return {str(node): [str(path) for path in paths] for node, paths in files.items()}
