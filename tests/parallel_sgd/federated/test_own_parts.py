"""What samplers, splits and sizes of a user's own return is checked where their class and method can be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parallel_sgd import Clients
from parallel_sgd.federated import ClientClock, RowsSplit, Sampler, Sizes, Split
from parallel_sgd.federated.population import Population, deal

Given = Callable[..., Any]
LABELS = np.arange(40) % 10


def sampler(**methods: Given) -> Sampler:
    usual: dict[str, Given] = {"slots": lambda *_: 3, "choose": lambda *_: [0, 1, 2]}
    own: type[Sampler] = type("Own", (Sampler,), usual | methods)
    return own()


def round_of(**methods: Given) -> Any:
    clients = Clients(5, sampler(**methods), clock=ClientClock("5ms"))
    return Population(clients, [8] * 5, 0, 4).round(0)


def dealt(answer: Any) -> Any:
    own: type[Split] = type("Own", (Split,), {"deal": lambda _, labels, *__: answer(labels) if callable(answer) else answer})
    return deal(Clients(2, 1, own()), LABELS, 0)


def drawn(answer: Any) -> Any:
    own: type[Sizes] = type("Own", (Sizes,), {"weights": lambda *_: answer})
    return own().draw(40, 2, np.random.default_rng(0))


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    (r"^Own 'slots\(\)' must be a positive integer, got 0", lambda: round_of(slots=lambda *_: 0)),
    (r"^Own 'slots\(\)' must be a positive integer, got None", lambda: round_of(slots=lambda *_: None)),
    (r"^Own.choose\(\) must return whole numbers in a list, got None", lambda: round_of(choose=lambda *_: None)),
    (r"^Own.choose\(\) .* got \[0.5, 1.7\]", lambda: round_of(choose=lambda *_: [0.5, 1.7])),
    (r"^Own.choose\(\) .* got array\(\[ True", lambda: round_of(choose=lambda _, sizes, *__: sizes > 0)),
    (r"^Own.choose\(\) .* got \[\[0, 1\], \[2\]\]", lambda: round_of(choose=lambda *_: [[0, 1], [2]])),
    (r"^Own must choose clients from 0 to 4, got \[5\]", lambda: round_of(choose=lambda *_: [5])),
    (r"^Own must choose clients from 0 to 4, none twice, got \[1, 1\]", lambda: round_of(choose=lambda *_: [1, 1])),
    (r"^Own.lost\(\) must return True or False for each of 3 clients, got \[True\]", lambda: round_of(lost=lambda *_: [True])),
    (r"^Own.lost\(\) must return True or False .* got None", lambda: round_of(lost=lambda *_: None)),
    (r"^Own.close\(\) must return places and the seconds of the round, got None", lambda: round_of(close=lambda *_: None)),
    (r"^Own.close\(\) must return places .* got \(\[0\], 'soon'\)", lambda: round_of(close=lambda *_: ([0], "soon"))),
    (r"^Own.close\(\) must return whole numbers in a list, got \[0.5\]", lambda: round_of(close=lambda *_: ([0.5], 1.0))),
    ("^Own must count clients of the round that arrive", lambda: round_of(close=lambda *_: ([7], 1.0))),
    ("^Own must close a round after seconds of at least 0, got nan", lambda: round_of(close=lambda *_: ([0], float("nan")))),
    (r"^Own.deal\(\) must return the rows of each client, got None", lambda: dealt(None)),
    (r"^Own.deal\(\) for client 1 must return whole numbers in a list, got \[2.5\]", lambda: dealt([[0, 1], [2.5]])),
    (r"^Own.deal\(\) for client 0 must .* got array\(\[ True", lambda: dealt([LABELS < 5, LABELS > 5])),
    ("^Clients 'split' Own must deal to 2 clients, got rows for 3", lambda: dealt([[0], [1], [2]])),
    ("read-only", lambda: dealt(lambda labels: labels.sort())),
    ("^RowsSplit 'rows' must hold lists of sample numbers, got None", lambda: RowsSplit(None)),  # type: ignore[arg-type]
    (r"^Own.weights\(\) must return a number above 0 for each of 2 clients, got None", lambda: drawn(None)),
    (r"^Own.weights\(\) .* got \[1\]", lambda: drawn([1])),
    (r"^Own.weights\(\) .* got \[1, -2\]", lambda: drawn([1, -2])),
    (r"^Own.weights\(\) .* got \[nan, 1\]", lambda: drawn([float("nan"), 1])),
    (r"^Own.weights\(\) .* got \[0, 0\]", lambda: drawn([0, 0])),
    ("^Clients 'personal' must be names of layers, variables or statistics, got 5", lambda: Clients(5, 2, personal=5)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("words", "make"), REFUSED, ids=[words[:60] for words, _ in REFUSED])
def test_what_a_part_of_a_users_own_returns_is_told_by_its_class_and_method(words: str, make: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_what_is_right_is_taken() -> None:
    now = round_of(lost=lambda *_: np.array([False, True, False]), close=lambda *_: ([2, 0], 9))
    assert sorted(each for each in now.slots if each is not None) == [0, 2] and now.course.ends == 9
    assert [each.tolist() for each in dealt(iter([range(3), np.array([7], np.uint8)]))] == [[0, 1, 2], [7]]
    assert drawn([3, 1]).tolist() == [30, 10]
