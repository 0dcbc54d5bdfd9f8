"""Each count of the shape is within its budget, and the functions that count see every case."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.house import files, prose
from tests.house.budgets import JOB, PROSE, TEXT, TOTALS, WORDS, Budget, Count
from tests.house.graph import components, imports
from tests.house.prose import of_tree, undescribed
from tests.house.running import Way, ways
from tests.sources import PACKAGES, ROOT
from tests.wall import TESTS, WALL, in_the_wall


def _exceeded(budgets: tuple[Budget, ...]) -> list[str]:
    found = []
    for budget in budgets:
        value, parts = budget.measure()
        if budget.exceeded(value):
            found.append("\n  ".join([f"{budget.name}: {value:.5g}, the limit is {budget.limit:.5g}", *parts]))
    return found


def test_the_text_is_within_its_budgets() -> None:
    exceeded = _exceeded(TEXT)
    assert not exceeded, "\n".join(exceeded)


def test_the_words_are_within_their_budgets() -> None:
    exceeded = _exceeded(PROSE)
    assert not exceeded, "\n".join(exceeded)


def test_the_words_of_every_package_have_a_budget() -> None:
    assert sorted(WORDS) == sorted(PACKAGES)


@pytest.mark.processes
def test_a_job_is_within_its_budgets() -> None:
    exceeded = _exceeded(JOB)
    assert not exceeded, "\n".join(exceeded)


def test_a_budget_is_exceeded_above_its_limit_only() -> None:
    budget = Budget("a", 24, lambda: Count(0))
    assert [budget.exceeded(value) for value in (0, 24, 25)] == [False, False, True]


def test_the_last_release_is_the_commit_before_this_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROOT", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number, lines in (("1.0.0", 1), ("1.0.0", 3), ("1.1.0", 9), ("1.1.0", 12)):
        for package in (*PACKAGES, "tests"):
            (tmp_path / package).mkdir(exist_ok=True)
            (tmp_path / package / "__init__.py").write_text("# a line\n" * lines + f'VERSION = "{number}"\n')
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "Change it"], check=True)
    files.released.cache_clear()
    try:
        assert files.released() == {f"{package}/__init__.py": 4 for package in (*PACKAGES, "tests")}
        assert [row.before() for row in TOTALS if row.name in ("product lines", "test lines")] == [4 * len(PACKAGES), 4]
    finally:
        files.released.cache_clear()


DOCSTRINGS = '''
"""Who begins."""

class Reader:
    """Reader of frames, whoever has sent them, by `who` and `what`.

    Args:
        what: nobody's business.
    """

    def read(self):
        """Reads a frame."""

    def pass_on(self):
        """Pass a frame on."""

        def inner():
            """A step of that, of which nobody is told."""

    @property
    def open(self):
        """Whether it is open."""

    def _drop(self):
        """Of no use."""
'''


def test_clauses_and_first_words_are_seen_in_every_docstring() -> None:
    found = {each.place: (each.clauses, each.begins_badly) for each in of_tree(ast.parse(DOCSTRINGS), "a.py")}
    assert found == {
        "a.py": (1, True),
        "a.py Reader": (2, False),
        "a.py Reader read": (0, True),
        "a.py Reader pass_on": (0, False),
        "a.py Reader pass_on inner": (1, False),
        "a.py Reader open": (0, False),
        "a.py Reader _drop": (0, True),
    }


def test_an_argument_is_described_where_a_docstring_of_its_class_or_a_base_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
__all__ = ["Base", "Own", "alone", "shown", "told", "Inheriting", "Row", "Made"]
class Base:
    '''Base of all.

    Args:
        size: bytes.
    '''
    def read(self, most): "Read `most` bytes."
    def write(self, data, *, at):
        '''Write.

        Args:
            data, at: what, and where.
        '''
    def __lshift__(self, data, most): "Write."
class Own(Base):
    "Own kind."
    def __init__(self, size, *, depth): "Set the `depth`."
    def read(self, most, wait): "Read `most` bytes, and `wait`."
    def write(self, data, *, at): ...
    def _hidden(self, free): ...
def alone(left): ...
def shown(left, right):
    '''Show the `left` and the `right` one.

    Args:
        left: a side,
            right: left.

    Returns:
        right: a side.
    '''
def told(left, *others):
    '''Tell.

    Args:
        left: a side.
        *others: sides.
    '''
def hidden(left): ...
class _Common:
    def __init__(self, width, height): "Keep the `height`."
class Inheriting(_Common):
    "Kind without a constructor of its own."
class Row(NamedTuple):
    '''Row.

    Attributes:
        name: its name.
    '''
    name: str
    size: int
@dataclass
class Made:
    '''Kind with a `total`.

    Args:
        name: its name.
    '''
    name: str
    total: int = field(init=False)
    kinds: ClassVar[int] = 0
"""
    path = ROOT / "network" / "clock.py"
    monkeypatch.setattr(prose, "library_files", lambda: [path])
    monkeypatch.setattr(prose, "parse", lambda _: ast.parse(text))
    prose._definitions.cache_clear()
    missing = (
        "Own.__init__(depth)",
        "Own.read(most)",
        "Own.read(wait)",
        "alone(left)",
        "shown(right)",
        "Inheriting.__init__(width)",
        "Inheriting.__init__(height)",
        "Row.size",
        "Made.kinds",
    )
    try:
        assert undescribed("network") == [f"network/clock.py {each}" for each in missing]
    finally:
        prose._definitions.cache_clear()


def test_modules_that_import_each_other_are_one_group_after_what_they_import() -> None:
    edges = {name: frozenset(others) for name, others in {"a": "b", "b": "c", "c": "bd", "d": ""}.items()}
    assert components(edges) == [["d"], ["b", "c"], ["a"]]


def test_imports_of_packages_of_functions_and_for_types_are_told_apart() -> None:
    found = {(each.module, each.name): each.when_loaded for each in imports(ROOT / "parallel_sgd" / "__init__.py")}
    assert found["network.names", "lazily"] and not found["parallel_sgd.job", "ParallelSGD"]


def test_the_way_of_a_gradient_goes_out_until_it_is_sent_and_back_until_the_rule() -> None:
    place = str(ROOT / "network" / "frames.py")
    rule = str(ROOT / "nn" / "gradient_descent" / "sgd.py")
    bank, merge = (str(ROOT / "parallel_sgd" / f"{name}.py") for name in ("bank", "merge"))
    batch = [
        ["call", "backward", "backward", ""],
        ["call", bank, "gradient_ready", "backward"],
        ["call", merge, "add", bank],
        ["call", merge, "keep", merge],
        *[["return", "", "", ""]] * 4,
        ["call", merge, "not on the way", ""],
        ["return", "", "", ""],
        ["call", bank, "finish_batch", ""],
        ["socket", place, "sendmsg", ""],
        ["socket", place, "recv_into", ""],
        ["call", place, "read", bank],
        ["call", rule, "update", bank],
        *[["return", "", "", ""]] * 3,
    ]
    expected = Way({"parallel_sgd/bank.py", "parallel_sgd/merge.py"}, {"network/frames.py"}, gradients=1)
    expected.entries.update({"parallel_sgd/bank.py": 2, "parallel_sgd/merge.py": 1, "network/frames.py": 1})
    assert list(ways(batch * 2)) == [expected] * 2 and expected.crowded == {}


def test_the_wall_is_there_and_marked(request: pytest.FixtureRequest) -> None:
    assert all((TESTS / part).exists() for part in WALL)
    assert in_the_wall(TESTS / "contract" / "test_codecs.py") and not in_the_wall(TESTS / "house" / "test_budgets.py")
    for item in request.session.items:
        assert (item.get_closest_marker("wall") is not None) == in_the_wall(item.path)
