"""What commands print, results and JSON on standard output, complaints on standard error; and what their exit codes say."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpc.job import users_traceback
from rpc.logs import clean_text

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_STARTED, EXIT_NETWORK, EXIT_NODE_LOST = range(6)
EXIT_INTERRUPTED = 130

_PACKAGE = __name__.partition(".")[0]
SCRIPT, COMMAND = "job_submit.py", "psgd-submit"


def program_name() -> str:
    """How this program was called: as the command that an installation has, the module, or the script of a checkout."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == (_PACKAGE, "__main__.py"):  # not that of another module, such as pytest's
        return f"python -m {_PACKAGE}"
    return COMMAND if called.name == COMMAND else SCRIPT


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.write(json.dumps(content) + "\n")


_OPTIONS = {
    "epoch": "--epochs",
    "block_size": "--batch-size",
    "worker_cnt": "-n",
    "ssgd_timeout_limit": "--ssgd-timeout",
    "mission_title": "--title",
    "assignment_type": "--block-assignment",
    "codec_extra_parameters": "--codec-params",
}
"""Arguments whose options have another name; others differ by dashes only, or are none."""


def complain(options: argparse.Namespace, error: Exception, **more: Any) -> None:
    """Say what went wrong; to machines also as JSON, with `more`. A wrong argument goes by the name of its option."""
    names = {**_OPTIONS, "count": "-n" if options.local is None else "--local"}
    said = re.sub(
        r"^(?:parallel\(\) )?'(\w+)'(?= must )",
        lambda found: names.get(found[1]) or (f"--{found[1].replace('_', '-')}" if found[1] in options else found[0]),
        str(error),
    )
    said = said.replace("parse_worker(n, ps=True)", "--ps")
    if told := users_traceback(error):
        sys.stderr.write(clean_text(told))
    sys.stderr.write(f"{program_name()}: {clean_text(said)}\n")
    if options.json:
        print_json({"error": said, **more})


def paths_of(files: Mapping[int, Sequence[Path]]) -> dict[str, list[str]]:
    """Saved files of each node, as texts."""
    return {str(node): [str(path) for path in paths] for node, paths in files.items()}
