"""The fields of an operation are stated once, in its class: docs/operations.md is made of them.

`python -m tests.rpc.test_operations` writes docs/operations.md anew.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

from parallel_sgd.elastic import messages as elastic
from rpc import messages as m
from rpc.protocol import Length, Matching, Operation, _schema

from ..sources import ROOT

PAGE = ROOT / "docs" / "operations.md"
HEAD = """# Operations

What the ends of a session say to each other, as the tree `{"d": ["op", <name>, <field>, <value>, ...]}` of a message with an
empty head ([protocol](protocol.md)). **All fields that are listed must be there, and no others**, each once and in any order: a
receiver knows no defaults. Who sends an operation that is not of its role, a field too many or too few, or a value that is not
of its type, is hung up on. This page is made of the classes of `rpc.messages` and `parallel_sgd.elastic.messages`.

| type | is |
| --- | --- |
| `int`, `a..b` | an integer of 64 bits with a sign; one from a to b, both included |
| `float` | a finite number; an `int` will do |
| `str`, `str[a..b]`, `str ~ r` | a text of at most 65,536 characters; of a to b; that is wholly the pattern r |
| `bytes`, `bytes[n]` | a byte string, also one that travels as an array (`b`); of n bytes |
| `"a", "b"` | one of these texts |
| `[t]`, `[t][n]` | a list of t; of n items |
| `{k: t}` | a dict |
| `any` | any value that may travel; instances are of classes of the job's code |
"""
GROUPS: dict[str, tuple[str, Sequence[type[Operation]]]] = {
    "Submitter, driver or another agent to an agent": ("In a session of the role `submitter`.", m.FROM_SUBMITTER),
    "Agent to who has called it": ("In the same session.", m.FROM_AGENT),
    "Submitter to a job process": ("In a session of the role `code`, before the job runs.", m.CODE_TO_JOB),
    "Job process to the submitter": ("In the same session.", m.CODE_FROM_JOB),
    "Driver of an elastic job to a worker": ("In the second session of the role `code` with it.", elastic.TO_WORKER),
    "Worker of an elastic job to its driver": (
        "In the same session. `ClusterExecutor` and its nodes exchange lists there instead: those of `executor/messages.py`.",
        elastic.FROM_WORKER,
    ),
    "Agent to its job process": ("Over a pair of sockets that nobody else reaches.", m.TO_JOB_PROCESS),
    "Job process to its agent": ("Likewise.", m.FROM_JOB_PROCESS),
}


def shown(kind: Any) -> str:
    """The type of a field as the page writes it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base, *limits = arguments
        for limit in limits:
            if isinstance(limit, range):
                return f"{limit[0]}..{limit[-1]}"
            if isinstance(limit, Matching):
                return f"{shown(base)} ~ {limit.pattern}"
            if isinstance(limit, Length):
                return f"{shown(base)}[{limit.low if limit.low == limit.high else f'{limit.low}..{limit.high}'}]"
            return ", ".join(f'"{text}"' for text in limit)
    if origin is list:
        return f"[{shown(arguments[0])}]"
    if origin is dict:
        return f"{{{shown(arguments[0])}: {shown(arguments[1])}}}"
    if origin is types.UnionType:
        return " or ".join(map(shown, arguments))
    return "any" if kind is Any else str(kind.__name__)


def row(kind: type[Operation]) -> str:
    typed = {name: shown(expected).replace("|", "\\|") for name, expected in _schema(kind).items()}
    fields = ", ".join(f"`{name}` `{text}`" for name, text in typed.items()) or "none"
    meaning = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return f"| `{kind.__name__}` | {fields} | {meaning} |\n"


def page() -> str:
    tables = (
        f"\n## {title}\n\n{where}\n\n| operation | fields | meaning |\n| --- | --- | --- |\n{''.join(map(row, kinds))}"
        for title, (where, kinds) in GROUPS.items()
    )
    return HEAD + "".join(tables)


def kinds_of(base: type[Any]) -> Iterator[type[Any]]:
    for kind in base.__subclasses__():
        yield from kinds_of(kind) if kind.__subclasses__() else (kind,)


def test_the_page_is_that_of_the_classes_and_has_all_of_them() -> None:
    assert PAGE.read_text() == page(), "docs/operations.md is stale: run python -m tests.rpc.test_operations"
    of_product = {kind.__name__ for kind in kinds_of(Operation) if not kind.__module__.startswith("tests")}
    assert of_product == {kind.__name__ for _, kinds in GROUPS.values() for kind in kinds}


if __name__ == "__main__":
    PAGE.write_text(page())
