"""joblib on agents: what Parallel does with its own backends it does with ours."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executor import ClusterExecutor, NodeLost, NotData, register_joblib
from network import NodeAssignment

from . import calls
from .calls import Mistake, Point, await_path, begin_and_await, fail, own_pid

joblib = pytest.importorskip("joblib", reason="joblib is not installed (extra joblib)")
pytestmark = pytest.mark.processes
Parallel, delayed = joblib.Parallel, joblib.delayed


class Fitted:
    """An estimator: what it has learned is no data."""

    def __init__(self, rate: float) -> None:
        self.rate, self.learned = rate, random.Random(3)


def root(x: float, power: float = 2.0) -> float:
    return float(x ** (1 / power))


def nested(x: int) -> tuple[int, list[int], int]:
    inner = joblib.Parallel(n_jobs=4)(joblib.delayed(own_pid)(place) for place in range(3))
    return own_pid(), inner, joblib.effective_n_jobs(-1)


@pytest.fixture(scope="module")
def executor(agents: NodeAssignment) -> Iterator[ClusterExecutor]:
    with ClusterExecutor(agents) as made:
        register_joblib(made)
        yield made


@pytest.fixture
def cluster(executor: ClusterExecutor) -> Iterator[None]:
    with joblib.parallel_config(backend="psgd"):
        yield


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("options", [{}, {"n_jobs": 2, "batch_size": 7}, {"pre_dispatch": "all"}, {"n_jobs": 1}], ids=str)
def test_results_come_in_order(options: dict[str, Any]) -> None:
    assert Parallel(**options)(delayed(root)(x, power=2) for x in range(100)) == [x**0.5 for x in range(100)]
    arrays = Parallel(**options)(delayed(np.multiply)(np.arange(3), x) for x in range(4))
    np.testing.assert_array_equal(arrays, np.outer(np.arange(4), np.arange(3)))
    pids = set(Parallel(**options)(delayed(own_pid)(x) for x in range(8)))
    assert (own_pid() in pids) == (options.get("n_jobs") == 1)
    assert Parallel(**options)([]) == []


@pytest.mark.usefixtures("cluster")
def test_results_as_they_come() -> None:
    """Generators in order and out of order; one that is fed by another of the same executor does not wait for itself."""
    first = Parallel(return_as="generator")(delayed(root)(x) for x in range(60))
    second = Parallel(return_as="generator")(delayed(root)(x, power=4.0) for x in first)
    assert list(second) == [(x**0.5) ** 0.25 for x in range(60)]
    unordered = Parallel(return_as="generator_unordered")(delayed(root)(x) for x in range(20))
    assert sorted(unordered) == [x**0.5 for x in range(20)]


@pytest.mark.usefixtures("cluster")
def test_how_many_run_at_once() -> None:
    """As many as there are nodes, or what is asked for; 1 is this process."""
    assert [joblib.effective_n_jobs(n) for n in (-1, 2, 7, 1)] == [2, 2, 2, 1]
    with pytest.raises(ValueError, match="n_jobs == 0"):
        joblib.effective_n_jobs(0)


def test_fewer_jobs_than_nodes(agents: NodeAssignment) -> None:
    """Of three nodes two work."""
    nodes = NodeAssignment(key_file=agents.key_file).add(0, agents[0]).add(1, agents[1]).add(2, agents[0])
    with ClusterExecutor(nodes) as executor:
        register_joblib(executor, "three")
        for wanted in (2, -2):
            assert len(set(Parallel(wanted, "three", batch_size=1)(delayed(own_pid)(x) for x in range(60)))) <= 2


@pytest.mark.usefixtures("cluster")
def test_a_parallel_within_a_task_works_one_after_the_other() -> None:
    """It starts no processes on the node."""
    for pid, inner, at_once in Parallel()(delayed(nested)(x) for x in range(2)):
        assert (inner, at_once) == ([pid] * 3, 1)


@pytest.mark.usefixtures("cluster")
def test_exceptions_of_calls_are_raised(executor: ClusterExecutor) -> None:
    """As they are, with the traceback on the node; so are those of the iterable; and the backend goes on."""
    with pytest.raises(Mistake, match="mistake 5") as caught:
        Parallel()(delayed(fail)(5) for _ in range(50))
    assert "in fail" in str(caught.value.__cause__)

    def numbers() -> Iterator[int]:
        yield from range(10)
        raise LookupError("no more numbers")

    with pytest.raises(LookupError, match="no more numbers"):
        Parallel()(delayed(root)(x) for x in numbers())
    with pytest.raises(calls.Mistake), Parallel(n_jobs=2) as parallel:
        assert parallel(delayed(root)(x) for x in range(4)) == [0.0, 1.0, 2**0.5, 3**0.5]
        parallel(delayed(fail)(1) for _ in range(4))
    assert Parallel()(delayed(root)(x) for x in [4]) == [2.0]


@pytest.mark.usefixtures("cluster")
def test_arguments_may_be_estimators_and_results_may_not() -> None:
    """What is no data travels to the nodes as code does, and not back: the error says what to return instead."""
    assert Parallel()(delayed(getattr)(Fitted(x), "rate") for x in (0.5, 0.25)) == [0.5, 0.25]
    assert Parallel()(delayed(root)(x, power=Fraction(2)) for x in (4, 9)) == [2.0, 3.0]
    assert Parallel()(delayed(calls.mirrored)(Point(x, 1)) for x in range(3)) == [Point(1, x) for x in range(3)]
    message = (
        r"The result of Fitted is no data: random\.Random cannot travel: .* returns scores, .* not a fitted estimator: .*"
        r"trust_results=True"
    )
    with pytest.raises(TypeError, match=message) as caught:
        Parallel()(delayed(Fitted)(x) for x in (1, 2))
    assert isinstance(caught.value.__cause__, NotData)
    with pytest.raises(TypeError, match=r"Argument 'power' of root cannot travel: .*lock"):
        Parallel()(delayed(root)(x, power=threading.Lock()) for x in (1, 2))


def test_fitted_estimators_come_back_to_who_trusts_the_nodes(agents: NodeAssignment) -> None:
    """By the option of the backend or of the executor; of the class of this process. Others are refused what they were."""
    with ClusterExecutor(agents) as executor, ClusterExecutor(agents, trust_results=True) as trusting:
        register_joblib(executor, "told", trust_results=True)
        register_joblib(trusting, "as the executor")
        register_joblib(trusting, "not", trust_results=False)
        for backend in ("told", "as the executor"):
            found = Parallel(backend=backend)(delayed(Fitted)(x) for x in (0.5, 0.25))
            assert [(type(item), item.rate) for item in found] == [(Fitted, 0.5), (Fitted, 0.25)]
            assert [item.learned.random() for item in found] == [random.Random(3).random()] * 2
        with pytest.raises(TypeError, match="is no data"):
            Parallel(backend="not")(delayed(Fitted)(x) for x in (0.5, 0.25))
        with pytest.raises(TypeError, match="register_joblib 'trust_results' must be True, False or None, got 'yes'"):
            register_joblib(executor, trust_results="yes")  # type: ignore[arg-type]


@pytest.mark.long  # beside the search for the best network
def test_ensembles_of_scikit_learn(agents: NodeAssignment) -> None:
    """Whose estimators are fitted by tasks: the same as in this process."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")
    model_selection, tree = pytest.importorskip("sklearn.model_selection"), pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 4))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    stumps = [(name, tree.DecisionTreeClassifier(max_depth=d, random_state=0)) for name, d in (("low", 2), ("high", 5))]
    made = [
        lambda: ensemble.RandomForestClassifier(8, random_state=0, n_jobs=2),
        lambda: ensemble.BaggingClassifier(stumps[0][1], 8, random_state=0, n_jobs=2),
        lambda: ensemble.VotingClassifier(stumps, n_jobs=2),
    ]
    with joblib.parallel_config(backend="sequential"):
        here = [make().fit(x, y).predict(x) for make in made]
    with ClusterExecutor(agents, trust_results=True) as executor:
        register_joblib(executor, "trusting")
        with joblib.parallel_config(backend="trusting"):
            for make, expected in zip(made, here, strict=True):
                assert np.array_equal(make().fit(x, y).predict(x), expected)
            found = model_selection.cross_validate(stumps[0][1], x, y, cv=3, return_estimator=True, n_jobs=2)
    assert [type(item).__name__ for item in found["estimator"]] == ["DecisionTreeClassifier"] * 3


@pytest.mark.long
def test_a_search_for_the_best_network(agents: NodeAssignment) -> None:
    """`nn.sklearn` on the nodes: scores come back as data, the same as in this process."""
    model_selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is not installed (extra sklearn)")
    from nn.sklearn import NeuralClassifier

    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4))
    y = (x[:, 0] > 0).astype(int)
    grid = {"hidden": [1, 6], "optimizer": ["sgd", "adam"]}

    def search() -> Any:
        return model_selection.GridSearchCV(NeuralClassifier(epochs=3, random_state=0), grid, cv=2).fit(x, y)

    here = search()
    with ClusterExecutor(agents) as executor:
        register_joblib(executor, "searching")
        with joblib.parallel_config(backend="searching"):
            there = search()
    assert np.array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])
    assert np.array_equal(there.predict(x), here.predict(x)) and there.best_params_ == here.best_params_


@pytest.mark.usefixtures("patient")
def test_what_is_not_begun_is_cancelled(agents: NodeAssignment, tmp_path: Path) -> None:
    """After an error, and when nobody waits for a generator any more; the time-out of Parallel holds."""
    gate = tmp_path / "gate"
    with ClusterExecutor(agents) as executor:
        register_joblib(executor, "mine")

        def blocking(number: int) -> Any:
            return delayed(begin_and_await)(str(tmp_path / f"begun-{number}"), str(gate))

        options = {"backend": "mine", "batch_size": 1, "pre_dispatch": "all"}
        try:
            results = Parallel(**options, return_as="generator")(blocking(number) for number in range(40))
            await_path(tmp_path / "begun-0")
            with pytest.warns(UserWarning, match="have been cancelled"):
                del results
            with pytest.raises(multiprocessing.TimeoutError):
                Parallel(**options, timeout=0.01)(blocking(number) for number in range(40, 60))
        finally:
            gate.touch()
    assert 1 <= len(list(tmp_path.glob("begun-*"))) <= 8  # of 60: what the nodes held when they were told


def test_no_node_is_left(agents: NodeAssignment) -> None:
    """Parallel raises what the executor says, and does not wait for ever."""
    with ClusterExecutor(agents) as executor:
        register_joblib(executor, "doomed")
        with pytest.raises(NodeLost):
            Parallel(backend="doomed", batch_size=1)(delayed(calls.die)() for _ in range(20))


def test_only_a_cluster_is_registered() -> None:
    with pytest.raises(TypeError, match="register_joblib 'executor' must be a ClusterExecutor, got int"):
        register_joblib(3)  # type: ignore[arg-type]
