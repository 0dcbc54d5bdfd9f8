"""Fair timing: contenders take turns in one run, each in a process of its own, and what counts is the ratio within a round.

What a contender is stands in `benchmarks.contender`. The processes are started without the variables that steer OpenBLAS away
from the machine's own kernels, and with a fixed number of BLAS threads, before NumPy is imported.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import contender
from rpc.job.kernels import kernel_variables

STEERING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
COMPILING = "PYTHONDONTWRITEBYTECODE"
"""With it each start compiles all modules that were changed since they were last compiled, which no user's start does."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROOT = Path(__file__).parent.parent
SPINNING_SECONDS = 0.25  # for which threads of a BLAS or of OpenMP may look for more work, on the core of whoever is next


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a contender."""
    kept = {name: value for name, value in os.environ.items() if name not in (*STEERING, COMPILING)}
    return {**kept, **dict.fromkeys(THREADS, str(threads))}


@dataclass
class Result:
    """What one contender did: seconds of every round, or why it could not take part."""

    seconds: list[float]
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def take_turns(
    contenders: Mapping[str, tuple[str, str]],
    threads: int,
    rounds: int,
    checkouts: Mapping[str, Path] | None = None,
    kernels: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
) -> dict[str, Result]:
    """Time contenders in turns; the one that begins a round ends the next one. The first round of each process is thrown away.

    Short rounds are repeated within the process (`contender.median_round`).

    Args:
        contenders: name: (module, argument).
        threads: BLAS threads of a process.
        rounds: how many count.
        checkouts: the product of a contender; default: this one.
        kernels: the set of kernels of a contender; default: those that OpenBLAS picks.
        anew: whether each round has a process of its own. Where the arrays of a process lie is drawn when it starts and stays,
            and is worth as much as a half of the time of a pass over memory: of one process all rounds have the same luck.
    """
    teams = {
        name: _Contender(
            module, argument, threads, (checkouts or {}).get(name, ROOT), kernel_variables((kernels or {}).get(name, ""))
        )
        for name, (module, argument) in contenders.items()
    }
    results = {name: Result([]) for name in teams}
    try:
        for round_number in range(rounds):
            order = list(teams.items())
            for name, team in reversed(order) if round_number % 2 else order:
                if threads > 1:
                    time.sleep(SPINNING_SECONDS)
                reply = team.round()
                if "error" in reply:
                    results[name].note = str(reply["error"])
                else:
                    results[name].seconds.append(float(str(reply["seconds"])))
                if anew:
                    team.close()
    finally:
        for team in teams.values():
            team.close()
    return results


def ratio(numerator: Result, denominator: Result) -> float:
    """Return the median of the ratios of the single rounds, which drifts of the machine's speed do not touch."""
    return statistics.median(a / b for a, b in zip(numerator.seconds, denominator.seconds, strict=True))


def quartiles(values: Sequence[float]) -> list[float]:
    """Return the lower quartile, the median and the upper quartile of values; of one value, that value three times."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3


class _Contender:
    """A child process that does one round each time it is told to; it is started for the first of them."""

    def __init__(self, module: str, argument: str, threads: int, checkout: Path, variables: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-W", "ignore", contender.__file__, str(checkout), module, argument]
        self._environment = {**environment(threads), **variables, "PYTHONPATH": str(checkout)}
        self._checkout = checkout
        self._process: subprocess.Popen[str] | None = None

    def round(self) -> dict[str, object]:
        """Do a round that counts; the process that does it has done one before."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self._checkout,
                env=self._environment,
            )
            first = self._ask(self._process)
            if "error" in first:
                return first
        return self._ask(self._process)

    def _ask(self, process: subprocess.Popen[str]) -> dict[str, object]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        reply: dict[str, object] = json.loads(line) if line else {"error": "its process ended"}
        return reply

    def close(self) -> None:
        """End the process; another round starts a new one."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def run_child(module: str, arguments: Sequence[str], threads: int) -> str:
    """Return what `python -m module arguments` prints in the environment of a contender."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment(threads), check=True, capture_output=True, text=True).stdout
