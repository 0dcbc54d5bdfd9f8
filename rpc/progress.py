"""How far the workers are: bars on a terminal, otherwise one plain line per change."""

from __future__ import annotations

import contextlib
import logging
import sys

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm


class ProgressDisplay:
    """One bar per worker, 0 to 100."""

    def __init__(self, nodes: list[int], logger: logging.Logger) -> None:
        self._percent: dict[int, int] = {}
        self._logger = logger
        self._bars: dict[int, tqdm[None]] = {}
        self._above = contextlib.ExitStack()
        self._is_terminal = sys.stderr.isatty()
        if self._is_terminal:
            self._above.enter_context(logging_redirect_tqdm())  # log lines scroll above the bars
        for node in nodes:
            self.add(node, 0)

    def add(self, node: int, percent: int) -> None:
        """Show one more worker, which is at `percent`."""
        self._percent[node] = percent
        if self._is_terminal:
            layout = "Worker({}): {{percentage:3.0f}}%|{{bar:40}}| {{elapsed}}".format(node)  # noqa: UP032  tqdm's own braces
            position = len(self._bars)
            self._bars[node] = tqdm(total=100, initial=percent, position=position, leave=True, bar_format=layout)

    def __contains__(self, node: int) -> bool:
        return node in self._percent

    def update(self, node: int, percent: int) -> None:
        """Show that `node` is at `percent`."""
        if node not in self._percent or self._percent[node] == percent:
            return
        self._percent[node] = percent
        if self._bars:
            bar = self._bars[node]
            bar.update(percent - bar.n)
        else:
            state = " ".join(f"Worker({n}):{p:3d}%" for n, p in self._percent.items())
            self._logger.info("Current progress: %s | Running", state)

    def close(self) -> None:
        """Leave the display as it is."""
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
        self._above.close()
