"""Loop that drives a job on agents: it starts one attempt after the other until one ends well or nothing more is tried.

The driver is the submitter, or a standby driver that has taken over. Neither needs an object of the user's.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from network.clock import SleepingClock, SystemClock
from network.controller import Controller
from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.request import Request
from nn.dataset.interface import Arrays
from rpc import Coordinator, Deposed, SubmissionError, limits
from rpc.job import common_kernels
from rpc.lease import Candidacy, Handoff, NoMajority
from rpc.messages import MAX_TEXT
from rpc.submit import (
    AGAIN,
    REDUNDANT,
    RUNS,
    WAIT,
    Interrupts,
    ProgressDisplay,
    Recovery,
    Retry,
    RunFolder,
    interrupted,
    jobs_known,
)
from rpc.submit.downloads import NOT_SAVED
from rpc.support.logs import DETAIL, SUBMIT_LOGGER, get_logger

from ..checkpoint.snapshot import CheckpointError
from ..checkpoint.state import check_epochs
from ..checkpoint.store import position_of
from ..engine.channel import Parameter_Server
from ..engine.job_executor import MISC
from ..engine.progress import Position
from ..engine.socket_channel import can_do_without
from ..errors import JobFailed, describe_failures, places_of, report_of
from ..record.identity import Told
from ..record.spared import spared
from .manifest import STANDBY, AttemptState, JobManifest, attempt_resources, package_bytes
from .membership import Membership

if TYPE_CHECKING:
    from rpc.submit import TableReader

_MOST_NOTES: Final = 100  # of attempts before, the newest
Result = TypeVar("Result")
_log = get_logger(SUBMIT_LOGGER)


class RunningAttempt(NamedTuple):
    """Attempt that runs, and the connections with its agents.

    Args:
        com: the connections.
        coordinator: drives the attempt.
        nodes: its nodes.
        term: the term in which it was agreed to.
        is_ours: whether this driver began it.
    """

    com: Controller
    coordinator: Coordinator
    nodes: NodeAssignment
    term: int = 0
    is_ours: bool = True


class Begin(NamedTuple):
    """Numbers with which a loop goes on: 0 for a new job, those of the driver before for a standby driver.

    Args:
        attempt: number of the next attempt.
        term: the term of our newest claim.
        kernels: the BLAS kernels, if they are chosen already.
    """

    attempt: int = 0
    term: int = 0
    kernels: str | None = None


class RestartLoop:
    """Driver's loop over the attempts of one job: runs an attempt, and the next one on the nodes that are left, until one ends
    well or none can follow.

    Args:
        manifest: the job.
        membership: says which nodes take part in each attempt.
        recovery: decides what follows when an attempt has failed.
        request: makes the connections.
        samples: loads the data set for nodes that lack it.
        run: folder for the files of the job; None where none are fetched.
        driver: the name by which agents know us, "" for a job that ends with us.
        begin: numbers of the first attempt.

    Attributes: `recovery`; `clock`, by which it waits; `on_failure`, told of each attempt after which the job goes on; `left`,
    whether Ctrl-C has left the job to its nodes; `tables`, the reader of the tables of the nodes while the job runs;
    `identities`, those that the nodes told at the start of each attempt.
    """

    def __init__(
        self,
        manifest: JobManifest,
        membership: Membership,
        recovery: Recovery,
        request: Request,
        samples: Callable[[], Arrays],
        run: RunFolder | None,
        *,
        driver: str = "",
        # a frozen tuple, so it may be a default
        begin: Begin = Begin(),  # noqa: B008
    ) -> None:
        self._manifest, self._membership, self.recovery = manifest, membership, recovery
        self._request, self._samples, self._run = request, samples, run
        self.clock: SleepingClock = SystemClock()
        self.on_failure: Callable[[int, JobFailed], None] | None = None
        self.left = False
        self.interrupted = False
        self.tables: TableReader | None = None
        self.identities: list[Told] = []
        # a driver without a folder fetches nothing: a standby driver is on a node
        self._driver, self._collects = driver, run is not None
        self._attempt, self._term, self._kernels = begin
        self._content = manifest.to_bytes() if driver else b""
        # agents compare the hash, so that they go on with this very job
        self._sha256 = hashlib.sha256(self._content).hexdigest()
        self._running: RunningAttempt | None = None
        self._noted: deque[str] = deque(maxlen=_MOST_NOTES)
        # one display for all attempts, so that lines of progress do not restart
        self._display = ProgressDisplay([], _log)
        self._candidacy: Candidacy | None = None  # for going on from the attempt that runs, once its nodes are asked

    def drive(
        self, taken_over: RunningAttempt | None = None, *, stop_on_interrupt: bool = False
    ) -> tuple[Coordinator, dict[int, Any]]:
        """Drive the job to its end; return the attempt that ended well, and its results.

        Args:
            taken_over: an attempt that another driver has started, or None.
            stop_on_interrupt: stop the job on Ctrl-C, in place of leaving it to its nodes.

        Raises: SubmissionError or NetworkError when the first attempt could not be started, JobFailed when nothing more is
        tried, Deposed when another driver has taken over, KeyboardInterrupt.
        """
        try:
            self._running = running = taken_over or self._start()
            # handed off anew: agents must know the driver that they have now
            if taken_over is not None:
                self._hand_off(taken_over)
            while True:
                results = self._join(running.coordinator, stop_on_interrupt)
                try:
                    if results is not None:
                        self._end_well(running)
                        return running.coordinator, results
                    if running.coordinator.pressed:
                        raise interrupted()
                    # only here, between attempts: within one, Ctrl-C is the coordinator's
                    running = self._again(self._settle(running))
                except KeyboardInterrupt:
                    # a job that is done goes on nowhere
                    if results is None:
                        self._name_successor()
                    raise
        finally:
            # the display first: it must not draw over the last lines
            ends = [self._display.close]
            ends += [] if self._candidacy is None else [self._candidacy.close]
            ends += [] if self._running is None else [self._running.com.close]
            # one that fails leaves none of the others open: an agent takes us for alive as long as a connection stands
            for end in ends:
                with spared("The end of the connections"):
                    end()

    @property
    def notes(self) -> list[str]:
        """Sentences of the nodes on their troubles while the job went on, such as a full disk; those of attempts before the
        newest one name the attempt, for numbers of nodes change.
        """
        newest = () if self._running is None else self._running.coordinator.remarks
        return [*self._noted, *(f"Node({node}): {text}" for node, text in newest)]

    # ---- one attempt

    def _start(self) -> RunningAttempt:
        """Connect, submit, start; the connections of the attempt before end only then, so that agents see us all the time."""
        nodes = self._membership.nodes
        com = self._request.request(nodes)
        try:
            # only the first attempt begins with the state of another job
            # later attempts begin with checkpoints of their own job (`checkpoint.agree`)
            if self._attempt == 0:
                self._check_resume(com)
            # chosen once: all attempts of a job give the same bits
            if self._kernels is None:
                self._kernels = self._manifest.options.bits or common_kernels(com)
            coordinator = self.coordinator(com, self._attempt, nodes)
            # counted before it is submitted: where that fails, some nodes know an attempt of this number
            self._attempt += 1
            self._submit(coordinator, nodes)
        except BaseException:
            com.close()
            raise
        # not before: a job that its nodes refuse leaves no run behind
        self._begin_run()
        before, self._running = self._running, RunningAttempt(com, coordinator, nodes, self._term)
        self._hand_off(self._running)
        if before is not None:
            number = before.coordinator.attempt + 1
            self._noted += (f"Node({node}) in attempt {number}: {text}" for node, text in before.coordinator.remarks)
            # only now, so that a standby driver could go on if we died in between
            if self._candidacy is not None:
                self._candidacy.conclude(self._left_out(before.nodes), "left", f"Attempt {coordinator.attempt + 1} goes on.")
                self._candidacy.close()
                self._candidacy = None
            before.com.close()
        return self._running

    def _begin_run(self) -> None:
        """Make the run known from now on; where the disk refuses that, from when its first files come."""
        if self._run is not None:
            try:
                self._run.begin()
            except OSError as error:
                _log.warning("%s cannot be written to: %s.", self._run.path, error.strerror)

    def _hand_off(self, running: RunningAttempt) -> None:
        """Hand on the manifest and the state with which a standby driver goes on from here, if the job is to survive us."""
        if self._driver:
            # with each attempt: a standby driver goes on from the newest one
            state = self._state(running.coordinator.attempt, running.nodes)
            running.coordinator.hand_off(Handoff(self._driver, STANDBY, self._content, state.to_json(), running.term))

    def _state(self, attempt: int, nodes: NodeAssignment) -> AttemptState:
        return AttemptState.of(attempt, nodes, self.recovery, self._kernels or "")

    def coordinator(self, com: Controller, attempt: int, nodes: NodeAssignment) -> Coordinator:
        """Make the coordinator of an attempt with `nodes`, by whichever driver it was started."""
        manifest = self._manifest
        return Coordinator(
            com,
            manifest.options.network_bandwidth,
            _log,
            title=manifest.options.mission_title,
            blas_threads=manifest.options.thread_count,
            directory=self._run or ".",
            job=manifest.job,
            attempt=attempt,
            stall=manifest.options.stall_timeout or 0.0,
            driver=self._driver,
            term=self._term,
            attempt_state=self._state(attempt, nodes).to_json() if self._driver else "",
            kernels=self._kernels,
            collects=self._collects,
            display=self._display,
            tables=self.tables,
        )

    def _submit(self, coordinator: Coordinator, nodes: NodeAssignment) -> None:
        manifest, workers = self._manifest, nodes.worker_ids
        size = package_bytes(manifest.resources)
        # SUB-11: the server first, so that it is there when the workers begin
        if manifest.server is not None and nodes.has_parameter_server:
            coordinator.submit_single(manifest.server, Parameter_Server, size)
        coordinator.submit_group(manifest.workers, workers, size)
        coordinator.resources_dispatch(
            attempt_resources(
                manifest.resources,
                coordinator.attempt,
                len(workers),
                manifest.options.network_bandwidth,
                self._samples,
                lambda node, text: self.identities.append(Told(coordinator.attempt + 1, node, text)),
            )
        )
        _log.info("Submission sent %s bytes and read %s bytes.", coordinator.bytes_sent, coordinator.bytes_read)

    def _check_resume(self, com: Controller) -> None:
        misc = self._manifest.resources[MISC]
        if not misc["resume"] or misc["sends_checkpoint"]:
            return
        known = jobs_known(com, misc["resume"])
        # a job that no node knows would train from the beginning, unnoticed
        if not known:
            raise SubmissionError(
                f"The job was not started: 'resume' names job {misc['resume'][0]}, which none of its nodes knows. A job "
                f"goes on with the workers that have its checkpoints, or in the directory whose '{RUNS}' has them."
            )
        # the nodes choose one that all have, or a newer one; each of them refuses too few epochs, but only after the start
        positions = [{*filter(None, map(position_of, names))} for names in known]
        # a parameter server that remembers nothing has none
        held = [each for each in positions if each]
        if held and (common := set[Position].intersection(*held)):
            try:
                check_epochs(max(common), self._manifest.options.epoch)
            except CheckpointError as error:
                raise SubmissionError(f"The job was not started: {error}.") from None

    def _join(self, coordinator: Coordinator, stop_on_interrupt: bool) -> dict[int, Any] | None:
        """Wait for the end of the attempt; return the results if it is one that counts as good."""
        try:
            results, _ = coordinator.join(
                stop_on_interrupt=stop_on_interrupt,
                # under a policy that starts again all nodes end together, since those that are well would only wait
                end_together=self.recovery.policy in AGAIN,
                # hosts come and go only under discovery
                look=self._membership.look if self._manifest.is_elastic else None,
            )
        except KeyboardInterrupt:
            # halted: the user stopped it; else the agents drive it on (SUB-15)
            self.left = not coordinator.halted
            if coordinator.halted:
                coordinator.conclude("stopped", coordinator.halted)
            raise
        lost = set(coordinator.failures)
        # a standby driver fetches no results
        done = set(results) if self._collects else coordinator.done
        if lost and not (done and self._can_do_without(lost)):
            return None
        # stopped and lost: it was not redundant, it was ended
        return None if coordinator.halted and lost else results

    def _can_do_without(self, lost: set[int]) -> bool:
        return self.recovery.policy == REDUNDANT and can_do_without(self._manifest.holders, lost)

    # ---- between attempts

    def _ask(self, running: RunningAttempt) -> Candidacy:
        if self._candidacy is None:
            coordinator = running.coordinator
            # since which attempt nodes are asked: one that knows a newer one says so
            since = running.term, coordinator.attempt
            candidate = self._manifest.candidate(self._driver, self._sha256, self._term, since, not running.is_ours)
            lost = [node for node, (state, _) in coordinator.failures.items() if state == "lost"]
            dead = coordinator.known_dead
            self._candidacy = Candidacy(self._request, running.nodes, candidate, _log, lost=lost, known_dead=dead)
        return self._candidacy

    def _agree(self, running: RunningAttempt) -> None:
        """Have the nodes of the last attempt agree to the next one.

        Raises: NoMajority, Deposed.
        """
        candidacy = self._ask(running)
        state = self._state(self._attempt, self._membership.nodes)
        staying = set(running.nodes).difference(self._left_out(running.nodes))
        # those that are left out need not agree
        candidacy.agree(self._attempt, state.to_json(), staying)
        # nodes may have known a later claim, so that the election took a higher term than it began with
        self._term = candidacy.election.term

    def _end_well(self, running: RunningAttempt) -> None:
        """End a job that is done. Where it did without nodes that are silent, these may be going on with it, too.

        Raises: JobFailed when it stays unknown whether they are, Deposed.
        """
        # nodes that were lost may be alive elsewhere, and drive the job as well (INV-14)
        if self._driver and running.coordinator.failures:
            try:
                self._await_majority(self._ask(running).require)
            except NoMajority as error:
                raise self._stuck(running.coordinator, error) from error
        # the result is here: Ctrl-C takes it along no more
        with Interrupts() as interrupts, spared("Telling the agents that the job is over"):
            running.coordinator.conclude("done")
        self.interrupted = interrupts.noted or running.coordinator.pressed

    def _settle(self, running: RunningAttempt) -> JobFailed:
        """Log the failure and its consequence; return the failure.

        Raises: JobFailed when nothing more is tried.
        """
        coordinator = running.coordinator
        failed = self._failed(coordinator)
        ended = coordinator.ended_for  # "" where something has failed
        if coordinator.halted:
            halted = coordinator.halted
            # a reason of ours is a sentence
            reason = halted if halted.startswith("It was ") else f"It was stopped: {halted}"
            raise self._give_up(coordinator, reason, "stopped")
        # a round that ended because hosts have changed is no failure, and uses up no restart
        # places of the culprits, for the rule that the same place is not tried more than three times (FD-20)
        reason = "" if ended else self.recovery.give_up(places_of(failed))
        lost = [why for _, why in failed.failures.values()]
        if not ended and lost and all(why.startswith(NOT_SAVED) for why in lost):
            # training is over, and another attempt would meet the same disk
            reason = "the files of the job find no room here"
        before = self._membership.nodes
        if not reason:
            # details stand in the page; on the screen they are for verbose=2
            _log.warning("%s", ended or describe_failures(failed.failures), extra=None if ended else DETAIL)
            # before `settle`, which may wait for hosts for minutes
            if self.on_failure is not None:
                # the page of the run tells of it while the next attempt starts
                self.on_failure(coordinator.attempt, failed)
            reason = self._membership.settle(failed)
        if reason:
            told = reason if self._manifest.is_elastic else ""
            if self.recovery.policy in AGAIN:
                _log.error("Giving up: %s.", reason.rstrip("."))
                told = told or f"Given up: {reason.rstrip('.')}."
            raise self._give_up(coordinator, told)
        after = self._membership.nodes
        same, one = dict(after.items()) == dict(before.items()), len(after) == 1
        _log.warning(
            "%s again from the newest state that any of them has%s.",
            "All nodes start" if same else f"{len(after)} node{'s' * (not one)}, numbered anew, start{'s' * one}",
            "" if ended else f" (restart {self.recovery.restarts} of at most {self.recovery.max_restarts})",
        )
        return failed

    def _failed(self, coordinator: Coordinator, reason: str = "") -> JobFailed:
        failures = dict(coordinator.failures)
        if coordinator.ended_for:  # a node that was taken back did not fail
            # "aborted" by us for other hosts: no failure to be told
            failures = {node: failure for node, failure in failures.items() if failure[0] != "aborted"}
        return JobFailed(failures, coordinator.files, coordinator.job, coordinator.verdicts, reason)

    def _give_up(self, coordinator: Coordinator, reason: str, outcome: str = "failed") -> JobFailed:
        """Fetch the files that there are, and tell the agents that the job is over; return the error to be raised.

        Where too many are silent the job is over here, and may go on there. Raises: Deposed when another driver has it.
        """
        # what there is, also of a failed job (SUB-13)
        if self._collects:
            coordinator.retrieve()
        if self._driver and self._running is not None and outcome == "failed":
            try:
                # without a majority others may have begun the next attempt already
                self._unless_deposed(self._ask(self._running).require)
            except NoMajority as error:
                outcome = "left"
                job = self._manifest.job
                _log.warning("The job may go on without us, which 'psgd attach %s' would show. %s", job, error)
        # workers of this program end with it, and keep nothing
        remedy = coordinator.remedy if self._driver else ""
        failed = self._failed(coordinator, " ".join(filter(None, (reason, remedy))))
        # agents end their part, and keep the reason for `psgd attach`
        coordinator.conclude(outcome, str(failed), report_of(failed.verdicts))
        if self._candidacy is not None:
            # nodes that had agreed but are not connected hear of the end, too
            untold = self._candidacy.election.granted.keys() - set(coordinator.connected)
            self._candidacy.conclude(untold, outcome, str(failed)[:MAX_TEXT])
        return failed

    def _again(self, failed: JobFailed) -> RunningAttempt:
        """Start the next attempt, as soon as its nodes can be reached and take it.

        Raises: JobFailed naming the nodes that could not be reached, Deposed.
        """
        # under wait a node is expected back, and may take its time
        seconds = limits.WAIT_SECONDS if self.recovery.policy == WAIT else limits.RETURN_SECONDS
        # decisions of other nodes, which trying again at once does not change: they have a patience of their own,
        # in `_await_majority`
        patience = Retry(seconds, NetworkError, SubmissionError, never=(Deposed, NoMajority), clock=self.clock)
        before = self._running
        try:
            return self._await_majority(lambda: patience.call(self._start_again))
        except Deposed:
            raise
        except NoMajority as error:
            raise failed if before is None else self._stuck(before.coordinator, error) from error
        except NetworkError as error:
            if before is None:
                raise
            reason = f"It was not started again within {seconds:g} s: {error}"
            _log.error("Giving up: %s", reason)
            raise self._give_up(before.coordinator, reason) from error

    def _stuck(self, coordinator: Coordinator, error: NoMajority) -> JobFailed:
        """Give up a job of which it is unknown whether it may go on from here; return the error to be raised."""
        reason = f"It could not go on within {limits.WAIT_SECONDS:g} s. {error}"
        _log.error("Giving up: %s", reason)
        return self._give_up(coordinator, reason)

    def _left_out(self, nodes: NodeAssignment) -> list[int]:
        """Return those of `nodes` that the membership has no place for any more."""
        # by address: numbers of nodes change with each attempt
        staying = {address for _, address in self._membership.nodes.items()}
        return [node for node, address in nodes.items() if address not in staying]

    def _await_majority(self, ask: Callable[[], Result]) -> Result:
        """Pause while too many nodes are silent, which could be going on without us.

        Raises: NoMajority when they stay silent, Deposed.
        """
        # NoMajority may end when a partition heals (FLT-25)
        deadline, said = self.clock.monotonic() + limits.WAIT_SECONDS, ""
        while True:
            try:
                return self._unless_deposed(ask)
            except NoMajority as error:
                left = deadline - self.clock.monotonic()
                if left <= 0:
                    raise
                # told once for each cause, and not with every try
                if str(error) != said:
                    said = str(error)
                    _log.warning("Training pauses, for up to %.0f s: %s", left, said)
            self.clock.sleep(min(limits.PAUSE_SECONDS, left))

    def _start_again(self) -> RunningAttempt:
        """Start the next attempt, as `_start` does, when the nodes of the last one have agreed to it."""
        if self._driver and self._running is not None:
            self._agree(self._running)
        return self._start()

    def _unless_deposed(self, act: Callable[[], Result]) -> Result:
        """Try again while another driver holds the job: a standby driver that was started because one agent had lost us claims
        it for a moment, and gives it up.

        Raises: Deposed when it does not, and each error of `act`.
        """
        return Retry(limits.DEPOSED_SECONDS, Deposed, clock=self.clock).call(act)

    def _name_successor(self) -> None:
        """Leave the next attempt to a standby driver: a driver that leaves between two attempts starts none."""
        if self._driver:
            self.left, job = True, self._manifest.job
            _log.warning("The job %s goes on without us. 'psgd attach %s' shows its progress again.", job, job)
