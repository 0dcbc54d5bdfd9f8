"""Figures that guides tell: each is made of the constant that the code has, or stands beside the command that measures it.

A guide of `TOLD` has no other figure of time or size. A passage that names a command (`python -m benchmarks`), a year or a seed
tells where its figures are from, so it may have any; programs and their output are tested as such.
"""

from __future__ import annotations

import math
import re

import pytest

from network import budget, frames, handshake, hello, session, shared_memory, wire
from network.faults import stream
from nn import tensor_files
from parallel_sgd.elastic.stragglers import STOP_SECONDS, WARN_SECONDS
from parallel_sgd.federated import remembering, training
from parallel_sgd.options import compatibility
from parallel_sgd.options.job_options import JobOptions
from parallel_sgd.record import door
from parallel_sgd.run_page import live
from rpc import protocol
from rpc.agent import event_log, metrics_server, output, scheduler_env, store
from rpc.agent import files as agent_files
from rpc.agent.settings import AgentSettings
from rpc.collective import allreduce
from rpc.doctor import examine, messages, probe, report
from rpc.elastic import ELASTIC_TIMEOUT, discovery_sources
from rpc.elastic.hosts import ASK_AGAIN
from rpc.launch import dask_worker, ssh
from rpc.lease import handoff
from rpc.liveness import limits as l
from rpc.messages import MAX_BYTES, MAX_FILES
from rpc.support import console, disk, files, logs
from tests.fuzz.attempt import TRACED_BYTES
from tests.fuzz.run import HANGS_SECONDS

from .sources import ROOT

_DAY = 86400.0
_SILENT = f"{l.SILENT_SECONDS:g} s"
_KEPT = f"{store.KEEP_BYTES >> 30} GiB"

TOLD = {
    "failure-detection": [
        f"| the executor starts | the first BEGIN | {l.FIRST_BATCH_SECONDS:g} s |",
        f"| the next BEGIN | {l.BETWEEN_SECONDS:g} s, or {l.BETWEEN_STEPS:g} N where that is more |",
        f"| the save ends; END | {l.SAVE_SECONDS:g} s |",
        f"else {l.LEAST_STEP_SECONDS:g} s or {l.STEPS:g} times the median of the last {l.REMEMBERED_STEPS} steps",
        f"before the first step has ended, {l.FIRST_BATCH_SECONDS:g} s",
        f"as `ClusterExecutor` does after {l.STOPPED_SECONDS:g} s",
        f"no heartbeat has come for {_SILENT}",
        f"within {math.ceil(l.SILENT_SECONDS + l.HEARTBEAT_SECONDS + 2 * l.LOOK_SECONDS)} s of the moment",
        f"is no host that is gone, and is given {l.STARVED_SECONDS:g} s",
        f"an agent is given {l.STARTING_SILENT_SECONDS:g} s, and a process",
        f"sends them for up to {disk.MOST_SECONDS:g} s of one wait",
        f"come more than {_SILENT} late",
        f"until {_SILENT} before its arrival",
        f"has worked for more than {l.APART_SECONDS:g} s",
        f"the usual N of {l.LEAST_STEP_SECONDS:g} s or more",
        f"within a heartbeat and a look ({l.HEARTBEAT_SECONDS + l.LOOK_SECONDS:g} s)",
        f"With N below {_SILENT} it takes {_SILENT}",
        f"together more than {_SILENT} late",
        f"waited for up to {l.RETURN_SECONDS:g} seconds",
    ],
    "assumptions": [
        f"by its silence, after {_SILENT}",
        f"once a pipe of {output._PIPE_BYTES >> 20} MiB is full",
        f"{store.KEEP_SECONDS / _DAY:g} days, the newest {AgentSettings.keep_jobs}, {_KEPT}",
    ],
    "elastic": [
        f"up to `timeout` ({ELASTIC_TIMEOUT:g} s)",
        f"again after {ASK_AGAIN.low:g} s, {2 * ASK_AGAIN.low:g} s ... {ASK_AGAIN.high:g} s",
        f"cannot be reached | {_SILENT} |",
        "| a stuck process | N + 1 s |",  # asserted by tests/processes/elastic/test_launch.py
        f"`warn_after` ({WARN_SECONDS:g} s), given up after `stop_after` ({STOP_SECONDS:g} s)",
    ],
    "reliability": [
        f"is gone is waited for up to {l.RETURN_SECONDS:g} s",
        f"for up to {l.WAIT_SECONDS / 60:g} minutes |",
        f"{l.SILENT_DRIVER_SECONDS:g} to 12 s where a host vanishes",
        f"keeps {output.DEFAULT_LIMIT >> 20} MiB of it",
        f"pauses, for up to {l.WAIT_SECONDS:g} s",
        f"waits, for up to {l.WAIT_SECONDS / 60:g} minutes",
        f"up to {stream.MOST_DELAYED >> 20} MiB in the time of the delay",
        f"of two weeks and {_KEPT} there",
        f"within {files.ROOM_SECONDS:g} s of its end",
        f"tried again for {l.RETURN_SECONDS:g} s (`wait`: {l.WAIT_SECONDS / 60:g} min)",
        f"fetched again for {files.ROOM_SECONDS:g} s",
    ],
    "day-two": [
        f"leave within {scheduler_env.GRACE_SECONDS:g} s",
        f"one comes every {l.HEARTBEAT_SECONDS:g} s",
        f"each connection has {metrics_server.VISITOR_SECONDS:g} s, {metrics_server.MOST_VISITORS} are open at most",
        f"in {logs._AGENT_LOG_PARTS} parts of {logs.AGENT_LOG_BYTES >> 20} MiB at most",
        f"| {event_log.MAX_AUDIT_BYTES >> 20} MiB, and one older part",
        f"`--output-mib`, {output.DEFAULT_LIMIT >> 20} MiB each",
    ],
    "launchers": [
        f"at most {discovery_sources._LONGEST_PAUSE:g} seconds",
        f"which is {scheduler_env.GRACE_SECONDS:g} s unless `--grace`",
        f"is read over, up to {ssh.MOST_SAID >> 10} KiB",
        f"has {dask_worker.GRACE_SECONDS:g} s to save its state",
        "messages of {}, {} and {} KiB".format(*(size >> 10 for size in probe._SIZES)),
        f"more than {report.MOST_OFFSET:g} s off",
        f"bursts of {probe._FIRST_BURST >> 10} KiB to {probe._LAST_BURST >> 20} MiB",
        f"until one takes {probe._ENOUGH_SECONDS:g} s",
        f"room for less than {report.LEAST_FREE >> 20} MiB",
    ],
    "command": [
        f"nobody has read it for {console.RESULT_SECONDS:g} s",
        f"wait in memory ({console.WAITING_BYTES >> 10} KiB)",
        f"the manifest, up to {JobOptions.keep_data:g} MiB",
    ],
    "run-page": [
        f"every {live.SECONDS:g} to {live._MOST_SECONDS:g} seconds",
        f"more than {live.MOST_VIEWERS}, are hung up on",
        f"within {live.STRANGER_SECONDS:g} s, of whom there are {live.MOST_STRANGERS} at most",
    ],
    "protocol": [
        f"Neither message is longer than {hello.MESSAGE_LIMIT >> 10} KiB",
        f"Both sides have {handshake.HANDSHAKE_SECONDS:g} s in all",
        f"the limit of {hello.MESSAGE_LIMIT >> 10} KiB and a map of at most {hello._CAPS_LIMIT} fields",
        f"holds at most {wire.RECORD_BYTES >> 20} MiB of data",
        f"Arrays of more than {wire._TOGETHER >> 10} KiB have records of their own",
        f"arrays of {shared_memory.LEAST_BYTES >> 10} KiB and more lie in memory",
        f"one outbox of {shared_memory.PAGES * shared_memory.PAGE_BYTES >> 20} MiB",
        f"in pages of {shared_memory.PAGE_BYTES >> 10} KiB",
        f"An array of up to {allreduce.WHOLE_BYTES >> 10} KiB is one part",
        f"in stretches of {allreduce.STRETCH_BYTES >> 20} MiB",
        f"up to {wire.Limits().message >> 30} GiB of arrays",
        f"at most {budget.OBJECT_BYTES >> 20} MiB of objects",
        f"at least {session.STALL_BYTES >> 10} KiB, or what is left of it, within {session.STALL_SECONDS:g} s in a session",
        f"within {session.JOB_STALL_SECONDS / 60:g} minutes in one with a process of a job",
        f"| {l.FIRST_PHASE_SECONDS:g} s, and {l.PER_NODE_SECONDS:g} s for each node of the fullest host",
        f"+ {l.GROUP_SLACK_SECONDS:g} s (single node: + {l.SINGLE_SLACK_SECONDS:g} s)",
        f"starts when all are READY | {l.START_SECONDS:g} s",
        f"says nothing for {l.STARTING_SILENT_SECONDS:g} s in any phase",
        f"stopped by a signal for {l.STOPPED_SECONDS:g} s before the start",
        f"stays connected for {l.LINGER_SECONDS:g} s",
        f"or {l.FAREWELL_SECONDS:g} s after the last wish",
        f"At the limit of doCommit, {l.ROLL_BACK_SECONDS:g} s after",
        f"at most {agent_files._MOST_TAIL >> 20} MiB of it, of a log its last {agent_files._MOST_LOG >> 10} KiB",
        f"its up to {messages.MOST_PIECE >> 20} MiB of data are thrown away, {messages.MOST_PINGED >> 20} MiB in a session",
        f"most some {examine.PAIR_SECONDS:g} s, one at a time",
        "messages of {}, {} and {} KiB".format(*(size >> 10 for size in probe._SIZES)),
        f"not answered within {probe.SIZE_SECONDS:g} s",
        f"nor within {probe.LATE_SECONDS:g} s more",
        f"| up to {handoff.PART_BYTES >> 20} MiB of it; the agent checks",
        f"waits {l.PLACE_SECONDS:g} s for each node before it",
        f"waits {l.ANSWER_SECONDS:g} s; it drives",
        f"after {l.FIRST_PAUSE_SECONDS:g}, 2, 4 ... {l.LONGEST_PAUSE_SECONDS:g} s",
    ],
    "security": [
        f"a table of {door.MOST_TABLE >> 20} MiB, a model of {tensor_files.MAX_FILE >> 30} GiB",
        f"at most {budget.OBJECT_BYTES >> 20} MiB of objects",
        f"agents and submitters say to each other, {protocol.OPERATION_BYTES >> 20} MiB",
        f"up to `keep_data` ({JobOptions.keep_data:g} MiB)",
        f"less than {session.STALL_BYTES >> 10} KiB of it come within {session.STALL_SECONDS:g} s at an agent",
        f"processes of a job it is {session.JOB_STALL_SECONDS / 60:g} minutes",
        f"at most {messages.MOST_PINGED >> 20} MiB of pings in a session",
        f"hung up on after {live.STRANGER_SECONDS:g} s, and of such ones there are {live.MOST_STRANGERS}",
        f"A connection has {metrics_server.VISITOR_SECONDS:g} s and {metrics_server.MOST_REQUEST >> 10} KiB for its request, "
        f"{metrics_server.MOST_VISITORS} are open at most",
        f"runs as another user after {l.LEFT_SECONDS:g} s",
        f"the answer looks at {metrics_server.MOST_REQUEST >> 10} KiB of it",
        f"at most {MAX_FILES} files and {MAX_BYTES >> 30} GiB",
        f"within {HANGS_SECONDS:g} s of the processor",
        f"(a connection has {frames.SCRATCH_BYTES >> 10} KiB)",
        f"all of more than {TRACED_BYTES >> 10} KiB",
    ],
    "clients": [f"must fit in {remembering.MOST_BYTES >> 20} MiB"],
    "data": [f"more than {compatibility._SMALL >> 20} MiB a batch is tried"],
    "results": [f"metrics of at most {training._MOST_SHOWN >> 20} MiB of predictions"],
    "sweeps": [],
    "transfer": [],
    "first-run": [],
    "glossary": [],
    "versions": [],
}


def passages(text: str) -> list[str]:
    """Split a page, without its programs, into passages: a table with the one before it, each point of a list alone."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n(?!\|)|\n(?=[*-] )", text)]


def loose(passage: str) -> list[str]:
    """List the figures of time and size of a passage that does not say where its figures are from."""
    if re.search(r"python -m benchmarks|\b20\d\d\b|\bseed \d{8}\b", passage):
        return []
    return re.findall(
        r"\b\d[\d.,]*(?: to [\d.]+)? (?:µs|ms|s|seconds|min|minutes|hours|days|[kKMG]i?B)\b", re.sub(r"`[^`]*`", "", passage)
    )


@pytest.mark.parametrize("page", TOLD)
def test_figures_of_a_guide_are_those_of_the_code(page: str) -> None:
    found = passages((ROOT / "docs" / f"{page}.md").read_text("utf-8"))
    absent = [phrase for phrase in TOLD[page] if not any(phrase in each for each in found)]
    assert not absent, f"docs/{page}.md does not say, as the code does: {absent}"
    for phrase in TOLD[page]:
        found = [each.replace(phrase, "") for each in found]
    untold = [(figure, each[max(0, each.find(figure) - 80) :][:120]) for each in found for figure in loose(each)]
    assert not untold, f"figures of docs/{page}.md that nothing asserts: {untold}"
