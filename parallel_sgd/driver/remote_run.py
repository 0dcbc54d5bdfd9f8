"""Run of a job on agents, as its submitter sees it: from the user's objects to the files at home."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from network.nodes import NodeAssignment
from network.request import Request
from nn.dataset.interface import Arrays
from nn.model import Model
from rpc import Coordinator, Deposed, new_job_id
from rpc.lease import new_driver
from rpc.submit import SHRINK, Recovery, interrupted, uninterrupted
from rpc.support.logs import SUBMIT_LOGGER, clean_text, get_logger

from ..checkpoint.resume import ON_AGENTS, ON_LAUNCHED_AGENTS, ON_LOCAL_WORKERS
from ..codec.parameters import warn_of_unread
from ..engine.accounts import NO_ACCOUNTS, AccountError, Entry, NodeAccounts, Times, check_conserved, unread
from ..engine.channel import Parameter_Server
from ..errors import JobFailed, describe_failures
from ..nodes import LocalNodes
from ..options.spec import JobSpec
from ..record.job_record import adopt, keep_identities, text_for_nodes
from ..record.ledger import Extent, collect
from ..record.report import model_name
from ..record.run import JobResult, keep_checkpoints, new_run, place_work
from ..record.spared import spared
from ..run_page.outcome import reported
from .make_manifest import make_manifest
from .membership import DiscoveredNodes, Membership, SameNodes, Survivors
from .restart_loop import RestartLoop

if TYPE_CHECKING:
    from ..writers.live import Followers

_log = get_logger(SUBMIT_LOGGER)


def run_on_agents(spec: JobSpec, arrays: Arrays, followers: Followers | None = None) -> JobResult:
    """Submit the job, wait for its end, bring the files home; after a failure do as `on_failure` says.

    Agents that this process has started end with it; all others are given the manifest with which they go on with the job
    without it.

    Args:
        spec: the job.
        arrays: the four arrays that its data set has loaded.
        followers: console and writers that follow the job, or None.

    Raises: SubmissionError when it could not be started, JobFailed when it did not end well, Deposed (a NetworkError) when its
    agents had lost us and drive it themselves, NetworkError, KeyboardInterrupt.
    """
    nodes = spec.options.nodes
    # before anything is prepared: local agents may have ended
    nodes.check_open()
    job = new_job_id()
    is_local = isinstance(nodes, LocalNodes)
    run, text = new_run(spec, arrays, job, _kind(nodes))
    try:
        # the folder of a local run outlives its nodes
        record = "" if spec.is_local else text_for_nodes(text, spec, job, run.path)
        manifest = make_manifest(spec, sum(array.nbytes for array in arrays), job, record)
    except BaseException:
        run.close()  # code that cannot travel leaves no run behind
        raise
    agents = nodes.agents if isinstance(nodes, LocalNodes) else None
    if spec.resume is not None:
        _log.info("%s", spec.resume.told(spec.options.epoch))
    with contextlib.ExitStack() as at_end:  # its callbacks are ends of parts: an error there takes no result with it
        if isinstance(nodes, LocalNodes) and agents is not None:
            # folders of local workers are in the run's folder, so the run is closed when these have ended
            nodes.ended.append(run.close)
            place_work(run, job, agents)
        else:
            at_end.callback(_close, run.close)
        membership = _membership(spec, job)
        at_end.callback(_close, membership.close)
        outcome = at_end.enter_context(reported(run, spec, (len(arrays[0]), len(arrays[2])), job))
        loop = RestartLoop(
            manifest,
            membership,
            Recovery(spec.policy, spec.options.max_restarts),
            Request(nodes.key_file),
            lambda: arrays,
            run,
            # local agents end with this process, so no standby driver could take over
            driver="" if is_local else new_driver("The submitting program"),
        )
        loop.on_failure = outcome.attempt_failed
        loop.tables = None if followers is None else followers.tables(run, job)
        try:
            coordinator, results = loop.drive(stop_on_interrupt=is_local)
        # files of a failed job are fetched too, and belong to its record
        except JobFailed as failed:
            adopt(run.path, failed.files)
            keep_identities(run.path, loop.identities)
            raise
        # the job goes on at its agents (`left`), or was stopped
        except KeyboardInterrupt:
            outcome.goes_on = loop.left
            keep_identities(run.path, loop.identities, ended=not loop.left)
            raise
        # another driver goes on: this process has lost the right to fetch results (INV-14)
        except Deposed as error:
            outcome.goes_on = True
            keep_identities(run.path, loop.identities, ended=False)
            raise Deposed(f"{error} 'psgd attach {job}' shows its progress again.") from error
        finally:
            with spared("What nodes have told of their troubles"):
                outcome.notes = loop.notes
        # RUN-8: the job has its results here, also for a Ctrl-C that comes now
        with uninterrupted():
            with spared("The record of the run"):
                adopt(run.path, coordinator.files)
            with spared("The identities of the nodes"):
                keep_identities(run.path, loop.identities)
            result = _result(spec, coordinator, results, loop.recovery.restarts)
            with spared("What the page says of the end"):
                problems = result.ledger.problems if result.ledger else ()
                outcome.done(result, result.failures, problems)
        if loop.interrupted:
            raise interrupted()
    result.report = outcome.page
    with spared("What is left for the end of the workers"):
        if isinstance(nodes, LocalNodes) and not result.failures:
            server = Parameter_Server if spec.server_keeps else None
            workers = membership.nodes.worker_ids  # of the attempt that ended: some may have been left behind
            nodes.ended.append(
                partial(keep_checkpoints, run.path, workers, server, list(coordinator.unsaved), spec.options.keep_every)
            )
    return result


def _kind(nodes: NodeAssignment) -> str:
    """Return the word of a run's record for its nodes, which tells where its checkpoints are, and how long."""
    if isinstance(nodes, LocalNodes) and nodes.agents is not None:
        return ON_LOCAL_WORKERS
    return ON_LAUNCHED_AGENTS if isinstance(nodes, LocalNodes) and not nodes.lasting else ON_AGENTS


def _close(end: Callable[[], None]) -> None:
    with spared("The end of the job here"):
        end()


def _membership(spec: JobSpec, job: str) -> Membership:
    nodes = spec.options.nodes
    if spec.discovery is not None:
        return DiscoveredNodes(nodes, spec.discovery, spec.min_workers, spec.max_workers, job)
    return Survivors(nodes, spec.min_workers) if spec.policy == SHRINK else SameNodes(nodes)


def _result(spec: JobSpec, coordinator: Coordinator, results: Mapping[int, Any], restarts: int) -> JobResult:
    """Make the result of the job. A node may have told anything: parts that make no sense are left out, with a warning that
    names them.
    """
    if coordinator.failures:
        _log.warning("The job went on without what others hold too. %s", describe_failures(coordinator.failures))
    # a result of another type becomes one that has nothing
    told = {node: content if isinstance(content, dict) else {} for node, content in results.items()}
    models: dict[int, Model] = {}
    for node, files in sorted(coordinator.files.items()):
        for path in files:
            if node in told and path.name == model_name(spec.options.mission_title, node):
                with spared(f"Reading the model of node({node})"):
                    models[node] = Model.load(path, spec.shipped()["custom_objects"])
    # servers (below 0) have no figures
    figures = {node: content.get("result", {}) for node, content in told.items() if node >= 0}
    accounts = read_accounts(told)
    with spared("The look for parameters that no codec read"):
        warn_of_unread(spec.plan.codec_parameters, [content["unread"] for content in told.values()], spec.codecs())
    with spared("The comparison of what computed"):
        _compare_numerics({node: content["numerics"] for node, content in told.items() if content.get("numerics")})
    with spared("What the nodes say of the end"):
        for content in told.values():
            for remark in filter(None, (content.get("remark"), *content.get("remarks", ()))):
                _log.warning("%s", clean_text(str(remark)))
    ledger = None
    with spared("The ledger"):
        extent = Extent.told(told)
        grid = spec.grid(extent.batches, extent.epochs, extent.sizes)
        ledger = collect(spec.options.mission_title, coordinator.files, grid)
    return JobResult(figures, models, coordinator.files, accounts, coordinator.job, coordinator.failures, restarts, ledger)


def _compare_numerics(numerics: Mapping[int, str]) -> None:
    """Warn when nodes computed with different libraries or kernels, so that their last bits differ."""
    # the first node is the measure; which one is right cannot be told
    reference = min(numerics, default=0)
    for node, described in sorted(numerics.items()):
        if described != numerics[reference]:
            _log.warning(
                "Node(%s) computed with %s, but node(%s) with %s: their bits are not comparable.",
                node,
                described,
                reference,
                numerics[reference],
            )


def read_accounts(told: Mapping[int, Mapping[str, Any]]) -> dict[int, NodeAccounts]:
    """Return the accounts of each node, and warn when packets between nodes that ended well did not arrive.

    Args:
        told: the last report of each node; those whose accounts cannot be read get `NO_ACCOUNTS`.
    """
    accounts = dict.fromkeys(told, NO_ACCOUNTS)
    unheard: dict[int, list[int]] = {}
    for node, content in told.items():
        # rows from the wire: a wrong one costs this node its accounts, not the job its result
        with spared(f"Reading the accounts of node({node})"):
            entries = [Entry(*row) for row in content["accounts"]]
            accounts[node] = NodeAccounts(entries, Times(*content["times"]), content["staleness"])
            unheard[node] = [int(peer) for peer in content["unheard"]]
    with spared("The check of the accounts"):
        # without the nodes that could not be read: empty accounts would look like lost packets
        books = {node: accounts[node] for node in unheard}
        try:
            check_conserved(books, unread(books, unheard))
        except AccountError as error:
            _log.warning("The accounts of the nodes disagree. %s", error)
    return accounts
