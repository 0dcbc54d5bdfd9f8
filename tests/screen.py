"""A terminal for tests: where stderr goes, and what then stands on it."""

from __future__ import annotations

import io
import re


class Screen(io.StringIO):
    """Stands in for `sys.stderr`; tqdm writes text, line ends and "one line up" only."""

    def isatty(self) -> bool:
        return True

    @property
    def rows(self) -> list[str]:
        """What a person sees, line by line from the top."""
        rows, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[A|[\r\n]|[^\x1b\r\n]+", self.getvalue()):
            if part == "\x1b[A":
                row = max(0, row - 1)
            elif part in "\r\n":
                row, column = row + (part == "\n"), 0
                rows += [""] * (row + 1 - len(rows))
            else:
                rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
                column += len(part)
        return [shown.rstrip() for shown in rows]
