"""Run jobs whose workers are killed, stopped, cut off, added and taken away, and compare each with an undisturbed run."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import parallel_sgd
from parallel_sgd import JobResult, local_workers
from parallel_sgd.codec.plain import Plain
from parallel_sgd.profiles import FixedBlockAssignment
from tests.leaks import no_leaks
from tests.processes.training.jobs import digits_job, only_weights, some
from tests.soak.weather import EPOCHS, FIRST, SPARE, WORKERS, Storm, draw

SETTINGS: dict[str, Any] = {"epoch": EPOCHS, "block_size": 8, "assignment_type": FixedBlockAssignment.of(blocks=WORKERS)}
INTERRUPTED = 130
NOBODY = "No hosts from previous set remaining"  # the one that discovery let stay had failed


class Slow(Plain):
    """Batches of some milliseconds, so that hosts can change during the job."""

    def update_blocks(self, block_weight: Any) -> Any:
        """As `Plain`, a moment later."""
        time.sleep(0.008)
        return super().update_blocks(block_weight)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="no new job begins after that (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the first storm; each job has the next one (default 0)")
    parser.add_argument("--verbose", action="store_true", help="let the submitter tell its story")
    options = parser.parse_args()
    if not options.verbose:
        logging.basicConfig(handlers=[logging.NullHandler()])
    with tempfile.TemporaryDirectory() as folder, parallel_sgd.in_process(1) as nodes:
        calm = only_weights(digits_job().parallel(nodes, directory=folder, **SETTINGS))
    deadline, seed, bad, lone, is_interrupted = time.monotonic() + 60.0 * options.minutes, options.seed, 0, 0, False
    while seed == options.seed or time.monotonic() < deadline:
        storm, begin, problem = draw(seed), time.monotonic(), ""
        try:
            with no_leaks():
                problem, told = survived(storm, calm)
            told = f"{told}  {problem or 'weights equal, ledger complete'}"
        except KeyboardInterrupt:
            is_interrupted = True
            break
        except Exception as error:  # every storm is reported, whatever it did
            told = f"{type(error).__name__}: {error}"
            if storm.seen and NOBODY in told:
                lone += 1
                told = "EL-20: nobody was left who had the state, so the job ended"
            else:
                problem = told
        print(f"storm {seed:4}  {storm.policy:8} {time.monotonic() - begin:5.1f} s  {told}", flush=True)
        if problem:
            bad += 1
            print(f"            {storm.plan}", flush=True)
        seed += 1
    begins = "Interrupted after " if is_interrupted else ""
    print(f"{begins}{seed - options.seed} storms, {bad} not survived, {lone} in which nobody was left.")
    return INTERRUPTED if is_interrupted else int(bad > 0)


def survived(storm: Storm, calm: bytes) -> tuple[str, str]:
    """What is wrong with the result of a job in this storm, "" for nothing; and what happened."""
    with tempfile.TemporaryDirectory() as folder, local_workers(WORKERS + SPARE if storm.seen else WORKERS) as agents:
        settings = dict(SETTINGS, fault=storm.plan, stall_timeout=3.0, max_restarts=50, codec={0: Slow}, directory=Path(folder))
        if storm.seen:
            answers = iter(storm.seen)
            last = storm.seen[0]

            def discovery() -> list[str]:
                nonlocal last
                last = next(answers, last)
                return [str(agents[agent]) for agent in last]

            settings |= {"discovery": discovery, "min_workers": 1, "max_workers": WORKERS}
            result = digits_job().parallel(some(agents, FIRST), **settings)
        else:
            result = digits_job().parallel(agents, on_failure=storm.policy, **settings)
        return _problem(result, calm), f"{result.restarts} restarts, {_fired(result)} faults"


def _problem(result: JobResult, calm: bytes) -> str:
    if only_weights(result) != calm:
        return "the weights are NOT those of the undisturbed run"
    if result.ledger is None or result.ledger.problems:
        return f"the ledger is not complete: {result.ledger and result.ledger.problems}"
    return ""


def _fired(result: JobResult) -> int:
    """How many faults the logs of all nodes tell of."""
    logs = [path for files in result.files.values() for path in files if path.name.startswith("Fit-")]
    return sum(path.read_text("utf-8").count("Injected fault in") for path in logs)


if __name__ == "__main__":
    sys.exit(main())
