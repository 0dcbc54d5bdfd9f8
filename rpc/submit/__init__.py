"""Submitter of a job: it brings the job to its nodes, follows it there, and brings its files home."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .diagnostics import Diagnostics as Diagnostics
    from .diagnostics import NodeDiagnostics as NodeDiagnostics
    from .diagnostics import gather_diagnostics as gather_diagnostics
    from .diagnostics import jobs_known as jobs_known
    from .diagnostics import list_jobs as list_jobs
    from .diagnostics import refuse_busy as refuse_busy
    from .follower import Follower as Follower
    from .groups import pack_executable as pack_executable
    from .recovery import AGAIN as AGAIN
    from .recovery import FAIL as FAIL
    from .recovery import POLICIES as POLICIES
    from .recovery import REDUNDANT as REDUNDANT
    from .recovery import RESTART as RESTART
    from .recovery import SHRINK as SHRINK
    from .recovery import WAIT as WAIT
    from .recovery import Place as Place
    from .recovery import Policy as Policy
    from .recovery import Recovery as Recovery
    from .recovery import checked_policy as checked_policy
    from .recovery import places_of as places_of
    from .restarts import Retry as Retry
    from .run_folder import RUNS as RUNS
    from .run_folder import Run as Run
    from .run_folder import RunFolder as RunFolder
    from .run_folder import delete_run as delete_run
    from .run_folder import find_run as find_run
    from .run_folder import node_folder as node_folder
    from .run_folder import run_name as run_name
    from .run_folder import runs_in as runs_in
    from .tailing import TableReader as TableReader
    from .terminal import PROGRESS as PROGRESS
    from .terminal import Interrupts as Interrupts
    from .terminal import ProgressDisplay as ProgressDisplay
    from .terminal import interrupted as interrupted
    from .terminal import telling as telling
    from .terminal import uninterrupted as uninterrupted

lazily(
    __name__,
    {
        "diagnostics": "Diagnostics NodeDiagnostics gather_diagnostics jobs_known list_jobs refuse_busy",
        "follower": "Follower",
        "groups": "pack_executable",
        "recovery": "AGAIN FAIL POLICIES REDUNDANT RESTART SHRINK WAIT Place Policy Recovery checked_policy places_of",
        "restarts": "Retry",
        "run_folder": "RUNS Run RunFolder delete_run find_run node_folder run_name runs_in",
        "tailing": "TableReader",
        "terminal": "PROGRESS Interrupts ProgressDisplay interrupted telling uninterrupted",
    },
)
