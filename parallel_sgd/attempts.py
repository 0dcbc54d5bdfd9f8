"""The attempts at a job on agents, one after the other, until one ends well or nothing more is tried.

Whoever drives does it so: the submitter, or an heir that has taken over. Neither needs a user's object for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from network.controller import Controller
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from rpc import Coordinator, SubmissionError
from rpc.errors import Deposed
from rpc.listing import jobs_known
from rpc.logs import SUBMIT_LOGGER, get_logger
from rpc.patience import Patience
from rpc.recovery import AGAIN, REDUNDANT, SHRINK, WAIT, Recovery
from rpc.run_folder import RUNS, RunFolder
from rpc.succession.will import Will

from .answers import answers, package_bytes
from .driver import can_do_without
from .errors import JobFailed, describe_failures
from .estate import HEIR, Charter, Estate
from .job_executor import MISC
from .membership import Membership
from .node_ids import Parameter_Server
from .quorum import silent_majority
from .training import Samples
from .verdicts import places_of, report_of

RETURN_SECONDS, WAIT_SECONDS = 30.0, 600.0
"""How long an attempt that follows a failure waits for nodes that are busy or cannot be reached; the second under 'wait'."""
DEPOSED_SECONDS = 5.0

_log = get_logger(SUBMIT_LOGGER)


class Running(NamedTuple):
    """An attempt that runs, and the connections with its agents."""

    com: Controller
    coordinator: Coordinator
    nodes: NodeAssignment


class Attempts:
    """Drives one job.

    Args:
        estate: the job.
        membership: who takes part, from attempt to attempt.
        recovery: what follows when one has failed.
        request: connects with agents.
        samples: loads the data set for nodes that lack it.
        run: where files go; None where none are fetched.
        driver: the name by which agents know us; "" for a job that ends with us.
        attempt: the number of the next attempt.
    """

    def __init__(
        self,
        estate: Estate,
        membership: Membership,
        recovery: Recovery,
        request: Request,
        samples: Callable[[], Samples],
        run: RunFolder | None,
        *,
        driver: str = "",
        attempt: int = 0,
    ) -> None:
        self._estate, self._membership, self.recovery = estate, membership, recovery
        self._request, self._samples, self._run = request, samples, run
        self._driver, self._collects = driver, run is not None
        self._attempt = attempt
        self._content = estate.to_bytes() if driver else b""
        self._running: Running | None = None
        self._deposed_since = 0.0

    def drive(
        self, taken_over: Running | None = None, *, stop_on_interrupt: bool = False
    ) -> tuple[Coordinator, dict[int, Any]]:
        """The attempt that ended well, and its results; `taken_over` is an attempt that somebody else has started.

        Raises: SubmissionError or NetworkError when the first attempt could not be started, JobFailed when nothing more is
        tried, Deposed when somebody else has taken over, KeyboardInterrupt.
        """
        try:
            self._running = running = taken_over or self._start()
            if taken_over is not None:
                self._entrust(taken_over)
            while True:
                results = self._join(running.coordinator, stop_on_interrupt)
                if results is not None:
                    running.coordinator.conclude("done")
                    return running.coordinator, results
                failed = self._settle(running)
                try:
                    running = self._again(failed)
                except KeyboardInterrupt:
                    self._say_goodbye()
                    raise
        finally:
            if self._running is not None:
                self._running.com.close()

    # ---- one attempt

    def _start(self) -> Running:
        """Connect, submit, start; the connections of the attempt before end only then, so that agents see us all the time."""
        nodes = self._membership.nodes
        com = self._request.request(nodes)
        try:
            if self._attempt == 0:
                self._check_resume(com)
            coordinator = self._coordinator(com, self._attempt)
            self._attempt += 1
            self._submit(coordinator, nodes)
        except BaseException:
            com.close()
            raise
        self._deposed_since = 0.0
        self._begin_run()
        before, self._running = self._running, Running(com, coordinator, nodes)
        self._entrust(self._running)
        if before is not None:  # only now, so that somebody could go on if we died in between
            staying = {address for _, address in nodes.items()}
            left = [node for node, address in before.nodes.items() if address not in staying]
            before.coordinator.conclude("left", nodes=left)
            before.com.close()
        return self._running

    def _begin_run(self) -> None:
        """The run is known from now on; where the disk refuses that, from when its first files come."""
        if self._run is not None:
            try:
                self._run.begin()
            except OSError as error:
                _log.warning("%s cannot be written to: %s.", self._run.path, error.strerror)

    def _entrust(self, running: Running) -> None:
        """Hand on what an heir needs to go on from here, if the job is to survive us."""
        if self._driver:
            charter = Charter.of(running.coordinator.attempt, running.nodes, self.recovery)
            running.coordinator.entrust(Will(self._driver, HEIR, self._content, charter.to_json()))

    def _coordinator(self, com: Controller, attempt: int) -> Coordinator:
        estate = self._estate
        return Coordinator(
            com,
            estate.bandwidth,
            _log,
            title=estate.title,
            blas_threads=estate.blas_threads,
            directory=self._run or ".",
            job=estate.job,
            attempt=attempt,
            stall=estate.stall,
            driver=self._driver,
            collects=self._collects,
        )

    def adopted(self, com: Controller, attempt: int) -> Coordinator:
        """A coordinator for an attempt that somebody else has started."""
        return self._coordinator(com, attempt)

    def _submit(self, coordinator: Coordinator, nodes: NodeAssignment) -> None:
        estate, workers = self._estate, nodes.worker_ids
        size = package_bytes(estate.replies)
        if nodes.has_parameter_server:
            coordinator.submit_single(estate.server, Parameter_Server, size)
        coordinator.submit_group(estate.workers, workers, size)
        coordinator.resources_dispatch(
            answers(estate.replies, coordinator.attempt, len(workers), estate.bandwidth, self._samples)
        )
        _log.info("Submission sent %s bytes and read %s bytes.", coordinator.bytes_sent, coordinator.bytes_read)

    def _check_resume(self, com: Controller) -> None:
        misc = self._estate.replies[MISC]
        if misc["resume"] and not misc["sends_checkpoint"] and not jobs_known(com, misc["resume"]):
            raise SubmissionError(
                f"The job was not started: 'resume' names job {misc['resume'][0]}, which none of its nodes knows. A job "
                f"goes on with the workers that have its checkpoints, or in the directory whose '{RUNS}' has them."
            )

    def _join(self, coordinator: Coordinator, stop_on_interrupt: bool) -> dict[int, Any] | None:
        """Wait for the end of the attempt; the results if it is one that counts as good."""
        try:
            results, _ = coordinator.join(
                stop_on_interrupt=stop_on_interrupt,
                end_together=self.recovery.policy in AGAIN,
                look=self._membership.look if self._estate.is_elastic else None,
            )
        except KeyboardInterrupt:
            if coordinator.halted:
                coordinator.conclude("stopped", coordinator.halted)
            raise
        lost = set(coordinator.failures)
        done = set(results) if self._collects else coordinator.done
        if lost and not (done and self._can_do_without(lost)):
            return None
        return None if coordinator.halted and lost else results

    def _can_do_without(self, lost: set[int]) -> bool:
        return self.recovery.policy == REDUNDANT and can_do_without(self._estate, lost)

    # ---- between attempts

    def _settle(self, running: Running) -> JobFailed:
        """Say what has happened and what follows.

        Raises: JobFailed when nothing more is tried.
        """
        coordinator = running.coordinator
        failed = self._failed(coordinator)
        ended = coordinator.ended_for  # "" where something has failed
        if coordinator.halted:
            raise self._give_up(coordinator, f"It was stopped: {coordinator.halted}", "stopped")
        reason = "" if ended else self.recovery.give_up(places_of(failed))
        before = self._membership.nodes
        if not reason:
            _log.warning("%s", ended or describe_failures(failed.failures))
            reason = self._membership.settle(failed)
        if reason:
            if self.recovery.policy in AGAIN:
                _log.error("Giving up: %s.", reason.rstrip("."))
            raise self._give_up(coordinator, reason if self._estate.is_elastic else "")
        after = self._membership.nodes
        same = dict(after.items()) == dict(before.items())
        _log.warning(
            "%s start again from the newest state that any of them has%s.",
            "All nodes" if same else f"{len(after)} nodes, numbered anew,",
            "" if ended else f" (restart {self.recovery.restarts} of at most {self.recovery.max_restarts})",
        )
        return failed

    def _failed(self, coordinator: Coordinator, reason: str = "") -> JobFailed:
        failures = dict(coordinator.failures)
        if coordinator.ended_for:  # what was taken back did not fail
            failures = {node: failure for node, failure in failures.items() if failure[0] != "aborted"}
        return JobFailed(failures, coordinator.files, coordinator.job, coordinator.verdicts, reason)

    def _give_up(self, coordinator: Coordinator, reason: str, outcome: str = "failed") -> JobFailed:
        """Fetch what there is, and tell the agents that it is over; returns what is to be raised."""
        if self._collects:
            coordinator.retrieve()
        failed = self._failed(coordinator, reason)
        coordinator.conclude(outcome, str(failed), report_of(failed.verdicts))
        return failed

    def _again(self, failed: JobFailed) -> Running:
        """Start the next attempt, as soon as its nodes can be reached and take it.

        Raises: JobFailed naming who could not be reached, Deposed.
        """
        seconds = WAIT_SECONDS if self.recovery.policy == WAIT else RETURN_SECONDS
        before = self._running
        try:
            if self._driver and before is not None and self.recovery.policy == SHRINK:
                self._await_majority(before.nodes, failed, seconds)
            return Patience(seconds, NetworkError, SubmissionError, never=(Deposed,)).call(self._start_again)
        except Deposed:
            raise
        except NetworkError as error:
            if before is None:
                raise
            reason = f"It was not started again within {seconds:g} s: {error}"
            _log.error("Giving up: %s", reason)
            raise self._give_up(before.coordinator, reason) from error

    def _start_again(self) -> Running:
        """As `_start`. An heir that was started because one agent had lost us claims the job for a moment, and gives it up."""
        try:
            return self._start()
        except Deposed as error:
            now = time.monotonic()
            self._deposed_since = self._deposed_since or now
            if now - self._deposed_since > DEPOSED_SECONDS:
                raise
            raise SubmissionError(str(error)) from error

    def _say_goodbye(self) -> None:
        """Whoever leaves between two attempts leaves the next one to an heir."""
        if self._driver:
            job = self._estate.job
            _log.warning("The job %s goes on without us. 'psgd-submit --attach %s' shows its progress again.", job, job)

    def _await_majority(self, nodes: NodeAssignment, failed: JobFailed, seconds: float) -> None:
        """Wait while those that are silent could go on without us.

        Raises: NetworkError when they stay silent.
        """
        deadline, said = time.monotonic() + seconds, False
        lost = [node for node, (state, _) in failed.failures.items() if state == "lost"]
        while reason := silent_majority(self._request, nodes, lost, submitter=self._collects):
            if time.monotonic() >= deadline:
                raise NetworkError(reason)
            if not said:
                _log.warning("Training pauses: %s", reason)
            said = True
            time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))
