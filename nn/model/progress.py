"""Progress of training on the terminal."""

import sys
from collections.abc import Mapping

from tqdm import tqdm


class Progress:
    """One line per epoch: a bar while it lasts on a terminal, a plain line at its end elsewhere, nothing if silent."""

    def __init__(self, title: str, samples: int | None, *, silent: bool) -> None:
        self._title, self._silent = title, silent
        self._plain = not sys.stderr.isatty()
        self._bar = tqdm(total=samples, desc=title, unit=" samples", disable=silent or self._plain)
        self.advance = self._bar.update

    def finish(self, results: Mapping[str, float]) -> None:
        """Show the results of the epoch."""
        shown = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
        self._bar.set_postfix_str(shown)
        self._bar.close()
        if self._plain and not self._silent:
            tqdm.write(f"{self._title}: {shown}", file=sys.stderr)
