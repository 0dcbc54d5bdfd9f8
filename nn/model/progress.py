"""Progress of training on the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import TextIO

from nn.notebook import in_notebook


class Progress:
    """One line per epoch with its results, whatever the width of the terminal; a bar in its place while the epoch lasts.

    Where there is no terminal, or one that does not say how wide it is, there is no bar; nothing at all if silent.
    """

    def __init__(self, title: str, samples: int | None, *, silent: bool) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - a tenth of the time of `import nn`, and workers show no bar

        self._title, self._silent = title, silent
        self._began = perf_counter()
        hidden = silent or not _columns(sys.stderr)
        self._bar = tqdm(total=samples, desc=title, unit=" samples", leave=False, disable=hidden)
        self._stream = sys.stdout if in_notebook() else sys.stderr
        self.advance, self._write = self._bar.update, tqdm.write

    def finish(self, results: Mapping[str, float]) -> None:
        """Show the results of the epoch, and the seconds it took."""
        self._bar.close()
        if not self._silent:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self._write(f"{self._title}: {shown} ({perf_counter() - self._began:.1f} s)", file=self._stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        # a bar that stopped halfway stays above the error
        self._bar.leave = kind is not None
        self._bar.close()


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal; 0 where there is none or it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (AttributeError, OSError, ValueError):
        return 0
