"""What is shown in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def show(owner: str, picture: Mapping[str, str | bytes], example: str) -> None:
    """Put a picture, in any of some formats by MIME type, below the cell that runs.

    Raises ValueError outside a notebook, where `owner` needs the path of a file, such as `example`.
    """
    if not in_notebook():
        raise ValueError(f"{owner} needs a 'path' outside a notebook, such as {example!r}, got None")
    from IPython.display import display  # noqa: PLC0415 - is there in a notebook

    display(dict(picture), raw=True)
