"""Collection for `psgd post-mortem JOB`: from agents to a zip, which appears whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from network.errors import NetworkError
from network.nodes import NodeAssignment
from parallel_sgd.run_page.timeline import trace
from rpc import UnknownJob, is_job_id
from rpc.submit import Diagnostics, gather_diagnostics
from rpc.support.temporary import TemporaryFolder

from .case import Case
from .summary import checkpoints, summary, timeline, verdicts, versions_of


def collect_post_mortem(nodes: NodeAssignment, job: str, directory: str | Path = ".") -> Path:
    """Collect the files and words of the agents of `nodes` on `job` into `directory/post-mortem-<job>.zip`; return its path.

    Any agent may have had any node of the job, so `nodes` may be all that there are. Those that cannot be reached are named in
    the zip. `summary.txt` in it tells the first failure and the other contents. It can be collected as long as the agents keep
    the job, also while that still runs.

    Args:
        nodes: the nodes to be asked.
        job: id of the job, as `JobFailed.job_id` has it.
        directory: folder of the zip; it is made where there is none.

    >>> path = parallel_sgd.collect_post_mortem(nodes, failure.job_id)  # doctest: +SKIP

    Raises: ValueError for a text that is no job id, UnknownJob (a ValueError, too) when no agent that was reached knows the
    job, NetworkError when none was reached, OSError when the zip cannot be written.
    """
    if not is_job_id(job):
        raise ValueError(f"'job' must be the id of a job, as in '20261120-173000-9f86d081', got {job!r}")
    target = Path(directory) / f"post-mortem-{job}.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryFolder("post-mortem") as folder:
        gathered = gather_diagnostics(nodes, job, folder)
        _check(job, nodes, gathered)
        write_archive(Case.read(job, gathered), target, time.time())
    return target


def _check(job: str, nodes: NodeAssignment, gathered: Diagnostics) -> None:
    """Check that an agent knows the job. Raises: UnknownJob, NetworkError."""
    if gathered.found:
        return
    # none answered: the job may be known to all of them
    if len(gathered.unreached) == len(nodes):
        raise NetworkError(f"No agent could be asked about job {job}: {' '.join(gathered.unreached.values())}")
    newest = max(gathered.known, default="")
    told = f"the newest that they know is {newest}" if newest else "they know no jobs at all"
    missing = f" These could not be asked: {', '.join(gathered.unreached)}." if gathered.unreached else ""
    raise UnknownJob(f"None of {len(gathered.strangers)} agents knows job {job}; {told}.{missing}")


def write_archive(case: Case, target: Path, now: float) -> None:
    """Write the contents of `case` to `target`, in place of an earlier one; `now` in seconds since 1970.

    Raises: OSError when the disk refuses; an earlier archive is there still.
    """
    # a draft beside it: a zip that is cut off would look like one
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        with open(draft, "xb", opener=_private) as file:
            # not strict: a zip has no times before 1980, and a file may have any
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
                for name, text in _texts(case, now).items():
                    archive.writestr(name, text)
                for node in case.nodes:
                    for path in sorted(node.found.files):
                        archive.write(path, f"{node.folder}/{path.name}")
            file.flush()
            os.fsync(file.fileno())
        # only when it is whole, in place of an earlier one
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _texts(case: Case, now: float) -> Mapping[str, str]:
    told = case.timeline
    states = [{"node": node.name, **asdict(state)} for node in case.nodes for state in node.states]
    return {
        "summary.txt": summary(case, now),
        "verdicts.txt": verdicts(case),
        "verdicts.json": _json([asdict(verdict) for verdict in case.verdicts]),
        "timeline.txt": timeline(told),
        "timeline.json": _json([{"node": event.node, **event.fields} for event in told]),
        "batches.json": trace(case.batches),
        "checkpoints.txt": "".join(f"{line}\n" for line in checkpoints(case)),
        "checkpoints.json": _json(states),
        "versions.json": _json(versions_of(case)),
        "nodes.json": _json(_nodes(case)),
    }


def _nodes(case: Case) -> dict[str, Any]:
    return {
        "job": case.job,
        "nodes": [
            {
                "node": node.found.node,
                "agent": str(node.found.address),
                "folder": node.folder,
                "state": node.record.get("state"),
                "problem": node.found.problem,
                "not read": node.left_out,
            }
            for node in case.nodes
        ],
        "not reached": dict(case.unreached),
        "know nothing of it": case.strangers,
    }


def _json(content: object) -> str:
    return json.dumps(content, indent=1)


def _private(path: str, flags: int) -> int:
    """Open a file that other users cannot read, since it holds logs."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
