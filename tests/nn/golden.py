"""What torch, Keras and scikit-learn compute: by themselves where they are installed, else as it is stored: in `golden.npz`,
and what `test_<name>_references.py` asks in `golden_<name>.npz`.

`python -m tests.nn.golden` runs the cross-checks where all are installed and stores what they answer; with paths it asks what
the tests in them ask, and keeps the other answers. An answer that lies within the tolerance of its test from the stored one
stays as it is stored: its last digits depend on the CPU and on the release of the reference. The suite checks against what is
stored always. Inputs are drawn from keys, so they are the same everywhere; a fingerprint of them is stored beside each answer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nn.arrays import Array
from nn.random import keyed

FILE = Path(__file__).with_name("golden.npz")
MOST_NUMBERS = 250  # of an array; of a larger one those at places drawn by its size are stored
RECORD, SOME, ALL = "RECORD_GOLDEN_ARRAYS", "some", "all"


class Absent:
    """Stands for a module that is not installed, and for all that it holds: nothing in it is ever called."""

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def optional(name: str) -> Any:
    """The module, or what stands for it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return Absent()


class Answer:
    """An array of the reference: its shape, its largest magnitude, and all of its numbers or those at some places."""

    def __init__(self, shape: tuple[int, ...], largest: float, numbers: Array) -> None:
        self.shape, self.largest, self.numbers = shape, largest, numbers
        self.before: Answer | None = None  # the stored one, while the references answer anew
        self._says_same: bool | None = None

    @classmethod
    def of(cls, array: Any) -> Answer:
        """Of what a reference has computed."""
        found = np.asarray(array.detach().numpy() if hasattr(array, "detach") else array)
        return cls(found.shape, float(np.abs(found).max()) if found.size else 0.0, found.reshape(-1))

    def sampled(self, most: int) -> Answer:
        """Itself with at most so many of its numbers."""
        return Answer(self.shape, self.largest, self.numbers[_places(self.numbers.size, most)])

    def close(self, found: Any, rtol: float, atol: float = 0.0, *, where: Array | None = None, message: str = "") -> None:
        """Assert that `found` is the same array; with `where`, a mask of its leading axes, that it is at these places."""
        found = np.asarray(found)
        assert found.shape == self.shape, message
        counts = np.ones(self.shape, bool) if where is None else _expanded(where, self.shape)

        def at(numbers: Array, count: int) -> Array:
            """Of all numbers, or of `count` that are stored of them, those that count."""
            places = _places(found.size, count)
            return (numbers if len(numbers) == count else numbers[places])[counts.reshape(-1)[places]]

        size = len(self.numbers)
        np.testing.assert_allclose(at(found.reshape(-1), size), at(self.numbers, size), rtol=rtol, atol=atol, err_msg=message)
        if self.before is not None:
            size = len(self.before.numbers)
            same = self.before.shape == self.shape and np.allclose(
                at(self.numbers, size), at(self.before.numbers, size), rtol=rtol, atol=atol, equal_nan=True
            )
            self._says_same = same and self._says_same is not False

    def says_same(self) -> bool:
        """Return whether the stored answer is this one within the tolerances of its test, to the last bit if that has none."""
        if self._says_same is None and self.before is not None:
            return self.shape == self.before.shape and np.array_equal(
                self.sampled(MOST_NUMBERS).numbers, self.before.numbers, equal_nan=True
            )
        return bool(self._says_same)


def _expanded(mask: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(mask.reshape(mask.shape + (1,) * (len(shape) - mask.ndim)), shape)


def _places(size: int, most: int) -> Array:
    return np.arange(size) if size <= most else np.sort(keyed(size, "places").choice(size, most, replace=False))


class Golden:
    """The answers of one test. A test may ask several times; the order of its questions is their key."""

    def __init__(self, test: str, file: Path = FILE) -> None:
        self._test, self._file, self._asked = test, file, 0

    def __call__(self, compute: Callable[[], Sequence[Any]], *inputs: Array, needs: object) -> list[Answer]:
        """The arrays that `compute` returns for `inputs`; it is called where the module `needs` is there."""
        key, self._asked = f"{self._test}#{self._asked}", self._asked + 1
        fingerprint = [float(np.asarray(array, np.float64).sum()) for array in inputs]
        here = None if isinstance(needs, Absent) else [Answer.of(array) for array in compute()]
        stored = _stored(self._file).get(key)
        if os.environ.get(RECORD):
            assert here is not None, "storing needs the reference"
            if stored is not None and len(stored[1]) == len(here) and _same_inputs(fingerprint, stored[0]):
                for answer, before in zip(here, stored[1], strict=True):
                    answer.before = before
            _recorded.setdefault(self._file, {})[key] = (fingerprint, here)
            return here
        assert stored is not None, f"no answer is stored for {key}: python -m tests.nn.golden"
        assert _same_inputs(fingerprint, stored[0]), f"{key} asks about other inputs: {fingerprint}, not {stored[0]}"
        return stored[1] if here is None else here


def _same_inputs(fingerprint: Sequence[float], other: Sequence[float]) -> bool:
    return len(fingerprint) == len(other) and np.allclose(fingerprint, other, rtol=1e-5, atol=1e-5, equal_nan=True)


Answers = dict[str, tuple[list[float], list[Answer]]]
_recorded: dict[Path, Answers] = {}


def file_of(module: str) -> Path:
    """The file with the answers for the tests of a module."""
    name = module.rpartition(".")[2].removeprefix("test_")
    return FILE.with_name(f"golden_{name.removesuffix('_references')}.npz") if name.endswith("_references") else FILE


@cache
def _stored(place: Path) -> Answers:
    """Everything in a file, by key."""
    if not place.exists():
        return {}
    with np.load(place) as file:
        index, numbers = json.loads(file["index"].tobytes()), file["numbers"]
    found, start = {}, 0
    for key, fingerprint, arrays in index:
        answers = []
        for shape, largest, size in arrays:
            answers.append(Answer(tuple(shape), largest, numbers[start : start + size]))
            start += size
        found[key] = (fingerprint, answers)
    return found


def store() -> None:
    """Write what the tests of this process have asked for and what the files say otherwise, or do not hold; where only some
    tests were run, beside the other answers.
    """
    for place, recorded in _recorded.items():
        stored, kept = _stored(place), os.environ[RECORD] == SOME
        new = {
            key: (fingerprint, found)
            for key, (fingerprint, found) in recorded.items()
            if key not in stored or not all(answer.says_same() for answer in found)
        }
        gone = [] if kept else sorted(stored.keys() - recorded.keys())
        told = "says what is stored"
        if new or gone:
            _write(place, {**stored, **new} if kept else {key: new.get(key) or stored[key] for key in recorded})
            told = ", ".join([*(f"{key} is new" for key in new), *(f"{key} has gone" for key in gone)])
        sys.stdout.write(f"\n{place.name}: {len(recorded)} answers asked for: {told}\n")


def _write(place: Path, answers: Answers) -> None:
    """Write a file anew; of each array at most `MOST_NUMBERS` numbers."""
    few = {
        key: (fingerprint, [answer.sampled(MOST_NUMBERS) for answer in found]) for key, (fingerprint, found) in answers.items()
    }
    index = [
        [key, fingerprint, [[list(a.shape), a.largest, a.numbers.size] for a in found]]
        for key, (fingerprint, found) in few.items()
    ]
    numbers = [np.asarray(a.numbers, np.float64) for _, found in few.values() for a in found]
    text = np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(place, index=text, numbers=np.concatenate(numbers))


Draw = Callable[[np.random.Generator], Any]


def whole(low: int, high: int) -> Draw:
    """An integer from `low` to `high`."""
    return lambda generator: int(generator.integers(low, high + 1))


def one_of(*choices: Any) -> Draw:
    """One of these; a draw among them is drawn from."""

    def draw(generator: np.random.Generator) -> Any:
        chosen = choices[int(generator.integers(len(choices)))]
        return chosen(generator) if callable(chosen) else chosen

    return draw


def several(draw: Draw, fewest: int, most: int) -> Draw:
    """A list of `fewest` to `most` draws."""
    return lambda generator: [draw(generator) for _ in range(int(generator.integers(fewest, most + 1)))]


def each(*draws: Draw) -> Draw:
    """A tuple with one of each draw."""
    return lambda generator: tuple(draw(generator) for draw in draws)


DTYPES, SEEDS = one_of("float32", "float64"), whole(0, 1000)


def drawn(count: int, *, where: Callable[..., bool] = lambda _: True, **draws: Draw) -> pytest.MarkDecorator:
    """Run the test for `count` cases that have these fields, drawn from a key, such that `where(case)` holds."""
    generator = keyed(count, ",".join(draws))
    cases: list[SimpleNamespace] = []
    while len(cases) < count:
        case = SimpleNamespace(**{name: draw(generator) for name, draw in draws.items()})
        if where(case):
            cases.append(case)
    return pytest.mark.parametrize("case", cases, ids=[str(number) for number in range(count)])


class _Plugin:
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if not exitstatus:
            sys.modules["tests.nn.golden"].store()


def main(paths: Sequence[str]) -> int:
    """Store the answers of the references: of all tests that ask for some, or of those in `paths`."""
    os.environ[RECORD] = SOME if paths else ALL
    os.environ.setdefault("KERAS_BACKEND", "torch")
    for name in ("torch", "sklearn", "keras"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            sys.stderr.write(f"The answers are those of torch, scikit-learn and Keras, which `make golden` installs: {error}\n")
            return 2
    return pytest.main(["-q", "-p", "no:cacheprovider", *(paths or ["tests/nn"])], plugins=[_Plugin()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
