"""Whole elastic jobs in memory: the real driver, real states, threads, and workers that die in the middle of an exchange."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nn
from nn.gradient_descent import ADAMOptimizer
from parallel_sgd.elastic import ElasticSampler, HostsUpdatedInterrupt, ModelState, ObjectState, run
from rpc.elastic.events import Finish, NotifyRankZero, Pause, RemoveWorker

from ...statements import covers
from .cluster import Cluster, Member, Program

SAMPLES, BATCH = 60, 4


def counting(member: Member) -> Any:
    """Trains one epoch on a model that only counts which sample it has learned how often."""
    state = ObjectState(sampler=ElasticSampler(SAMPLES, BATCH, seed=1), learned=np.zeros(SAMPLES), steps=0)
    cluster = member.cluster

    @run
    def train(state: ObjectState) -> Any:
        for rows in state.sampler:
            cluster.reach(state.steps)
            mine = np.zeros(SAMPLES)
            mine[rows] = 1
            state.learned += member.allreduce(mine, "sum")
            state.sampler.record_batch()
            state.steps += 1
            state.commit()
        return state.learned.tolist(), state.steps

    return train(state)


class Hosts:
    """Hosts of a cluster that come and go."""

    def __init__(self, cluster: Cluster, **slots: int) -> None:
        self.cluster, self.slots = cluster, dict(slots)

    def change(self, add: str = "", remove: str = "") -> None:
        self.slots.update(dict.fromkeys(add, 1))
        for name in remove:
            self.slots.pop(name, None)
        self.cluster.see(**self.slots)


@covers("EL-1", "EL-25")
def test_without_any_change() -> None:
    with Cluster(counting, 3) as cluster:
        cluster.see(a=2, b=1)
        assert isinstance(cluster.join(), Finish)
        assert len(cluster.rounds) == 1
        assert list(cluster.results.values()) == [([1.0] * SAMPLES, 15)] * 3


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("kill"), st.integers(0, 3), st.sampled_from(["before", "after", "split"])),
        st.tuples(st.just("add"), st.just(0), st.just("")),
        st.tuples(st.just("remove"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("stuck"), st.integers(0, 1), st.just("")),
    ),
    min_size=5,
    max_size=5,
)


def play(cluster: Cluster, hosts: Hosts, spare: list[str], event: tuple[str, int, str]) -> None:
    """One thing happens; a host that is lost is replaced, so that the job can go on."""
    kind, rank, doom = event
    workers = cluster.rounds[-1].workers
    victim = workers[rank % len(workers)]
    staying = {
        worker.address.host
        for worker in workers
        if worker.address.host in hosts.slots and not (cluster.members[worker].doom or cluster.members[worker].stopped)
    }
    if kind == "add":
        hosts.change(add=spare.pop())
    elif staying - {victim.address.host}:  # somebody must be left who knows what was learned
        if kind == "remove":
            hosts.change(remove=victim.address.host)
        elif kind == "kill":
            cluster.kill(rank, doom)
        else:
            cluster.stop_and_give_up(rank % len(workers))
        hosts.change(add=spare.pop())


@covers("EL-26", "EL-8", "EL-13")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, st.lists(st.integers(0, 14), min_size=5, max_size=5), st.integers(1, 2), st.booleans())
def test_any_five_changes_and_kills(events: list[tuple[str, int, str]], moments: list[int], low: int, slow: bool) -> None:
    """Whatever comes, goes and dies, before, in and after an exchange: every worker that ends the epoch has
    learned each sample exactly once, and nobody waits for ever."""
    with Cluster(counting, 3, low=low, high=4, slow=slow) as cluster:
        hosts, spare = Hosts(cluster, a=1, b=1, c=1), list("zyxwvutsrqpon")
        for moment, event in zip(moments, events, strict=True):
            cluster.plan.setdefault(moment, []).append(lambda event=event: play(cluster, hosts, spare, event))
        hosts.change()
        assert isinstance(cluster.join(), Finish)
        assert cluster.results
        for learned, steps in cluster.results.values():
            assert learned == [1.0] * SAMPLES
            assert steps == 15


Seen = list[tuple[str, int, int]]


class Counted(ObjectState):
    """Counts how often it is synchronised, over all workers."""

    syncs: ClassVar[list[int]] = []

    def sync(self) -> None:
        self.syncs.append(1)
        super().sync()


def stepping(seen: Seen, until: int, commits: Collection[int] = range(100), checks: Collection[int] = ()) -> Program:
    """Makes so many steps, commits and checks when these are done, and notes each: by whom, its rank, and what was done."""

    def program(member: Member) -> Any:
        @run
        def train(state: ObjectState) -> Any:
            while state.done < until:
                seen.append((str(member.worker), member.rank, state.done))
                member.cluster.reach(state.done)
                member.allreduce(np.ones(1))
                state.done += 1
                if state.done in commits:
                    state.commit()
                if state.done in checks:
                    state.check_host_updates()
            return state.done

        return train(Counted(done=0))

    return program


@covers("EL-28")
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("doom", ["before", "after", "split"])
def test_what_a_kill_costs(rank: int, doom: str) -> None:
    """The batches since the last commit at most: with a commit after each, no more than one batch is learned again."""
    seen: Seen = []
    with Cluster(stepping(seen, 10), 3) as cluster:
        cluster.plan[5] = [lambda: cluster.kill(rank, doom)]
        cluster.see(a=1, b=1, c=1)
        assert isinstance(cluster.join(), Finish)
    attempts = [done for _, rank, done in seen if rank == 0]
    assert sorted(set(attempts)) == list(range(10)) and len(attempts) <= 11


@covers("EL-3", "EL-2")
def test_uncommitted_changes_survive_a_change_of_hosts() -> None:
    """What was done since the last commit is kept by the old workers and taken over by the new one; EL-2: a loss goes
    back to the commit."""
    seen: Seen = []
    with Cluster(stepping(seen, 30, commits=[10], checks=[16]), 2) as cluster:
        cluster.plan = {15: [lambda: cluster.see(a=1, b=1, c=1)], 20: [lambda: cluster.kill(1)]}
        cluster.see(a=1, b=1)
        assert isinstance(cluster.join(), Finish)
    begun = [(worker, rank) for worker, rank, done in seen if done == 16]
    assert sorted(begun[:3]) == [("a[0]", 0), ("b[0]", 1), ("c[0]", 2)]
    assert sorted(begun[3:]) == [("a[0]", 0), ("c[0]", 1)]  # sync has saved what everybody had
    assert sorted(worker for worker, _, done in seen if done == 15) == ["a[0]", "b[0]"]


@covers("EL-13", "EL-23")
def test_a_pure_removal_needs_no_sync() -> None:
    """Nobody sends the state; and the removed worker says farewell."""
    Counted.syncs.clear()
    with Cluster(stepping([], 10), 3) as cluster:
        cluster.plan[5] = [lambda: cluster.see(a=1, c=1)]
        cluster.see(a=1, b=1, c=1)
        assert isinstance(cluster.join(), Finish)
        assert len(cluster.rounds) == 2 and len(Counted.syncs) == 3
    assert cluster.farewells == ["b[0] has been removed from elastic job"]


@covers("EL-9")
@pytest.mark.parametrize("seed", range(50))
def test_all_are_interrupted_at_the_same_call(seed: int) -> None:
    """50 random moments at which the notice arrives, from another thread or between two calls: the same call index."""
    draw = random.Random(seed)
    indices: dict[str, list[int]] = {}

    def program(member: Member) -> Any:
        state = ObjectState(calls=0)
        seen = indices.setdefault(str(member.worker), [])

        @run
        def train(state: ObjectState) -> None:
            while state.calls < 6:
                state.calls += 1
                if draw.random() < 0.2:
                    member.cluster.reach("now")
                try:
                    state.check_host_updates()
                except HostsUpdatedInterrupt:
                    seen.append(state.calls)
                    raise
            member.cluster.reach("now")
            state.check_host_updates()

        return train(state)

    with Cluster(program, 3) as cluster:
        cluster.plan["now"] = [lambda: cluster.see(a=1, b=1, c=1, d=1)]
        cluster.see(a=1, b=1, c=1)
        assert isinstance(cluster.join(), Finish)
        old = [indices[f"{name}[0]"] for name in "abc"]
        assert old[0] == old[1] == old[2]
        notices = [action for action in cluster.actions if isinstance(action, NotifyRankZero)]
        assert len(notices) == 1 and str(notices[0].worker) == "a[0]"
        assert len(old[0]) + len(indices.get("d[0]", [])) <= 1


@covers("EL-13", "EL-16")
def test_a_removal_below_the_minimum_then_newcomers() -> None:
    """Survivors wait, told of a pure removal; when newcomers join, everybody syncs and nobody waits for ever."""
    with Cluster(counting, 3, low=3) as cluster:
        cluster.plan[5] = [lambda: cluster.see(a=1, b=1)]
        cluster.see(a=1, b=1, c=1)
        with cluster.changed:
            cluster.wait(lambda: any(isinstance(a, Pause) for a in cluster.actions), "the pause")
        cluster.see(a=1, b=1, e=1)
        assert isinstance(cluster.join(), Finish)
        assert cluster.results == dict.fromkeys(["a[0]", "b[0]", "e[0]"], ([1.0] * SAMPLES, 15))
        # the farewell is for who is not in the next round, which was not known in the pause
        assert [str(a.worker) for a in cluster.actions if isinstance(a, RemoveWorker)] == ["c[0]"]


def training(member: Member) -> Any:
    """A real model: every worker computes the gradient of its part, the sum is the gradient of the batch."""
    rng = np.random.default_rng(0)
    x, label = rng.normal(size=(SAMPLES, 3)), rng.integers(0, 2, SAMPLES)
    model = nn.model.SequentialModel(
        [-1, 3], [nn.layer.Dense(4, activation=nn.activation.ReLU()), nn.layer.Dense(2)], dtype="float64"
    )
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(ADAMOptimizer)
    state = ModelState(model, sampler=ElasticSampler(SAMPLES, BATCH, seed=1), step=0)

    @run
    def train(state: ModelState) -> Any:
        while state.sampler.epoch < 2:
            for rows in state.sampler:
                member.cluster.reach(state.step)
                total = np.zeros_like(model.store.gradients)
                if len(rows):
                    model.compute_gradients(x[rows], label[rows], lambda variable: None)
                    total += model.store.gradients * len(rows)
                np.copyto(model.store.gradients, member.allreduce(total, "sum") / BATCH)
                for variable in reversed(model.trainable_variables()):
                    model.optimizer.gradient_ready(variable, 0)
                model.apply_gradients()
                state.sampler.record_batch()
                state.step += 1
                state.commit()
            state.sampler.set_epoch(state.sampler.epoch + 1)
        return model.store.values.copy(), state.step

    return train(state)


@covers("EL-8", "EL-26", "EL-28")
def test_a_model_trains_as_if_nothing_had_happened() -> None:
    """Two epochs with Adam, two kills and two changes end where an undisturbed run ends: with equal bits on
    all workers, and equal to that run but for rounding, as the sum runs over another number of workers."""
    with Cluster(training, 3) as calm:
        calm.see(a=1, b=1, c=1)
        assert isinstance(calm.join(), Finish)
    with Cluster(training, 3, low=1) as cluster:
        hosts = Hosts(cluster, a=1, b=1, c=1)
        cluster.plan = {
            3: [lambda: hosts.change(add="de")],
            9: [lambda: cluster.kill(0, "split")],
            14: [lambda: hosts.change(remove="b")],
            20: [lambda: cluster.kill(1, "after"), lambda: hosts.change(add="f")],
        }
        hosts.change()
        assert isinstance(cluster.join(), Finish)
        assert not cluster.plan and len(cluster.rounds) >= 4
    ends = [*cluster.results.values()]
    assert len({values.tobytes() for values, _ in ends}) == 1
    expected, steps = calm.results["a[0]"]
    assert {done for _, done in ends} == {steps} == {30}
    np.testing.assert_allclose(ends[0][0], expected, rtol=1e-9, atol=1e-12)
