"""The relations between limits: who waits for a verdict waits longer than whoever gives it."""

from __future__ import annotations

import executor.job
from network.controller import WAIT_SECONDS as SHOWN_SECONDS
from network.session import LOOK_SECONDS as SESSION_LOOK_SECONDS
from network.session import STALL_SECONDS as FRAME_SECONDS
from parallel_sgd.elastic import stragglers, worker_handle
from parallel_sgd.engine.channel import MOST_SECONDS as MOST_OVERDUE_SECONDS
from rpc.agent.scheduler_env import GRACE_SECONDS
from rpc.liveness import limits as l

KILLED_SECONDS = l.HALT_SECONDS + l.EXIT_SECONDS + l.LEFT_SECONDS
"""From the order to stop until the node is free, whatever the process does."""
VERDICT_SECONDS = l.STACK_SECONDS + l.LEAST_LOOK_SECONDS + l.STACK_LOOK_SECONDS
"""From the limit of a stuck process to the verdict."""


def test_silence_is_several_heartbeats_and_is_found_within_three_seconds() -> None:
    assert l.SILENT_SECONDS > 4 * l.HEARTBEAT_SECONDS, "one that is late, and one that is lost, prove nothing"
    assert l.SILENT_SECONDS + l.HEARTBEAT_SECONDS + 2 * l.LOOK_SECONDS <= 3.0
    assert l.STARVED_SECONDS > l.STARTING_SILENT_SECONDS > l.SILENT_SECONDS
    assert l.STOPPED_SECONDS >= 2 * l.HEARTBEAT_SECONDS, "a stopped process is looked at once per heartbeat"
    assert l.WORKED_SECONDS >= 2 * l.HEARTBEAT_SECONDS
    assert l.SILENT_SECONDS > l.LATE_SECONDS > l.LOOK_SECONDS


def test_who_waits_shows_it_more_often_than_it_is_looked_for() -> None:
    assert l.WAITING_SECONDS >= 2 * SHOWN_SECONDS
    assert l.LEAST_SILENCE > 2 * l.LEAST_LOOK_SECONDS
    assert l.LINKS_SECONDS > l.WAITING_SECONDS


def test_a_hang_is_declared_within_half_a_second_of_its_limit() -> None:
    assert VERDICT_SECONDS < 0.5
    assert l.RECOVERY_SECONDS < 0.5


def test_a_verdict_comes_before_those_who_wait_for_it_give_up() -> None:
    assert l.SUSPECT_SECONDS > VERDICT_SECONDS + l.HEARTBEAT_SECONDS
    assert (l.VERDICT_HEARTBEATS - 1) * l.HEARTBEAT_SECONDS > VERDICT_SECONDS
    assert max(l.FIRST_BATCH_SECONDS, l.BETWEEN_SECONDS, l.SAVE_SECONDS) + l.SUSPECT_SECONDS < MOST_OVERDUE_SECONDS
    assert max(l.SILENT_SECONDS, l.STARTING_SILENT_SECONDS) + SESSION_LOOK_SECONDS < FRAME_SECONDS
    assert l.DOWNLOAD_SECONDS > FRAME_SECONDS + SESSION_LOOK_SECONDS
    assert stragglers.STOP_SECONDS > stragglers.WARN_SECONDS > l.SILENT_SECONDS + l.SUSPECT_SECONDS


def test_a_driver_that_woke_up_late_does_not_take_its_own_loss_for_that_of_agents() -> None:
    assert l.AWAKE_SECONDS < l.SILENT_DRIVER_SECONDS
    assert l.PROBE_AFTER_SECONDS + l.PROBES * l.PROBE_SECONDS < l.SILENT_DRIVER_SECONDS
    assert l.SILENT_DRIVER_SECONDS > l.SILENT_SECONDS, "whoever drives is not replaced while it finds out who is lost"
    assert l.UNTAKEN_SECONDS > l.STOPPED_SECONDS, "a stopped process takes no bytes"


def test_a_process_that_rolls_back_by_itself_is_not_called_hung() -> None:
    assert l.ROLL_BACK_SECONDS > l.LINGER_SECONDS
    assert l.FIRST_PHASE_SECONDS < l.STARTING_SILENT_SECONDS, "in canCommit the phase ends before its silence is told"
    assert min(l.BEGIN_SECONDS, l.MEET_SECONDS, l.HERE_SECONDS) > l.STARTING_SILENT_SECONDS
    assert l.MEET_SECONDS > 2 * l.CALL_SECONDS
    assert l.EXTRA_SECONDS > l.MORE_SECONDS


def test_the_next_attempt_waits_until_nodes_of_the_last_one_are_free() -> None:
    assert l.RETURN_SECONDS > KILLED_SECONDS > l.HALT_SECONDS
    assert worker_handle.BUSY_SECONDS > KILLED_SECONDS
    assert executor.job.FREE_SECONDS > l.EXIT_SECONDS + l.LEFT_SECONDS
    assert executor.job.RETURN_SECONDS > l.LEFT_SECONDS + l.TAKE_BACK_SECONDS
    assert KILLED_SECONDS + l.FAREWELL_SECONDS < GRACE_SECONDS, "an agent that must leave ends its jobs first"


def test_drivers_are_patient_until_another_one_can_have_taken_over() -> None:
    begins = l.PLACE_SECONDS + 2 * l.ANSWER_SECONDS  # a standby driver starts, claims the job, and proposes an attempt
    assert begins < l.DEPOSED_SECONDS
    assert l.SILENT_DRIVER_SECONDS + begins < l.RETURN_SECONDS
    assert 2 * l.LONGEST_PAUSE_SECONDS + l.SILENT_DRIVER_SECONDS + begins < l.WAIT_SECONDS
    assert l.FIRST_PAUSE_SECONDS < l.LONGEST_PAUSE_SECONDS
    assert max(l.RETRY_SECONDS, l.PAUSE_SECONDS) < l.DEPOSED_SECONDS
    assert l.HANDOFF_SECONDS > l.SILENT_SECONDS and l.LEAVE_SECONDS < l.AWAKE_SECONDS
