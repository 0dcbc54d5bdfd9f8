"""Print the table of `budgets`; with names of rows, or parts of them, also what these count."""

from __future__ import annotations

import sys

from tests.house.budgets import JOB, TEXT


def main(wanted: list[str]) -> int:
    """Print it; 1 when a budget is exceeded."""
    print(f"{'':54}{'measured':>10}{'limit':>10}{'goal':>10}")
    exceeded = False
    for budget in (*TEXT, *JOB):
        count = budget.measure()
        over = budget.exceeded(count.value)
        mark = "  exceeded" if over else "" if budget.limit != budget.goal else "  reached"
        print(f"{budget.name:54}{count.value:>10.5g}{budget.limit:>10.5g}{budget.goal:>10.5g}{mark}", flush=True)
        if over or any(text in budget.name for text in wanted):
            print("".join(f"    {part}\n" for part in count.parts), end="")
        exceeded = exceeded or over
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
