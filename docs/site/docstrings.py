"""Docstrings as Markdown: doctests are code, what is raised and which shapes there are begins a paragraph, <name> is text."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
LEAD = re.compile(r"\n+(Raises|Returns|Shapes|Attributes): (?=\S)")
OPENING = re.compile(r"<(?=[\w/])")
CODE = re.compile(r"(^(?: {4}|>>> ).*$|^```.*?^```|`[^`]*`)", re.DOTALL | re.MULTILINE)


def as_markdown(text: str) -> str:
    parts = CODE.split(text)  # every second one is code
    parts[::2] = [OPENING.sub("&lt;", part) for part in parts[::2]]
    text = LEAD.sub(r"\n\n**\1:** ", "".join(parts))
    return DOCTEST.sub(r"```pycon\n\g<0>\n```", text)


class Docstrings(griffe.Extension):
    """What mkdocstrings calls for each object that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
