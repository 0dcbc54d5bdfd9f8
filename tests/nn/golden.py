"""What torch, Keras and scikit-learn compute: by themselves where they are installed, else as it is stored in `golden.npz`.

`python -m tests.nn.golden` runs the cross-checks where all are installed and stores what they answer; the suite checks against
that always. Inputs are drawn from keys, so they are the same everywhere; a fingerprint of them is stored beside each answer.
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
RECORD = "RECORD_GOLDEN_ARRAYS"


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

    @classmethod
    def of(cls, array: Any) -> Answer:
        """Of what a reference has computed."""
        found = np.asarray(array.detach().numpy() if hasattr(array, "detach") else array)
        return cls(found.shape, float(np.abs(found).max()) if found.size else 0.0, found.reshape(-1))

    def sampled(self, most: int) -> Answer:
        """Itself with at most so many of its numbers."""
        return Answer(self.shape, self.largest, self.numbers[_places(self.numbers.size, most)])

    def close(self, found: Any, rtol: float, atol: float = 0.0, *, message: str = "") -> None:
        """Assert that `found` is the same array."""
        found = np.asarray(found)
        assert found.shape == self.shape, message
        picked = found.reshape(-1)[_places(found.size, len(self.numbers))]
        np.testing.assert_allclose(picked, self.numbers, rtol=rtol, atol=atol, err_msg=message)


def _places(size: int, most: int) -> Array:
    return np.arange(size) if size <= most else np.sort(keyed(size, "places").choice(size, most, replace=False))


class Golden:
    """The answers of one test. A test may ask several times; the order of its questions is their key."""

    def __init__(self, test: str) -> None:
        self._test, self._asked = test, 0

    def __call__(self, compute: Callable[[], Sequence[Any]], *inputs: Array, needs: object) -> list[Answer]:
        """The arrays that `compute` returns for `inputs`; it is called where the module `needs` is there."""
        key, self._asked = f"{self._test}#{self._asked}", self._asked + 1
        fingerprint = [float(np.asarray(array, np.float64).sum()) for array in inputs]
        here = None if isinstance(needs, Absent) else [Answer.of(array) for array in compute()]
        if os.environ.get(RECORD):
            assert here is not None, "storing needs the reference"
            _recorded[key] = (fingerprint, [answer.sampled(MOST_NUMBERS) for answer in here])
            return here
        stored = _stored().get(key)
        assert stored is not None, f"no answer is stored for {key}: python -m tests.nn.golden"
        np.testing.assert_allclose(fingerprint, stored[0], rtol=1e-5, atol=1e-5, err_msg=f"{key} asks about other inputs")
        return stored[1] if here is None else here


_recorded: dict[str, tuple[list[float], list[Answer]]] = {}


@cache
def _stored() -> dict[str, tuple[list[float], list[Answer]]]:
    """Everything in the file, by key."""
    if not FILE.exists():
        return {}
    with np.load(FILE) as file:
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
    """Write what the tests of this process have asked for."""
    index = [
        [key, fingerprint, [[list(a.shape), a.largest, a.numbers.size] for a in answers]]
        for key, (fingerprint, answers) in _recorded.items()
    ]
    numbers = [np.asarray(a.numbers, np.float64) for _, answers in _recorded.values() for a in answers]
    text = np.frombuffer(json.dumps(index, separators=(",", ":")).encode(), np.uint8)
    np.savez_compressed(FILE, index=text, numbers=np.concatenate(numbers))


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


def main() -> int:
    """Store the answers of the references, of all tests that ask for some."""
    os.environ[RECORD] = "1"
    for name in ("torch", "sklearn", "keras"):
        importlib.import_module(name)
    return pytest.main(["-q", "-p", "no:cacheprovider", "tests/nn"], plugins=[_Plugin()])


if __name__ == "__main__":
    sys.exit(main())
