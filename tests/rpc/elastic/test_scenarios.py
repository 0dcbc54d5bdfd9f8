"""The driver of an elastic job, event by event: rounds and whose hosts they are, failures, and what is used again afterwards.

A scenario begins with the statements that it asserts, and what it shows (`tests.scenarios`).
"""

from __future__ import annotations

from typing import Any

import pytest

from network.nodes import Address
from rpc.elastic import ElasticDriver, Worker

from ...scenarios import scenarios
from ...statements import covers
from .elastic_job import Job, option

ROUNDS = """
EL-15 EL-17 the start waits for the workers asked for (workers=3)
  see -> pause: Training waits: the job has 0 of the 3 slots that it needs.
  see a=2 -> pause: Training waits: the job has 2 of the 3 slots that it needs.
  see a=2
  see a=2 b=1 -> round 0: a[0] a[1] b[0]
EL-15 EL-19 later rounds need only the minimum (workers=3)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  die a[0]
  ready b[0] c[0] -> round 1: b[0] c[0]
  die c[0]
  ready b[0] -> round 2: b[0]
EL-15 surplus slots stay empty (high=3)
  see a=1 b=2 -> round 0: a[0] b[0] b[1]
  see a=1 b=2 c=4
  see a=3 b=2 c=1
  see b=2 a=1
  see b=2 a=1 c=1
EL-13 EL-15 a surplus slot takes the place of a lost one, which is no pure removal (high=2)
  see a=1 b=1 c=1 -> round 0: a[0] b[0]
  see a=1 c=1 -> notify a[0] #1 mixed
  ready -> remove b[0] | round 1 #1: a[0] c[0]^1
EL-10 EL-18 only rank 0 is told of changes, once of each
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  see a=1 b=1 c=1
  heard 1
  see a=1 b=1 -> notify a[0] #2 removed
  heard 2
  see b=1 c=1 -> notify a[0] #3 mixed
EL-10 EL-14 a notice is repeated until it is heard, and a newer one includes it
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  due 1 -> notify a[0] #1 added
  tick 0.99
  see a=1 b=1 c=1
  tick 0.01 -> notify a[0] #1 added
  see a=1 b=1 -> notify a[0] #2 mixed
  heard 1
  tick 1 -> notify a[0] #2 mixed
  heard 2
  tick 5
  rests
EL-10 EL-15 a notice ends with its round
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  ready -> round 1 #1: a[0] b[0] c[0]^1
  rests
  tick 5
EL-14 FLT-18 two changes within 50 ms count, with the clock set back by an hour between them
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  heard 1
  wall -3600
  tick 0.05
  see a=1 b=1 c=1 d=1 -> notify a[0] #2 added
  ready -> round 1 #2: a[0] b[0] c[0]^1 d[0]^1
EL-10 rank 0 dies before it looks: what the notice said is in the round that follows, once
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  heard 1
  die a[0]
  ready b[0] -> round 1 #1: b[0] c[0]^1
  see a=1 b=1 c=1
  tick 2
EL-14 changes between the first READY and the last need no notice
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 b=1 c=1 -> notify a[0] #1 added
  ready a[0]
  see a=1 b=1 c=1 d=1
  ready b[0] -> round 1 #1: a[0] b[0] c[0]^1 d[0]^1
EL-11 the oldest host leads (workers=3)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  see d=1 c=1 b=1 -> notify a[0] #1 mixed
  ready -> remove a[0] | round 1 #1: b[0] c[0] d[0]^1
EL-11 EL-22 a host that comes back after its cool-down is a newcomer (cool_down=10..40)
  see a=1 b=1 -> round 0: a[0] b[0]
  die a[0]
  ready b[0] -> round 1: b[0]
  due 10 20 -> notify b[0] #1 added
  ready b[0] -> round 2 #1: b[0] a[0]^2
EL-11 EL-22 a host that is back before the others gather comes behind all that lived on (workers=3 cool_down=1..1)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  die a[0]
  tick 2
  ready b[0] c[0] -> round 1: b[0] c[0] a[0]^1
EL-11 EL-8 a newcomer that never synchronised does not lead, though its host, or its slot, comes first (workers=1)
  see a=1 -> round 0: a[0]
  see a=1 b=1 c=2 -> notify a[0] #1 added
  ready -> round 1 #1: a[0] b[0]^1 c[0]^1 c[1]^1
  die a[0]
  blank b[0] c[0]
  ready c[1] -> round 2 #1: c[1]^1 c[0]^1 b[0]^1
  see b=1 c=2 d=1 -> notify c[1]^1 #2 added
  ready -> round 3 #2: c[0]^1 c[1]^1 b[0]^1 d[0]^3
EL-11 a surplus host that was there early does not overtake (high=2)
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 c=1 b=1
  see b=1 c=1 -> notify a[0] #1 mixed
  ready -> remove a[0] | round 1 #1: b[0] c[0]^1
  see c=1 b=1 d=1
  see c=1 d=1 -> notify b[0] #2 mixed
  ready -> remove b[0] | round 2 #2: c[0]^1 d[0]^2
EL-12 a survivor without the state is no survivor (workers=1)
  see a=1 -> round 0: a[0]
  see a=1 b=1 -> notify a[0] #1 added
  ready -> round 1 #1: a[0] b[0]^1
  die a[0]
  blank b[0] -> * | fail: No hosts from previous set remaining, unable to broadcast state....
EL-12 all hosts replaced at once: nobody is left running
  see a=1 b=1 -> round 0: a[0] b[0]
  see c=1 d=1 -> notify a[0] #1 mixed
  ready -> stop a[0]... | stop b[0]... | fail: No hosts from previous set remaining, unable to broadcast state.
  over
EL-12 the last survivor dies in the pause: the job fails at once, not at the time-out (workers=3 low=3)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  see a=1 -> notify a[0] #1 removed
  ready -> pause: Training waits: the job has 1 of the 3 slots that it needs.
  die b[0]
  die c[0]
  die a[0] -> fail: No hosts from previous set remaining, unable to broadcast state. / The first worker to fail was:
    & / Process name: a[0] / Exit code: 1
EL-12 with a checkpoint on disk newcomers resume from it
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps
  see c=1 d=1 -> notify a[0] #1 mixed
  ready -> remove a[0] | remove b[0] | round 1 #1 resumes: c[0]^1 d[0]^1
  see c=1 d=1 e=1 -> notify c[0]^1 #2 added
  ready -> round 2 #2: c[0]^1 d[0]^1 e[0]^2
EL-13 EL-16 EL-23 below the minimum training pauses, survivors are kept, and it goes on when slots return (low=2)
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 -> notify a[0] #1 removed
  ready -> pause: Training waits: the job has 1 of the 2 slots that it needs.
  tick 5
  see a=1
  tick 5
  see a=1 c=1 -> remove b[0] | round 1 #1: a[0] c[0]^1
EL-16 a host that is back in time has lost nothing (low=2)
  see a=1 b=1 -> round 0: a[0] b[0]
  see -> notify a[0] #1 removed
  ready -> pause: Training waits: the job has 0 of the 2 slots that it needs.
  see b=1 a=1 -> round 1 #1: a[0] b[0]
EL-16 the time-out before the first round, to the moment (low=2)
  see a=1 -> pause: Training waits: the job has 1 of the 2 slots that it needs.
  tick 599
  see a=1
  due 1 -> fail: Timed out waiting for minimum number of slots to become available: after 600 s the job has 1 of the 2
    & slots that it needs.
  over
EL-16 the time-out in a pause counts from its beginning (low=2)
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 -> notify a[0] #1 removed
  tick 50 -> notify a[0] #1 removed
  ready -> pause: Training waits: the job has 1 of the 2 slots that it needs.
  tick 599
  see a=1
  due 1 -> stop a[0]... | stop b[0]... | fail: Timed out waiting for minimum number of slots to become available: ...
EL-16 EL-17 a discovery that never answers times out (timeout=5)
  tick 5 -> fail: Timed out waiting for minimum number of slots to become available: after 5 s no hosts are known yet.
EL-24 hosts {L}, {L,R}, {R} with two slots each: three rounds of 2, 4, 2, led by ranks 0, 0, 2 of their first round
  see L=2 -> round 0: L[0] L[1]
  see L=2 R=2 -> notify L[0] #1 added
  ready -> round 1 #1: L[0] L[1] R[0]^1 R[1]^1
  see R=2 -> notify L[0] #2 removed
  ready -> remove L[0] | remove L[1] | round 2 #2: R[0]^1 R[1]^1
"""


@covers("EL-8", "EL-10", "EL-11", "EL-12", "EL-13", "EL-14", "EL-15", "EL-16", "EL-17", "EL-18", "EL-22", "EL-24", "FLT-18")
@pytest.mark.parametrize(("options", "scenario"), scenarios(ROUNDS, option))
def test_rounds_and_hosts(options: dict[str, Any], scenario: str) -> None:
    Job(**options).play(scenario)


FAILURES = """
EL-17 a first discovery that fails
  discovery exit code 1. -> fail: The first discovery of hosts failed: exit code 1.
EL-17 a later discovery that fails
  see a=1 b=1 -> round 0: a[0] b[0]
  discovery exit code 1. -> warn: The discovery of hosts failed, the last answer still counts: exit code 1.
  ready -> round 1: a[0] b[0]
EL-19 an exception takes its host out, whose other workers are stopped, and the rest go on renumbered (workers=4)
  see a=2 b=2 -> round 0: a[0] a[1] b[0] b[1]
  die a[1] -> stop a[0]: a[0] is stopped: a[1] on the same host has failed.
  die a[0] -15
  ready b[0]
  ready b[1] -> round 1: b[0] b[1]
  tick 1e6
  see a=2 b=2
EL-19 so does a kill, and a neighbour that is never heard of again holds nobody up (workers=4)
  see a=2 b=2 -> round 0: a[0] a[1] b[0] b[1]
  die a[1] -9 -> stop a[0]...
  ready b[0] b[1] -> round 1: b[0] b[1]
EL-27 a stuck worker is stopped at once, and later answered as one that was removed
  see a=1 b=1 -> round 0: a[0] b[0]
  stuck b[0] silent for 10 s -> stop b[0]: b[0] is stopped: it is given up.
  ready b[0] -> remove b[0]
  ready a[0] -> round 1: a[0]
  ready b[0] -> remove b[0]
  stuck b[0]
  die b[0] -9
EL-20 success of one ends the job when every worker has recorded (workers=3)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  exits a[0] b[0]
  ready c[0] -> stop c[0]: The job has ended well. | finish
  die c[0] -15
  over
EL-20 who exits 0 after its host was taken away finishes nothing, whose function returned does
  see a=1 b=1 -> round 0: a[0] b[0]
  see a=1 -> notify a[0] #1 removed
  exits b[0]
  ready a[0] -> round 1 #1: a[0]
  see b=1 -> notify a[0] #2 mixed
  returns a[0] -> finish
EL-20 exit 0 without a return is no success (workers=1)
  see a=1 -> round 0: a[0]
  leaves a[0] -> fail: All workers have failed....
EL-20 EL-21 the error names the first process to fail, by time, its exit code, and the verdict on it
  see a=1 b=1 -> round 0: a[0] b[0]
  die b[0] 3 Node(1) crashed in step of epoch 2, batch 5.
  die a[0] -15 -> fail: All workers have failed. / The first worker to fail was: / Process name: b[0] / Exit code: 3
    & / Node(1) crashed in step of epoch 2, batch 5.
EL-21 a process that never was has no exit code (workers=1)
  see a=1 -> round 0: a[0]
  refuses a[0] The agent of a does not answer. -> fail: All workers have failed. / The first worker to fail was:
    & / Process name: a[0] / The agent of a does not answer.
EL-19 EL-20 where the only host is blacklisted all have failed (workers=3)
  see a=3 -> round 0: a[0] a[1] a[2]
  die a[1] -> stop a[0]... | stop a[2]... | fail: All workers have failed. / The first worker to fail was:
    & / Process name: a[1]...
EL-20 so many rounds follow the first one (reset_limit=1)
  see a=1 b=1 -> round 0: a[0] b[0]
  ready -> round 1: a[0] b[0]
  ready -> * | fail: The number of resets during elastic job exceeded limit: 1
EL-20 READY, then FAILURE counts once (workers=3 reset_limit=1)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  ready a[0]
  die a[0]
  ready b[0]
  ready c[0] -> round 1: b[0] c[0]
EL-16 EL-19 who dies in the pause is not counted on any more (workers=3 low=3)
  see a=1 b=1 c=1 -> round 0: a[0] b[0] c[0]
  see a=1 b=1 -> notify a[0] #1 removed
  ready -> pause: Training waits: the job has 2 of the 3 slots that it needs.
  die a[0] -> pause: Training waits: the job has 1 of the 3 slots that it needs.
  see a=1 b=1 d=1 e=1 -> remove c[0] | round 1 #1: b[0] d[0]^1 e[0]^1
FD-14 late words of an earlier round do not count, an end counts once
  see a=1 b=1 -> round 0: a[0] b[0]
  ready -> round 1: a[0] b[0]
  late a[0]
  ready b[0]
  ready a[0] -> round 2: a[0] b[0]
  die a[0]
  die a[0]
EL-23 a living worker without a slot is removed, and its end changes nothing
  see a=2 -> round 0: a[0] a[1]
  see a=1 -> notify a[0] #1 removed
  ready -> remove a[1] | round 1 #1: a[0]
  die a[1]
  ready a[1] -> remove a[1]
EL-23 a slot is freed before it is used again
  see a=2 -> round 0: a[0] a[1]
  see a=1 -> notify a[0] #1 removed
  ready -> remove a[1] | round 1 #1: a[0]
  see a=2 -> notify a[0] #2 added
  ready -> stop a[1]: a[1] is stopped: its slot is needed. | round 2 #2: a[0] a[1]^2
"""


@covers("EL-16", "EL-17", "EL-19", "EL-20", "EL-21", "EL-23", "EL-27", "FD-14")
@pytest.mark.parametrize(("options", "scenario"), scenarios(FAILURES, option))
def test_failures_and_ends(options: dict[str, Any], scenario: str) -> None:
    Job(**options).play(scenario)


AGAIN = """
EL-19 only the failed slot is out (workers=4 cool_down=5..20) (workers=4 resumes)
  see a=2 b=2 -> round 0: a[0] a[1] b[0] b[1]
  die a[0] -9
  ready a[1] b[0] b[1] -> round 1: a[1] b[0] b[1]
EL-19 a lost agent takes its host out (workers=4 cool_down=5..20) (workers=4 resumes)
  see a=2 b=2 -> round 0: a[0] a[1] b[0] b[1]
  silent a[1] -> stop a[0]... | stop a[1]...
  ready b[0] b[1] -> round 1: b[0] b[1]
EL-19 a newcomer that cannot be reached harms no neighbour: the agent still speaks for that one (workers=1 cool_down=5..20)
  see a=1 -> round 0: a[0]
  see a=2 -> notify a[0] #1 added
  ready -> round 1 #1: a[0] a[1]^1
  unreachable a[1]
  ready a[0] -> round 2 #1: a[0]
EL-22 a slot is used again after lo, 2 lo, at most hi, plus a jitter of at most lo (cool_down=2..5)
  see a=2 -> round 0: a[0] a[1]
  die a[1]
  ready a[0] -> round 1: a[0]
  due 2 4 -> notify a[0] #1 added
  ready a[0] -> round 2 #1: a[0] a[1]^2
  die a[1]
  ready a[0] -> round 3 #1: a[0]
  due 4 6 -> notify a[0] #2 added
  ready a[0] -> round 4 #2: a[0] a[1]^4
  die a[1]
  ready a[0] -> round 5 #2: a[0]
  due 5 7 -> notify a[0] #3 added
  ready a[0] -> round 6 #3: a[0] a[1]^6
  die a[1]
  ready a[0] -> round 7 #3: a[0]
  due 5 7 -> notify a[0] #4 added
EL-12 EL-20 all fail, and the job goes on from the file on all hosts, the spare one, too (high=3 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  see a=1 b=1 c=1 -> notify a[0] #1 added
  perish -> warn: All workers have failed. The job goes on from the state that was kept last.
    & | round 1 #1 resumes: a[0]^1 b[0]^1 c[0]^1
EL-20 a single worker that hangs: another process takes its slot (workers=1 resumes)
  see a=1 -> round 0: a[0]
  keeps some
  stuck a[0] stuck -> stop a[0]... | warn: All workers have failed. The job goes on from the state that was kept last. |
    & stop a[0]... | round 1 resumes: a[0]^1
FD-10 EL-20 without a file all begin anew, and the log says so (resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  perish -> warn: All workers have failed. The job goes on from the beginning, as nothing was kept yet. | round 1 resumes: ...
EL-20 without a checkpoint a cool-down does not help (cool_down=1..1)
  see a=1 b=1 -> round 0: a[0] b[0]
  perish -> fail: All workers have failed....
EL-20 EL-22 a period that was asked for holds with a checkpoint, too (cool_down=10..40 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  perish -> warn... | pause...
  due 10 20 -> round 1 resumes: ...
EL-20 a returned worker has won (resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  returns a[0]
  die b[0] -> finish
EL-20 the last survivor fails in the pause, as if all had failed at the same moment (low=2 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  see a=1 -> notify a[0] #1 removed
  ready -> pause...
  die b[0]
  die a[0] -> warn...
  see a=1 b=1 -> round 1 #1 resumes: a[0]^1 b[0]^1
EL-20 EL-22 below the minimum the slot that failed is used again, until it has failed three times at one place (low=2 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  die b[0]
  ready a[0] -> round 1: a[0] b[0]^1
  die b[0]
  ready a[0] -> round 2: a[0] b[0]^2
  die b[0]
  ready a[0] -> stop a[0]... | fail: Too few workers are left. The same failure has come 3 times at the same place, so it
    & would come again. / The first worker to fail was: ...
EL-20 FD-20 the third failure at the same place is the last, with signals or without (resumes place=2.5) (resumes place=0.0)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  perish -> warn: All workers have failed. The job goes on from the state that was kept last. | round 1 resumes: ...
  perish -> warn: All workers have failed. The job goes on from the state that was kept last. | round 2 resumes: ...
  perish -> fail: All workers have failed. The same failure has come 3 times at the same place, so it would come again.
    & / The first worker to fail was: / Process name: b[0]...
  over
EL-20 FD-20 failures at other places, and of those that only lost others, are no repetition (resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps 1
  perish -> warn... | round 1 resumes: ...
  perish 1.1 -> warn... | round 2 resumes: ...
  keeps 2
  perish -> warn... | round 3 resumes: ...
  perish 1.2 -> warn... | round 4 resumes: ...
  keeps 3
  perish -> warn... | round 5 resumes: ...
  perish nowhere -> warn... | round 6 resumes: ...
  perish nowhere -> warn... | round 7 resumes: ...
  perish nowhere -> warn... | round 8 resumes: ...
EL-20 rounds from the file are counted as all others (reset_limit=2 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  perish 1.1 -> warn... | round 1 resumes: ...
  perish 1.2 -> warn... | round 2 resumes: ...
  perish 1.3 -> fail: The number of resets during elastic job exceeded limit: 2...
EL-16 EL-20 hosts that do not answer are asked again; a round that never began is no reset (reset_limit=1 timeout=30 resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  perish -> warn... | round 1 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 0.5 -> round 2 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 1 -> round 3 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 2 -> round 4 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 4 -> round 5 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 8 -> round 6 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 8 -> round 7 resumes: ...
  unreachable a[0] b[0] -> * | pause...
  due 6.5 -> fail: Timed out waiting for minimum number of slots to become available: after 30 s...
EL-20 one host answers, goes on alone, and is not kept from it by the other one (resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps some
  perish -> warn... | round 1 resumes: ...
  unreachable a[0]
  ready b[0] -> round 2: b[0]^1
  tick 1e6
  see a=1 b=1
EL-20 FD-20 however often a host is lost, the program has not failed (workers=1 resumes)
  see a=1 -> round 0: a[0]
  silent a[0] -> stop a[0]... | warn... | pause...
  due 0.5 -> stop a[0]... | round 1 resumes: a[0]^1
  silent a[0] -> stop a[0]^1... | warn... | pause...
  due 1 -> * | round 2 resumes: a[0]^2
  silent a[0] -> stop a[0]^2... | warn... | pause...
  due 2 -> * | round 3 resumes: a[0]^3
  silent a[0] -> stop a[0]^3... | warn... | pause...
  due 4 -> * | round 4 resumes: a[0]^4
EL-20 an agent that leaves, or is busy, is asked again (workers=1 resumes)
  see a=1 -> round 0: a[0]
  perish 1.1 -> warn... | round 1 resumes: a[0]^1
  refuses a[0] this worker leaves -> warn... | pause...
  due 1 -> round 2 resumes: a[0]^2
  refuses a[0] this worker leaves -> warn... | pause...
  due 2 -> round 3 resumes: a[0]^3
  refuses a[0] this worker leaves -> warn... | pause...
  due 4 -> round 4 resumes: a[0]^4
  refuses a[0] this worker leaves -> warn... | pause...
  due 8 -> round 5 resumes: a[0]^5
EL-20 hosts that none of the first workers can be started on are an error of the call (resumes)
  see a=1 b=1 -> round 0: a[0] b[0]
  keeps of an earlier job
  unreachable a[0] b[0] -> fail: All workers have failed....
"""


@covers("EL-12", "EL-16", "EL-19", "EL-20", "EL-22", "FD-10", "FD-20")
@pytest.mark.parametrize(("options", "scenario"), scenarios(AGAIN, option))
def test_what_failed_is_used_again(options: dict[str, Any], scenario: str) -> None:
    """After a cool-down, or because the state is on disk."""
    Job(**options).play(scenario)


@pytest.mark.parametrize("numbers", [(2, 0, None), (2, 3, None), (2, 1, 1), (0, None, None)])
def test_numbers_that_do_not_fit(numbers: Any) -> None:
    with pytest.raises(ValueError, match="An elastic job needs 1 <= min_workers <= workers <= max_workers, got"):
        ElasticDriver(*numbers, now=0.0)
    with pytest.raises(ValueError, match="'timeout' of an elastic job must be a number of seconds > 0, got 0"):
        ElasticDriver(1, timeout=0, now=0.0)


@covers("EL-21")
def test_ports_that_are_not_the_usual_one_are_told() -> None:
    """Several agents of one host have different names."""
    assert str(Worker(Address("h", 5000), 2, 0)) == "h:5000[2]"


def test_what_cannot_be() -> None:
    with pytest.raises(RuntimeError, match="ElasticDriver cannot take rubbish now"):
        Job().tell("rubbish")
