"""What holds for every test: no thread, child process or open socket outlives it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.leaks import adopt_orphans, no_leaks
from tests.sources import ROOT
from tests.stated_time import tried
from tests.statements import told
from tests.wall import in_the_wall

MEMORY = Path("/dev/shm")
ROOM = 2 << 30  # bytes; tests leave nothing behind that passes


def pytest_configure() -> None:
    if _is_fit_for_files(MEMORY):  # thousands of checkpoints are made certain there, and no disk waits
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    adopt_orphans()
    # how long an example takes says how busy the machine is; what never ends meets the time-out of its test
    # the same examples each time, so that the gate is red by a change and not by chance; `make long` draws others
    drawn = os.environ.get("EXAMPLES") == "drawn"
    settings.register_profile("ours", deadline=None, derandomize=not drawn, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("ours")
    # a shell that runs the suite in the background makes it ignore Ctrl-C, and its children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_fit_for_files(folder: Path) -> bool:
    """Whether programs may be written there and run, and it has room for all tests."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(folder)
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize > ROOM


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let every second process of xdist import the tests from the end: in a fresh checkout each compiles what the other has not
    reached, instead of both compiling the same file at the same moment."""
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2 == 0:
        return
    given = [Path(ROOT, arg.partition("::")[0]) for arg in session.config.args]
    for file in reversed([file for path in given for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # it is imported once more where tests are collected
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    for item in items:
        if (share := item.get_closest_marker("share")) is not None:
            function = item.nodeid.partition("[")[0]
            if cases[function] % share.args[0]:
                item.add_marker(pytest.mark.long)
            cases[function] += 1
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.processes)
        if in_the_wall(item.path):
            item.add_marker(pytest.mark.wall)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # so that nobody waits for one of these at the end


def pytest_collection_finish() -> None:
    # thousands of items and all modules live to the end: who collects garbage, between tests too, need not look at them again
    gc.collect()
    gc.freeze()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    # not as the last one: that of pytest comes before it, and has run the test
    if pyfuncitem.get_closest_marker("alone") is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    tried(partial(pyfuncitem.obj, **arguments))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # logs of hostile text have characters that cannot be encoded; xdist sends what was captured as UTF-8
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the text of the statements that a failing test covers to its report."""
    report = yield
    marks = list(item.iter_markers("covers"))
    if report.failed and marks:
        report.sections.append(("docs/contract.md", "\n".join(told(mark.args) for mark in marks)))
    return report


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Iterator[None]:
    with no_leaks():
        yield
