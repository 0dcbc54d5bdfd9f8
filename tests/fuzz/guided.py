"""Inputs that coverage chooses: those that reach new lines of a reader are kept and altered further (atheris).

What they take of memory is not measured; a process that takes 2 GiB is ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

PACKAGES = ["network", "rpc", "executor", "nn", "parallel_sgd"]
HANGS_SECONDS = 20
TIMED_OUT = 70
"""The exit code of libFuzzer for an input that takes longer."""
SAVE_EVERY = 1000


def explore(names: list[str], inputs: int, seed: int, folder: Path) -> int:
    """Share `inputs` among targets, each in a process of its own; what they reach stays in `folder` for the next time."""
    from .attempt import Tally
    from .run import Run

    run, share = Run(seed, inputs, names), max(1, inputs // len(names))
    print(f"{inputs:,} inputs guided by coverage, seed {seed}, {len(names)} targets.", flush=True)
    for name in names:
        place = folder / "guided" / re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
        (place / "corpus").mkdir(parents=True, exist_ok=True)
        result = place / "tally.json"
        for old in (result, *(place / "findings").glob("*")):
            old.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(share), str(seed), str(place)]
        try:
            code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        except KeyboardInterrupt:
            return 130
        tally = Tally(**json.loads(result.read_text())) if result.exists() else Tally()
        if code:  # it was ended by what it tried, which libFuzzer has left in a file there
            what = "hung" if code == TIMED_OUT else "crashed"
            setattr(tally, what, getattr(tally, what) + 1)
            print(f"{name}: {what}: the process ended with {code} after {tally.tried:,} inputs; see {place}", flush=True)
        run.note(name, share, tally)
        print(f"{name}: {tally.tried:,} tried, {tally.bad} bad, {len(list((place / 'corpus').iterdir())):,} kept", flush=True)
        found = list((place / "findings").glob("*.bin"))
        if found:
            print(f"  {len(found)} of them in {found[0].parent}", flush=True)
    print(run.table())
    return 1 if run.total.bad else 0


def _search(name: str, count: int, seed: int, place: Path) -> None:
    """In the process of one target."""
    import atheris  # an optional extra, which prints when it is loaded

    with atheris.instrument_imports(include=PACKAGES):
        from .attempt import Tally, attempt
        from .mutate import bytes_altered
        from .run import Run
        from .targets import TARGETS
    target, tally, run = TARGETS[name], Tally(), Run(seed, count, [name])
    honest, calls = set(target.seeds), itertools.count(1)
    for number, data in enumerate(target.seeds):
        (place / "corpus" / f"honest-{number}").write_bytes(data)

    def one(data: bytes) -> None:
        call, found = next(calls), []
        if data not in honest:
            found = attempt(target, data, tally.tried, tally)
            for each in found:
                run.keep(place / "findings", each)
        if found or call % SAVE_EVERY == 0 or call >= count:  # honest ones are among the runs that libFuzzer counts
            (place / "tally.json").write_text(json.dumps(asdict(tally)))

    def altered(data: bytes, most: int, number: int) -> bytes:
        rng = random.Random(number)
        if rng.randrange(2):
            with contextlib.suppress(Exception):  # the structure is that of no honest input any more
                return rng.choice((bytes_altered, *target.alter))(rng, bytes(data))[:most]
        changed: Any = atheris.Mutate(data, most)
        return bytes(changed)

    options = [
        f"-runs={count}",
        f"-seed={seed % (1 << 31) or 1}",
        "-max_len=65536",
        f"-timeout={HANGS_SECONDS}",
        "-rss_limit_mb=2048",
    ]
    atheris.Setup([name, *options, f"-artifact_prefix={place}/", str(place / "corpus")], one, custom_mutator=altered)
    atheris.Fuzz()


if __name__ == "__main__":
    _search(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
