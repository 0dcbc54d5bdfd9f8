"""Give hostile inputs to every reader of bytes that come from strangers, peers or files, and count what comes of them.

Exit codes: 0, nothing was accepted, crashed, hung or took more memory than it may; 1, something did, and the inputs are kept;
2, wrong usage; 130, interrupted: `--resume` goes on.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import tracemalloc
from pathlib import Path

from .attempt import Tally, attempt, trace
from .run import Run, Worker, bad_of, write_table
from .targets import TARGETS

STATE = Path(".fuzz/state.json")
SAVE_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=_count, default=1_000_000, metavar="N", help="in all, over all targets (default 1000000)"
    )
    parser.add_argument(
        "--seed", type=int, help="the same seed gives the same inputs (default: one by the clock, which is printed)"
    )
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--list", action="store_true", help="show the names of the targets and end")
    parser.add_argument(
        "--resume", type=Path, nargs="?", const=STATE, metavar="FILE", help=f"go on where a run has ended (default {STATE})"
    )
    parser.add_argument(
        "--state", type=Path, default=STATE, metavar="FILE", help=f"where to keep how far it is (default {STATE})"
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table into FILE, between its marks, as in docs/security.md"
    )
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="try this kept input at the one --target, and show what comes of it"
    )
    parser.add_argument(
        "--guided", action="store_true", help="let coverage guide the choice of inputs; needs `pip install atheris`"
    )
    options = parser.parse_args()
    if options.list:
        print("\n".join(TARGETS))
        return 0
    if options.input is not None:
        if len(options.target or ()) != 1:
            parser.error("--input needs one --target")
        return _try_one(options.target[0], options.input)
    if options.guided:
        if importlib.util.find_spec("atheris") is None:
            parser.error("--guided needs the package atheris: pip install atheris")
        from .guided import explore

        return explore(options.target or list(TARGETS), options.inputs, _seed(options.seed), options.state.parent)
    try:
        run = Run(_seed(options.seed), options.inputs, options.target) if options.resume is None else Run.load(options.resume)
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"--resume: {options.resume} holds no run that can go on: {error}")
    return _carry_on(run, options.resume or options.state, options.write)


def _carry_on(run: Run, state: Path, write: Path | None) -> int:
    saved = time.monotonic()
    try:
        tried = run.total.tried
        print(f"{run.inputs:,} inputs, seed {run.seed}, {len(run.names)} targets, {tried:,} tried before.", flush=True)
        with Worker() as worker:
            for name, begin, end in run.orders():
                tally, found = worker.attempts(TARGETS[name], run.seed, begin, end)
                run.note(name, end, tally)
                for each in found:
                    path = run.keep(state.parent / "findings", each)
                    if path is not None:
                        print(f"{each.target}: {each.what}: {each.detail.strip().splitlines()[-1][:100]}\n  {path}", flush=True)
                if time.monotonic() - saved > SAVE_SECONDS:
                    run.save(state)
                    saved = time.monotonic()
                    print(f"{run.total.tried:,} tried, {run.total.bad} bad", flush=True)
    except KeyboardInterrupt:
        run.save(state)
        print(f"\nInterrupted after {run.total.tried:,} inputs of seed {run.seed}; go on with --resume {state}")
        return 130
    run.save(state)
    print(run.table())
    counts = zip(("accepted", "crashed", "hung", "beyond their memory"), bad_of(run.total), strict=True)
    print(f"Seed {run.seed}: {run.total.tried:,} tried, {', '.join(f'{count} {what}' for what, count in counts)}.")
    if write is not None:
        write_table(write, f"{run.total.tried:,} inputs of seed {run.seed}:\n\n{run.table()}")
    return 1 if run.total.bad else 0


def _try_one(name: str, path: Path) -> int:
    tally, data = Tally(), path.read_bytes()
    found = attempt(TARGETS[name], data, 0, tally)
    tracemalloc.start()
    found += trace(TARGETS[name], data, 0, tally)
    came = next(what for what in ("refused", "incomplete", "read", "accepted", "crashed", "hung") if getattr(tally, what))
    print(f"{came}; {tally.most} bytes of memory, {tally.slowest:.3f} s")
    print("\n".join(each.detail for each in found), end="")
    return 1 if found else 0


def _count(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return number


def _seed(given: int | None) -> int:
    return given if given is not None else time.time_ns() % (1 << 32)


if __name__ == "__main__":
    sys.exit(main())
