"""Docstrings as Markdown: doctests are code, what is raised and which shapes there are begins a paragraph, <name> is text."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
LEAD = re.compile(r"\n+(Raises|Returns|Shapes|Attributes): (?=\S)")
OPENING = re.compile(r"<(?=[\w/])")
CODE = re.compile(r"(^(?: {4}|>>> ).*$|^```.*?^```|`[^`]*`)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[([^]]+)\]\(\.\./[^)]*\)")
GUIDE = re.compile(r"(?<![\w/.])((?:docs|nn|executor|parallel_sgd)/(?:[\w-]+/)*[\w-]+)\.md")


def as_markdown(text: str) -> str:
    parts = CODE.split(re.sub(r" +# doctest: \+SKIP$", "", text, flags=re.MULTILINE))  # every second one is code
    parts[::2] = [GUIDE.sub(_link, OPENING.sub("&lt;", part)) for part in parts[::2]]
    text = LEAD.sub(r"\n\n**\1:** ", "".join(parts))
    return DOCTEST.sub(r"```pycon\n\g<0>\n```", text)


def _link(match: re.Match[str]) -> str:
    """From a page of the reference to that guide."""
    if not Path(f"{match[1]}.md").is_file():
        raise ValueError(f"a docstring names {match[0]}, which does not exist")
    return f"[{match[0]}](../../{re.sub('README$', 'index', match[1])}.html)"


def _parameter(one: inspect.Parameter) -> griffe.Parameter:
    kind = griffe.ParameterKind[one.kind.name.lower()]
    plain = one.default is inspect.Parameter.empty
    default = None if plain else one.default.__name__ if isinstance(one.default, type) else repr(one.default)
    return griffe.Parameter(one.name, annotation=str(one.annotation), kind=kind, default=default)


class Docstrings(griffe.Extension):
    """What mkdocstrings calls for each object that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """`parallel()` takes the fields of a class, which the file does not tell, and has a paragraph on each."""
        if any(str(decorator.value).startswith("called_with(") for decorator in func.decorators):
            owner = getattr(import_module(func.module.path), str(func.parent and func.parent.name))
            method = getattr(owner, func.name)
            func.parameters = griffe.Parameters(*map(_parameter, inspect.signature(method).parameters.values()))
            if func.docstring is not None:  # links of the options lead on from docs/options.md
                func.docstring.value = as_markdown(LINK.sub(r"\1", inspect.cleandoc(method.__doc__ or "")))
