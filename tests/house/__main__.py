"""Print the totals, with their change since the last release, and the budgets of `budgets`.

With names of rows, or parts of them, also the items that these rows count.
"""

from __future__ import annotations

import sys

from tests.house.budgets import JOB, PROSE, TEXT, TOTALS, Budget, Total


def main(wanted: list[str]) -> int:
    """Print the table and return 1 when a budget is exceeded."""
    print(f"{'':60}{'measured':>10}{'limit':>10}{'since the last release':>24}")
    exceeded = False
    rows: list[Total | Budget] = [*TOTALS, *TEXT, *PROSE, *JOB]
    for row in rows:
        count = row.measure()
        over = isinstance(row, Budget) and row.exceeded(count.value)
        limit = f"{row.limit:>10.5g}" if isinstance(row, Budget) else ""
        before = row.before() if isinstance(row, Total) else None
        change = "" if before is None else f"{'':10}{count.value - before:>+24,.0f}"
        print(f"{row.name:60}{_shown(count.value):>10}{limit}{change}{'  exceeded' if over else ''}", flush=True)
        if over or any(text in row.name for text in wanted):
            print("".join(f"    {part}\n" for part in count.parts), end="")
        exceeded = exceeded or over
    return int(exceeded)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:.5g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
