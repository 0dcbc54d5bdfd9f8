"""Fair timing: contenders take turns in one run, each in a process of its own, and what counts is the ratio within a round.

A contender is a module with `prepare(argument) -> Callable[[], float]`, which returns a function that does one round and
gives its seconds. The processes are started without the variables that steer OpenBLAS away from the machine's own kernels, and
with a fixed number of BLAS threads, before NumPy is imported.
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nn.threads import describe_blas

STEERING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROOT = Path(__file__).parent.parent


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a contender."""
    kept = {name: value for name, value in os.environ.items() if name not in STEERING}
    return {**kept, **dict.fromkeys(THREADS, str(threads))}


@dataclass
class Result:
    """What one contender did: seconds of every round, or why it could not take part."""

    seconds: list[float]
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def take_turns(contenders: Mapping[str, tuple[str, str]], threads: int, rounds: int) -> dict[str, Result]:
    """Time contenders, given as name -> (module, argument), in turns; the first round of each is thrown away."""
    teams = {name: _Contender(module, argument, threads) for name, (module, argument) in contenders.items()}
    results = {name: Result([]) for name in teams}
    try:
        for round_number in range(rounds + 1):
            for name, team in teams.items():
                reply = team.round()
                if "error" in reply:
                    results[name].note = str(reply["error"])
                elif round_number:
                    results[name].seconds.append(float(str(reply["seconds"])))
    finally:
        for team in teams.values():
            team.close()
    return results


def ratio(numerator: Result, denominator: Result) -> float:
    """Return the median of the ratios of the single rounds, which drifts of the machine's speed do not touch."""
    return statistics.median(a / b for a, b in zip(numerator.seconds, denominator.seconds, strict=True))


class _Contender:
    """A child process that does one round each time it is told to."""

    def __init__(self, module: str, argument: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.pairing", module, argument],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment(threads),
        )  # fmt: skip

    def round(self) -> dict[str, object]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write("go\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        reply: dict[str, object] = json.loads(line) if line else {"error": "its process ended"}
        return reply

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _serve(module: str, argument: str) -> None:
    """Be a contender: one round per line on stdin, one reply per line on what stdout was at the start."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints must not disturb the replies
    run: Callable[[], float] | None = None
    for _ in sys.stdin:
        try:
            if run is None:
                run = importlib.import_module(module).prepare(argument)
            reply: dict[str, object] = {"seconds": run()}
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its reply
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def run_child(module: str, arguments: Sequence[str], threads: int) -> str:
    """Return what `python -m module arguments` prints in the environment of a contender."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(threads), check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--blas"]:
        print(describe_blas())
    else:
        _serve(*sys.argv[1:])
