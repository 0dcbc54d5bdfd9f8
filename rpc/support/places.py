"""Folders of a machine in texts that are passed on, such as logs, errors and pages: none tells in which user's home a file is.

A file of the run is told from its folder on, one of an installed package from the package on, one in a home from `~` on.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import network

__all__ = ["data_without_places", "without_places"]

#: Homes on other machines: a traceback of code that has travelled names files of its submitter.
_HOMES = r"(?:home|Users)/[\w.-]+|root"
#: Where an absolute path begins; a pattern that begins with a letter of its own is found fast in a long page.
_SLASH = r"/(?<![\w/.~-]/)"
_END = r"(?![\w.-])"


def without_places(text: str, folder: str | Path | None = None) -> str:
    """Return the text with folders of this machine, and homes of any, in a form that fits everywhere.

    Args:
        text: anything.
        folder: the folder that is told as `.`, such as that of a run; none by default.

    >>> without_places('File "/home/ann/codecs/mine.py", line 3')
    'File "~/codecs/mine.py", line 3'
    >>> without_places("Checkpoint: /data/runs/P-SGD-1/checkpoints/x", "/data/runs/P-SGD-1")
    'Checkpoint: ./checkpoints/x'
    """
    return _without(text, () if folder is None else _spellings(str(folder)))


def data_without_places(content: Any, folder: str | Path | None = None) -> Any:
    """Return plain data with all texts as `without_places` makes them.

    Args:
        content: the data.
        folder: a folder that is told as `.`; None for none.
    """
    # once: links in the path of the folder are looked up on the disk
    own = () if folder is None else _spellings(str(folder))

    def within(part: Any) -> Any:
        if isinstance(part, str):
            return _without(part, own)
        if isinstance(part, dict):
            return {name: within(value) for name, value in part.items()}
        return [within(each) for each in part] if isinstance(part, (list, tuple)) else part

    return within(content)


def _without(text: str, own: Sequence[str]) -> str:
    """Return the text without the folder of these spellings, of packages and of homes."""
    if "/" not in text:
        return text
    # most texts name no file: no pattern is made for these
    pattern = "|".join(re.escape(each) for each in own if each in text)
    # first: a run's folder may lie in a home, and tells more from its own begin
    text = re.sub(f"{_SLASH}(?:{pattern}){_END}", ".", text) if pattern else text
    packages, home = _patterns()
    return home.sub("~", packages.sub("", text))


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Make the patterns of the text before the path of a package, and of a home."""
    roots = {
        str(Path(network.__file__).resolve().parents[1]),
        *map(str, map(sysconfig.get_path, ("purelib", "platlib", "stdlib"))),
    }
    # the longest first: one root may lie in another
    found = sorted({each for root in roots for each in _spellings(root)}, key=len, reverse=True)
    home = "|".join([*map(re.escape, _spellings(os.path.expanduser("~"))), _HOMES])
    packages = re.compile(f"{_SLASH}(?:{'|'.join(map(re.escape, found))})/(?=[\\w.])")
    return packages, re.compile(f"{_SLASH}(?:{home}){_END}")


def _spellings(folder: str) -> list[str]:
    """Return the path, as it is and without links, behind its first slash; nothing for the root."""
    return [each[1:] for each in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))) if each != os.sep]
