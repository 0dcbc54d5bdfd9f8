"""A job on agents: attempt after attempt, until one ends well or nothing more is tried."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from nn.model import Model
from rpc import Coordinator, SubmissionError
from rpc.identity import new_job_id
from rpc.liveness.verdict import Verdict
from rpc.logs import SUBMIT_LOGGER

from .accounts import AccountError, Entry, NodeAccounts, check_conserved, unread
from .answers import answers
from .driver import can_do_without
from .elastic_membership import Discovered
from .errors import JobFailed, describe_failures
from .executors import WorkerExecutor
from .job_executor import MODEL
from .membership import Membership, SameNodes, Survivors, redealt
from .node_ids import Parameter_Server
from .nodes import LocalNodes
from .patience import Patience
from .recovery import AGAIN, REDUNDANT, SHRINK, WAIT, Recovery
from .result import JobResult
from .server_executor import ServerExecutor
from .spec import JobSpec
from .times import Times
from .training import Samples

RETURN_SECONDS, WAIT_SECONDS = 30.0, 600.0
"""How long an attempt that follows a failure waits for nodes that are busy or cannot be reached; the second under 'wait'."""

_log = logging.getLogger(SUBMIT_LOGGER)


def run_on_agents(spec: JobSpec, arrays: Samples, nodes: NodeAssignment, directory: Path) -> JobResult:
    """Submit the job, wait for its end, bring the files home; after a failure do as `spec.on_failure` says.

    Raises: SubmissionError when it could not be started, JobFailed when it did not end well, NetworkError, KeyboardInterrupt.
    """
    job = new_job_id()
    with contextlib.closing(_membership(spec, nodes, job)) as membership:
        run = _RemoteRun(spec, arrays, membership, directory, job)
        result = run.attempt()
        seconds = WAIT_SECONDS if spec.on_failure == WAIT else RETURN_SECONDS
        while result is None:
            result = Patience(seconds, NetworkError, SubmissionError).call(run.attempt)
        return result


def _membership(spec: JobSpec, nodes: NodeAssignment, job: str) -> Membership:
    if spec.discovery is not None:
        return Discovered(nodes, spec.discovery, spec.min_workers, spec.max_workers, job)
    return Survivors(nodes, spec.min_workers) if spec.on_failure == SHRINK else SameNodes(nodes)


class _RemoteRun:
    """One job, on a new connection for each attempt, so that an agent that came back is found again."""

    def __init__(self, spec: JobSpec, arrays: Samples, membership: Membership, directory: Path, job: str) -> None:
        self._spec, self._arrays, self._membership, self._directory = spec, arrays, membership, directory
        self._recovery = Recovery(spec.on_failure, spec.max_restarts)
        self._job = job
        self._attempts = itertools.count()

    def attempt(self) -> JobResult | None:
        """The result of the job, or None when it is to be started again.

        Raises: JobFailed when nothing more is tried.
        """
        nodes = self._membership.nodes
        with Request().request(nodes) as com:
            coordinator = self._submit(com, nodes, next(self._attempts))
            results, _ = coordinator.join(
                stop_on_interrupt=isinstance(nodes, LocalNodes),
                end_together=self._recovery.policy in AGAIN,
                look=self._membership.look if self._spec.discovery is not None else None,
            )
            lost = set(coordinator.failures)
            if lost and not (results and self._can_do_without(lost)):
                self._settle(coordinator)
                return None
        return self._result(coordinator, results)

    def _submit(self, com: Controller, nodes: NodeAssignment, attempt: int) -> Coordinator:
        assignment = redealt(self._spec.plan.assignment, len(nodes.worker_ids))
        spec = replace(self._spec, plan=replace(self._spec.plan, attempt=attempt, assignment=assignment))
        coordinator = Coordinator(
            com,
            spec.bandwidth,
            _log,
            title=spec.title,
            blas_threads=spec.blas_threads,
            directory=self._directory,
            job=self._job,
            attempt=attempt,
            stall=spec.stall_timeout,
        )
        answer = answers(spec, self._arrays)
        size = sum(a.nbytes for a in self._arrays) + len(answer(0, MODEL))
        objects = spec.shipped()
        if nodes.has_parameter_server:
            coordinator.submit_single(ServerExecutor, Parameter_Server, size, objects)
        coordinator.submit_group(WorkerExecutor, nodes.worker_ids, size, objects)
        coordinator.resources_dispatch(answer)
        _log.info("Submission sent %s bytes and read %s bytes.", coordinator.bytes_sent, coordinator.bytes_read)
        return coordinator

    def _can_do_without(self, lost: set[int]) -> bool:
        return self._recovery.policy == REDUNDANT and can_do_without(self._spec.plan.assignment, lost)

    def _settle(self, coordinator: Coordinator) -> None:
        """Say what has happened and what follows.

        Raises: JobFailed when nothing more is tried.
        """
        failed = JobFailed(coordinator.failures, coordinator.files, coordinator.job, coordinator.verdicts)
        ended = coordinator.ended_for  # "" where something has failed
        reason = "" if ended else self._recovery.give_up(_cause(failed.verdicts))
        before = self._membership.nodes
        if not reason:
            _log.warning("%s", ended or describe_failures(failed.failures))
            reason = self._membership.settle(failed)
        if reason:
            if self._recovery.policy in AGAIN:
                _log.error("Giving up: %s.", reason.rstrip("."))
            coordinator.retrieve()
            told = reason if self._spec.discovery is not None else ""
            raise JobFailed(coordinator.failures, coordinator.files, coordinator.job, coordinator.verdicts, told)
        after = self._membership.nodes
        same = dict(after.items()) == dict(before.items())
        _log.warning(
            "%s start again from the newest state that any of them has%s.",
            "All nodes" if same else f"{len(after)} nodes, numbered anew,",
            "" if ended else f" (restart {self._recovery.restarts} of at most {self._recovery.max_restarts})",
        )

    def _result(self, coordinator: Coordinator, results: Mapping[int, Any]) -> JobResult:
        if coordinator.failures:
            _log.warning("The job went on without what others hold too. %s", describe_failures(coordinator.failures))
        custom_objects = self._spec.shipped()["custom_objects"]
        models = {}
        for node, files in sorted(coordinator.files.items()):
            for path in files:
                if node in results and path.suffix == ".model":
                    models[node] = Model.load(path, custom_objects)
        figures = {node: content["result"] for node, content in results.items() if node >= 0}
        accounts = {
            node: NodeAccounts([Entry(*row) for row in content["accounts"]], Times(*content["times"]), content["staleness"])
            for node, content in results.items()
        }
        _check_accounts(accounts, {node: content["unheard"] for node, content in results.items()})
        _compare_numerics({node: content["numerics"] for node, content in results.items()})
        restarts = self._recovery.restarts
        return JobResult(figures, models, coordinator.files, accounts, coordinator.job, coordinator.failures, restarts)


def _cause(verdicts: Sequence[Verdict]) -> tuple[int, int, int] | None:
    """Where it happened: node, epoch and batch of the first verdict; None for a failure at no batch in particular."""
    if not verdicts or not verdicts[0].epoch:
        return None
    first = verdicts[0]
    return first.node, first.epoch, first.batch


def _compare_numerics(numerics: Mapping[int, str]) -> None:
    """Warn when nodes computed with different libraries or kernels, whose last bits differ."""
    reference = min(numerics)
    for node, described in sorted(numerics.items()):
        if described != numerics[reference]:
            _log.warning(
                "Node(%s) computed with %s, but node(%s) with %s: their bits are not comparable.",
                node,
                described,
                reference,
                numerics[reference],
            )


def _check_accounts(books: Mapping[int, NodeAccounts], unheard: Mapping[int, list[int]]) -> None:
    """Warn when what the nodes that ended well have sent to each other did not arrive there."""
    try:
        check_conserved(books, unread(books, unheard))
    except AccountError as error:
        _log.warning("The accounts of the nodes disagree. %s", error)
