"""An option of `parallel()` is stated once: its signature, `--help` and docs/options.md are those of the fields.

`python -m tests.parallel_sgd.test_options` writes docs/options.md anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

import pytest

from parallel_sgd import ParallelSGD
from parallel_sgd.commands.options import make_parser, settings_of
from parallel_sgd.options import JobOptions
from tests.sources import ROOT

PAGE = ROOT / "docs" / "options.md"
HEAD = """# Options of a job

What `ParallelSGD(model, data, transform).parallel(nodes, ...)` takes, and the option of `psgd-submit` that says the same. Up to
`codec_extra_parameters` they may be given by position. This page is made of the fields of `parallel_sgd.options.JobOptions`.

| option | default | what it means | command line |
| --- | --- | --- | --- |
"""


def row(field: Field[Any]) -> str:
    about, default = field.metadata["option"], field.default
    shown = "" if default is MISSING else f"`{getattr(default, '__name__', repr(default))}`"
    flags = "" if about.flag is None else ", ".join(f"`{name}`" for name in about.flag.names)
    return f"| `{field.name}` | {shown} | {about.text.replace('|', chr(92) + '|')} | {flags} |\n"


def page() -> str:
    return HEAD + "".join(map(row, fields(JobOptions)))


def test_the_page_lists_the_fields() -> None:
    assert PAGE.read_text() == page()


def test_the_signature_is_that_of_the_fields() -> None:
    """Real parameters, in order, with types and defaults; `help()` tells each."""
    itself, *parameters = inspect.signature(ParallelSGD.parallel).parameters.values()
    assert itself.name == "self"
    assert [(p.name, p.annotation, p.default is p.empty or p.default) for p in parameters] == [
        (f.name, f.type, f.default is MISSING or f.default) for f in fields(JobOptions)
    ]
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == [f.name for f in fields(JobOptions) if f.kw_only]
    told = inspect.getdoc(ParallelSGD.parallel) or ""
    assert all(f"    {f.name}: {f.metadata['option'].text[:20]}" in told for f in fields(JobOptions))


def defaults() -> Iterator[tuple[str, object]]:
    """`()` of `gd_params` and {} of parameters are the same as none of them."""
    for field in fields(JobOptions):
        if field.metadata["option"].flag is not None:
            yield field.name, field.default or None


def test_the_command_line_has_the_same_defaults() -> None:
    given = settings_of(make_parser().parse_args(["-m", "dnn.model"]))
    assert {name: given[name] or None for name, _ in defaults()} == dict(defaults())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nodes": None, "max_restart": 1}, r"^ParallelSGD.parallel\(\) got an unexpected keyword argument 'max_restart'"),
        ({}, r"^ParallelSGD.parallel\(\) missing a required argument: 'nodes'"),
    ],
)
def test_a_call_that_does_not_fit_names_the_method(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ParallelSGD.parallel(None, **arguments)  # type: ignore[arg-type]


if __name__ == "__main__":
    PAGE.write_text(page())
