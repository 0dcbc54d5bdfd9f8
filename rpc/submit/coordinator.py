"""Coordinator of a job at its submitter: three-phase submission, answering requests, waiting, stopping, bringing the files
home.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from network import VERSION
from network.clock import SystemClock
from network.controller import Controller
from network.errors import NetworkError
from network.session import Session

from ..agent.checks import python_version
from ..dialing import dial_processes
from ..executable import AbsExecutable, Resources
from ..job.kernels import common_kernels
from ..lease.handoff import Handoff
from ..liveness.limits import GROUP_SLACK_SECONDS, RETURN_SECONDS, SINGLE_SLACK_SECONDS, START_SECONDS
from ..messages import MAX_TEXT, CanCommit, Conclude, Granted, Operation, State, Verdict
from ..shipping import Bundle
from ..support.files import is_safe_name
from ..support.identity import new_job_id
from ..support.logs import DETAIL, SUBMIT_LOGGER, attach_console, cleaned
from ..support.processors import CAP
from .completion import EndOfJob, JobOutcome
from .connections import JobMessages
from .event_loop import EventLoop
from .recovery import FAIL
from .restarts import Group, Restarts, Retry, reconnect
from .run_folder import RunFolder, run_name
from .terminal import Interrupts, ProgressDisplay

if TYPE_CHECKING:
    from .tailing import TableReader


class _StoppedError(NetworkError):
    """Error: nothing starts again, for a user has stopped the job."""


class Coordinator(JobOutcome):
    """Coordinator that runs executors on the nodes of `com` (from `network.Request().request(nodes)`).

    A group connects with the groups that were submitted before it, so a node that others need (a parameter server) goes first,
    and stays until they have come. Nothing starts before `resources_dispatch`, or `join` where there is nothing to dispatch.

    Args:
        com: sessions with the agents.
        estimate_bandwidth: bytes per second; sets the limit of preCommit.
        logger: where the story of the job is told; default "P-SGD Submit", on stderr unless the program configured logging.
        title: text that other users see while the job keeps their node busy.
        blas_threads: BLAS threads of each job process; 0 for its share of the cores that its agent may use.
        start_limit: seconds for doCommit.
        directory: where the folder of the run goes, `runs/<title>-<number>/`, with the files of its nodes; or that folder.
        job: id of a job that failed and is tried again; default a new one.
        attempt: which attempt at the job this is, counted from 0; its nodes refuse one that they have had.
        stall: seconds of silence within a step beyond which a node counts as stuck; 0 for the default (see `Limits`).
        driver: the name of the driver for agents (`lease.handoff.new_driver`), if the job is to be handed on.
        term: of the driver's claim (`lease.Election`); 0 for the submitter.
        attempt_state: data on this attempt for its standby drivers (`lease.handoff.Handoff.attempt_state`).
        collects: whether `join` fetches files and results; else they stay with the agents.
        others: ids of nodes of the job that `com` does not reach, and that its nodes may call.
        kernels: the set of BLAS kernels of all its processes: a name of OpenBLAS's, `rpc.job.PORTABLE`, or "" for the set that
            each takes by itself; by default the fastest that all agents of `com` have.
        standstill: seconds for which SIGSTOP may stop a process of the job until it counts as stuck, also one that does not
            signal its progress; 0: for ever.
        display: shows the progress of several attempts as that of one job; the caller closes it.
        tables: reads the tables that the nodes write while they run (`submit.tailing`).

    Raises: ValueError for a title that cannot be a file name.

    Attributes: `job`, its id; `failures`, {node: (state, detail)} of nodes that did not end well; `files`, the saved paths of
    each node; `kernels`, those that were chosen; `verdicts` of the failure detector, first causes first; `ended_for`, why
    `look` has ended it; `restarts`, how often the job was started again.
    """

    def __init__(
        self,
        com: Controller,
        estimate_bandwidth: float = 1048576,
        logger: logging.Logger | None = None,
        *,
        title: str = "job",
        blas_threads: int = 1,
        start_limit: float = START_SECONDS,
        directory: str | Path | RunFolder = ".",
        job: str | None = None,
        attempt: int = 0,
        stall: float = 0.0,
        driver: str = "",
        term: int = 0,
        attempt_state: str = "",
        collects: bool = True,
        others: Iterable[int] = (),
        standstill: float = 0.0,
        kernels: str | None = None,
        display: ProgressDisplay | None = None,
        tables: TableReader | None = None,
    ) -> None:
        if com.key is None:
            raise ValueError(
                "Coordinator 'com' must come from network.Request().request(nodes), which knows the cluster's key."
            )
        # before anything is sent: it names the folder of the run
        if collects and not is_safe_name(run_name(title)):
            raise ValueError(
                f"Coordinator 'title' must be able to stand in a file name (ASCII letters, digits, spaces or any of ._()+-), "
                f"got {title!r}"
            )
        if logger is None:
            attach_console()
        self.job = job or new_job_id()
        self.attempt = attempt
        self.kernels = common_kernels(com) if kernels is None else kernels
        self.ended_for = ""
        self._com = com
        self._bandwidth = estimate_bandwidth
        # texts of nodes go through it: they must not move the terminal's cursor
        self._logger = cleaned(logger or logging.getLogger(SUBMIT_LOGGER))
        question = CanCommit(
            self.job,
            title,
            0,
            [],
            attempt,
            python_version(),
            VERSION,
            blas_threads,
            1,
            0.0,
            start_limit,
            stall,
            driver=driver,
            term=term,
            attempt_state=attempt_state,
            standstill=standstill,
            kernels=self.kernels,
        )
        cores = {node: session.caps.get(CAP) for node, session in com.sessions.items()}
        # node, group and limits are filled in for each node when it is asked
        self._messages = JobMessages(question, com.addresses, com.key, others, cores)
        # a display of the caller's outlives this attempt
        self._display, self._owns_display = display or ProgressDisplay([], self._logger), display is None
        clock = SystemClock()
        run = directory if isinstance(directory, RunFolder) else RunFolder(Path(directory), self.job, title)
        self._loop = loop = EventLoop(
            com, self._messages, self._logger, clock, run=run, start_limit=start_limit, collects=collects, display=self._display
        )
        if tables is not None:
            from .tailing import TableTail  # noqa: PLC0415 - for programs that read tables

            loop.tables = TableTail(self.job, tables, loop.connections.tell_agent, clock)
        self._groups, self._connections, self._handoffs = loop.groups, loop.connections, loop.handoffs
        self._end = EndOfJob(self.job, loop, self._logger)
        self._early: list[tuple[int, Operation]] = []  # of an attempt that was taken over
        self._missing: dict[int, str] = {}
        self._restarts = Restarts()
        self._stopped = ""  # why nothing follows the end
        # all that a later attempt has in common with this one: `join` makes its coordinator
        again: dict[str, Any] = {"title": title, "blas_threads": blas_threads, "start_limit": start_limit, "stall": stall}
        again |= {"directory": run, "job": self.job, "collects": collects, "standstill": standstill, "kernels": self.kernels}
        again |= {"display": self._display, "tables": tables}
        # the kernels as they were asked for, not as chosen: a new set of hosts may have another best
        self._next = partial(Coordinator, com, estimate_bandwidth, logger, **again)

    @property
    def remarks(self) -> list[tuple[int, str]]:
        """Sentences of the job processes of this attempt while it went on, (node, sentence) each: the newest hundred."""
        return list(self._loop.remarks)

    # ---- submission

    def submit_group(
        self,
        executable: Callable[..., AbsExecutable] | Bundle,
        working_group: Iterable[int] | None = None,
        package_size: int = 0,
        objects: Mapping[str, Any] | None = None,
        *,
        on_failure: str = FAIL,
        max_restarts: int = 3,
    ) -> None:
        """Submit an executor to a group of nodes, which will start together (canCommit).

        With `on_failure="restart"` a node that crashes, exits, hangs or is lost while `join` waits ends the job on all nodes;
        when no process of it is left, all start again from the beginning of their executor, but not when the same node has
        failed at the same epoch and batch of its signals three times. An executor finds its saved files in
        `com.output_directory`, which lasts. All groups of a job have the same policy.

        Args:
            executable: the class of the executor, or a bundle that `groups.pack_executable` has made of it and `objects`.
            working_group: ids of the nodes; default: all workers.
            package_size: bytes that will be sent to each node later.
            objects: travel with the class, as its `shipped`.
            on_failure: "fail" or "restart".
            max_restarts: how often at most all start again.

        Raises: SubmissionError naming node and reason; then nothing runs anywhere. TypeError for code that cannot travel,
        ValueError for a policy that does not exist or differs.
        """
        # below 0 is the parameter server, a group of its own
        nodes = sorted({node for node in self._com.sessions if node >= 0} if working_group is None else set(working_group))
        # before the nodes are asked: groups with two policies cannot be one job
        self._restarts.agree(on_failure, max_restarts)
        self._submit(executable, nodes, len(nodes) * package_size / self._bandwidth + GROUP_SLACK_SECONDS, objects)
        self._logger.info("Group submission complete ({%s}).", ", ".join(map(str, nodes)))
        for node in nodes:
            self._logger.info("Worker: (%s) in Version: (%s).", node, VERSION)

    def submit_single(
        self,
        executable: Callable[..., AbsExecutable] | Bundle,
        node_id: int,
        package_size: int = 0,
        objects: Mapping[str, Any] | None = None,
        *,
        on_failure: str = FAIL,
        max_restarts: int = 3,
    ) -> None:
        """Submit an executor to one node that starts by itself, without waiting for others (canCommit).

        Args:
            executable: as for `submit_group`.
            node_id: id of the node.
            package_size, objects, on_failure, max_restarts: as for `submit_group`.

        Raises: as `submit_group`.
        """
        self._restarts.agree(on_failure, max_restarts)
        self._submit(executable, [node_id], package_size / self._bandwidth + SINGLE_SLACK_SECONDS, objects)
        self._logger.info("Single node submission complete.")

    def _submit(self, executable: Any, nodes: Sequence[int], limit: float, objects: Mapping[str, Any] | None) -> None:
        first = not self._groups.machines
        self._groups.submit(executable, nodes, limit, objects)
        # as it travelled: code that has changed here meanwhile has no part in a restart
        self._restarts.groups.append(Group(self._groups.bundle_of(nodes[0]), nodes, limit))
        # once for each job
        if first and not self.attempt:
            self._logger.info("Job id: %s.", self.job)
            self._logger.info("Coordinator version: %s.", VERSION)
            if self.kernels:
                self._logger.info("BLAS kernels of all its nodes: %s.", self.kernels)

    def resources_dispatch(
        self, reply: Callable[[int, str], Any] | None = None, *, dispatch_map: Callable[[int, str], Any] | None = None
    ) -> None:
        """Answer each request of the executors; return when every executor has started (preCommit and doCommit).

        Args:
            reply: called as `reply(node_id, request)`; executors get the content of the `ReplyPackage` that it returns, or any
                other value itself.
            dispatch_map: the same function in the form of version 0.9: there executors get packages, and `package.content()` is
                the content.

        Raises: SubmissionError; then nothing runs anywhere. TypeError without a function, or with two.
        """
        function = dispatch_map if reply is None else reply
        if function is None or None not in (reply, dispatch_map):
            raise TypeError("resources_dispatch takes either 'reply' or 'dispatch_map', a function of (node_id, request).")
        self._dispatch(Resources(function, packages=reply is None))

    def _dispatch(self, resources: Resources) -> None:
        self._restarts.resources = resources
        self._groups.dispatch(resources)
        # from now on agents must send heartbeats
        self._loop.watch()
        self._logger.info("Dispatch complete.")

    def hand_off(self, handoff: Handoff) -> None:
        """Hand `handoff` to all agents of the running job, while `join` waits, so that one of them can drive it without us."""
        self._handoffs.hand_off(handoff, self._loop.running)

    def adopt(
        self,
        groups: Iterable[Sequence[int]],
        granted: Mapping[int, Granted],
        missing: Mapping[int, str],
        early: Iterable[tuple[int, Operation]] = (),
    ) -> None:
        """Go on with a job that another driver has started, with the nodes that have granted it, instead of a submission.

        Where a later attempt was on its way, all nodes are stopped, to be started again: `ended_for` says so.

        Args:
            groups: ids of the nodes of each group.
            granted: grants by node; the other nodes are lost.
            missing: the reason by node of those.
            early: messages of agents since.
        """
        for group in groups:
            self._groups.adopt(group)
        told = list(early)
        self._early = [(node, said) for node, said in told if isinstance(said, Verdict)]  # an agent tells it before the state
        # in the order in which they would have come: verdict, state, all that the agents have told since
        self._early += [(node, State(self.job, node, said.state, said.detail)) for node, said in granted.items()]
        self._early += [(node, said) for node, said in told if not isinstance(said, Verdict)]
        self._missing = dict(missing)
        if any(said.attempt != self.attempt for said in granted.values()):
            self.ended_for = "Its driver was lost while it was about to start again."
            self.stop_executing(self.ended_for)
        else:
            self._loop.watch()

    def conclude(self, outcome: str, detail: str = "", report: str = "", nodes: Iterable[int] | None = None) -> None:
        """Tell agents how the job is over, so that no node drives it any more; see `messages.Conclude`.

        Args:
            outcome: "done", "failed", "stopped" or "left".
            detail: the reason, in words.
            report: verdicts as a text in JSON.
            nodes: ids of those to tell; default: all.
        """
        for node in self._com.available_clients if nodes is None else nodes:
            self._connections.tell_agent(node, Conclude(self.job, node, outcome, detail[:MAX_TEXT], report[:MAX_TEXT]))

    def call(self) -> dict[int, Session]:
        """Open sessions with the running executors of all nodes, to go on talking with them; there the submitter is the peer
        -1.

        The caller moves their bytes, and closes them. Raises: NetworkError naming the first node that cannot be reached.
        """
        sessions, errors = dial_processes({node: self._messages.target(node) for node in self._loop.nodes})
        # all or none, so that the caller has nothing to look after
        if errors:
            for session in sessions.values():
                session.close()
            raise next(iter(errors.values()))
        for node, session in sessions.items():
            session.use_classes(self._groups.classes_of(node))
        return sessions

    # ---- waiting

    def join(
        self, stop_on_interrupt: bool = False, *, end_together: bool = False, look: Callable[[], str] | None = None
    ) -> tuple[dict[int, Any], bool]:
        """Wait for all nodes; return ({node: result} in the order of ids, error). `error`: a node did not end well.

        Groups that were not dispatched start now, if they ask for nothing. Files of every node that ended are saved, those of
        the last attempt where there were several. Ctrl-C leaves the job running, a second one within 2 s stops it. A program
        that leaves does not start it again. One that comes when the job has ended by itself takes no result along: a warning
        tells it, and `pressed`.

        Args:
            stop_on_interrupt: whether the first Ctrl-C stops the job.
            end_together: whether the first node that does not end well ends the job on all others, so that it can be tried
                again; from then on no files are saved, until `retrieve` is called.
            look: called once a second; unless it returns "", the text is the reason for which all nodes are stopped
                (`ended_for`).

        Raises: SubmissionError for executors that ask for something, as there is no reply; then nothing runs anywhere.
        """
        if self._groups.awaits_dispatch and not self._stopped:
            self._dispatch(self._restarts.resources)
        try:
            self._wait_for_end(stop_on_interrupt, end_together, look)
            # a program that leaves does not start it again
            while self.failures and not self.pressed and self._starts_again():
                self._wait_for_end(stop_on_interrupt, end_together, look)
        finally:
            if self._owns_display:
                self._display.close()
        # all is home: Ctrl-C is told by `pressed`, and takes no result along
        with Interrupts() as interrupts:
            if self.failures:
                failed = ", ".join(map(str, self.failures))
                self._logger.warning("The job has ended, but not well on every node: {%s}.", failed, extra=DETAIL)
            else:
                self._logger.info("All the tasks are done.")
        self._end.pressed = self._end.pressed or interrupts.noted
        if self.pressed:
            self._logger.warning("Ctrl-C came when the job had ended by itself: what it has left is here.")
        return dict(sorted(self._loop.results.items())), bool(self.failures)

    @property
    def pressed(self) -> bool:
        """Whether Ctrl-C has come too late for the program to leave the job, which has ended by itself."""
        return self._end.pressed

    def _wait_for_end(self, stop_on_interrupt: bool, end_together: bool, look: Callable[[], str] | None) -> None:
        loop = self._loop
        loop.let_end_together(end_together or self._restarts.wanted)
        # workers first: the parameter server has a negative id
        nodes = sorted(loop.nodes, key=lambda node: (node < 0, node))
        with Interrupts() as interrupts:
            loop.interrupts = interrupts
            self._logger.info("Waiting for ({%s}) ...", ", ".join(map(str, nodes)))
            loop.show()
            try:
                loop.catch_up(self._missing, self._early)
                self._end.wait(interrupts, stop_on_interrupt, None if look is None else lambda: self._look_around(look))
            finally:
                loop.interrupts = None
                loop.hide()
                loop.downloads.close()
        # behind the last look at it
        self._end.pressed = self._end.pressed or interrupts.noted

    def _starts_again(self) -> bool:
        """Decide after an attempt that has failed; return whether another one runs now."""
        failed = [str(node) for node, (state, _) in self.failures.items() if state != "stopped"]
        verdicts = self._loop.monitor.causes
        # a node that was stopped is no failure: then the user wanted it
        if not self._restarts.wanted or self._stopped or self.halted or not (failed or verdicts):
            return False
        reason = self._restarts.give_up(verdicts)
        if not reason:
            self._logger.warning("Nodes {%s} failed. All start again (%s).", ", ".join(failed), self._restarts.describe())
            try:
                # agents of the failed attempt may be busy with its end for some seconds
                Retry(RETURN_SECONDS, NetworkError, never=(_StoppedError,)).call(self._start_again)
                return True
            except _StoppedError as error:
                self._logger.warning("It does not start again: %s", error)
                return False
            except NetworkError as error:
                reason = f"it was not started again within {RETURN_SECONDS:g} s: {error}"
        self._logger.error("Giving up: %s.", reason.rstrip("."))
        # nothing follows, so the files of this attempt are the last ones
        self.retrieve()
        return False

    def _start_again(self) -> None:
        """Start the next attempt, over connections that know nothing of the last one. Raises: NetworkError."""
        if self._stopped:
            raise _StoppedError(self._stopped)
        self.attempt += 1
        # messages of the attempt before may still be on the old connections
        reconnect(self._com, self.job, self._loop.nodes)
        started = self._next(attempt=self.attempt)
        for bundle, group, limit in self._restarts.groups:
            started._groups.submit(bundle, group, limit, None)
        started._dispatch(self._restarts.resources)
        # the same place three times is the program's fault: verdicts of all attempts count
        self._restarts.verdicts += self._loop.monitor.causes
        self._messages, self._loop, self._end = started._messages, started._loop, started._end
        self._groups, self._connections, self._handoffs = started._groups, started._connections, started._handoffs
        if self._stopped:  # by another thread, which may have told only those of the attempt before
            self._loop.stop(self._stopped, is_wanted=True)

    def _look_around(self, look: Callable[[], str]) -> None:
        if not self.ended_for:
            self.ended_for = look()
            if self.ended_for:
                self.stop_executing(self.ended_for)

    def retrieve(self) -> None:
        """Save the files of the nodes that have ended, which `join` did not save."""
        self._loop.retrieve()

    def stop_executing(self, reason: str = "It was stopped by the submitter.") -> None:
        """Tell every node to end the job, for `reason`: executors are interrupted at their next send or receive. `join`
        waits for the end, and starts nothing again.
        """
        # before the order: `join` in another thread must not begin the next attempt behind it
        self._stopped = reason
        self._loop.stop(reason, is_wanted=True)

    def look_after(self) -> dict[int, str]:
        """Take in the messages of the agents, without waiting; return the nodes that are lost, and why.

        For programs that talk with the executors (`call`) instead of waiting by `join`, now and then; a silent host is found
        so, too.
        """
        self._loop.step(0.0)
        return {node: detail for node, (state, detail) in self.failures.items() if state == "lost"}

    def heartbeats(self, node: int) -> int:
        """Return how many heartbeats of `node` have come."""
        return self._loop.monitor.heartbeats[node]

    def await_end(self, seconds: float) -> list[int]:
        """Wait until all nodes have ended, `seconds` at most, without fetching anything; return those that have not."""
        self._loop.step_until(lambda: not self._loop.running, seconds)
        return self._loop.running
