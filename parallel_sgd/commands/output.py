"""What commands print, results and JSON on standard output, complaints on standard error; and what their exit codes say."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpc import program_name as called_as
from rpc.job import users_traceback
from rpc.logs import clean_text

from ..options import options as known_options

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_STARTED, EXIT_NETWORK, EXIT_NODE_LOST = range(6)
EXIT_INTERRUPTED = 130


def program_name() -> str:
    return called_as("psgd-submit", "job_submit.py")


def print_json(content: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")


def tell(options: argparse.Namespace, content: Mapping[str, Any], words: object) -> None:
    """With --json the content, else the words as a line."""
    if options.json:
        print_json(content)
    else:
        sys.stdout.write(f"{words}\n")


def complain(options: argparse.Namespace, error: Exception, **more: Any) -> None:
    """Say what went wrong; to machines also as JSON, with `more`. A wrong argument goes by the name of its option."""
    flags = {name: about.flag.names[0] for name, about in known_options() if about.flag is not None}
    names = {**flags, "worker_cnt": "-n", "count": "-n" if getattr(options, "local", None) is None else "--local"}
    plain = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    said = re.sub(
        r"^(?:parallel\(\) )?'(\w+)'(?= (?:must|needs?|can|cannot|names|does) )",
        lambda found: names.get(found[1]) or (f"--{found[1].replace('_', '-')}" if found[1] in options else found[0]),
        plain,
    )
    said = said.replace("parse_worker(n, ps=True)", "--ps")
    if told := users_traceback(error):
        sys.stderr.write(clean_text(told))
    sys.stderr.write(f"{program_name()}: {clean_text(said)}\n")
    if options.json:
        print_json({"error": said, **more})


def paths_of(files: Mapping[int, Sequence[Path]]) -> dict[str, list[str]]:
    return {str(node): [str(path) for path in paths] for node, paths in files.items()}
