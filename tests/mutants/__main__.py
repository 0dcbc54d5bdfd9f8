"""Make one small wrong change after another in a copy of the checkout, and see whether the gate's tests notice.

make mutants                                      all; `make mutants OPTIONS="-j 2"` two at a time
python -m tests.mutants run [NUMBER ...]          those, each with the test that killed it last first
python -m tests.mutants draw                      fill the list: for numbers that have none, or whose statement is gone
python -m tests.mutants draw --seed NUMBER        draw sixty more, by another seed
python -m tests.mutants replace NUMBER REASON     take out a mutant that changes nothing, and draw another for it
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.leaks import adopt_orphans
from tests.mutants.checkout import Checkout, checkout_files, end_all
from tests.mutants.drawing import draw
from tests.mutants.listing import LIST, Mutant, MutantList
from tests.mutants.ranking import ranked
from tests.sources import ROOT

COMPUTING, PROCESSES = "not processes and not long", "processes and not alone and not long"
ANY = "not alone and not long"  # all tests of the gate but those that state a time: with a busy machine they say nothing
ALONE_SECONDS = 150.0  # for one test, again; its own limit is less
BATCHES = (3, 12)  # so many test files go first, then so many, then all others
RESULTS = ROOT / ".mutants.jsonl"  # of a run that was interrupted


@dataclass
class Verdict:
    """What became of one mutant. `killed_by` is empty where all tests passed, or where time ran out; `unfit` where the test
    that killed it before was left out, since it fails without a mutant, too."""

    number: int
    key: list[str]
    killed_by: str
    seconds: float
    expired: bool = False
    unfit: bool = False

    def line(self, mutant: Mutant) -> str:
        said = self.killed_by or ("TIME IS UP" if self.expired else "SURVIVED")
        if self.unfit and not self.killed_by:
            said += f", AND {mutant.killed_by} FAILS WITHOUT A MUTANT"
        place = f"{mutant.package} {mutant.name}"
        return f"{mutant.number:3}  {mutant.kind:8}  {place:60}  {said:80}  {self.seconds:6.1f} s"


class Judge:
    """Runs tests on a mutant until one fails that does so again, and passes without the mutant."""

    def __init__(self, checkout: Checkout, limit: float, likely: bool, unfit: set[str]) -> None:
        self.checkout = checkout
        self._limit = limit
        self._likely = likely
        self._unfit = unfit  # tests that fail here without any mutant

    def warm_up(self, mutants: Iterable[Mutant]) -> None:
        """Find out which tests that are to kill again fail without a mutant, too."""
        killers = sorted({mutant.killed_by for mutant in mutants} - {""})
        while killers and self._doubt(self.checkout.run(killers, ANY, self._limit, self._unfit).failed):
            pass

    def _doubt(self, failed: str) -> bool:
        """Leave a test out from now on; false where there is none, or none that can be left out."""
        if not failed or failed in self._unfit:
            return False
        self._unfit.add(failed)
        return True

    def judge(self, mutant: Mutant) -> Verdict:
        begin = time.monotonic()
        deadline, expired = begin + self._limit, False
        killed_by = ""
        for tests, marks in self._plan(mutant):
            killed_by, expired = self._killer(mutant, tests, marks, deadline)
            if killed_by or expired:
                break
        unfit = mutant.killed_by in self._unfit
        return Verdict(mutant.number, list(mutant.key), killed_by, time.monotonic() - begin, expired, unfit)

    def _plan(self, mutant: Mutant) -> Iterable[tuple[list[str], str]]:
        if mutant.killed_by:
            yield [mutant.killed_by], ANY
        computing, processes = ranked(mutant.place, False), ranked(mutant.place, True)
        few, more = BATCHES
        yield computing[:few], COMPUTING
        yield computing[few : few + more], COMPUTING
        yield processes[:few], PROCESSES
        if not self._likely:
            yield computing[few + more :], COMPUTING
            yield processes[few:], PROCESSES

    def _killer(self, mutant: Mutant, tests: list[str], marks: str, deadline: float) -> tuple[str, bool]:
        while True:
            limit = ALONE_SECONDS if tests == [mutant.killed_by] else deadline - time.monotonic()
            with self.checkout.changed(mutant):
                failed, expired = self.checkout.run(tests, marks, limit, self._unfit)
                if not failed or failed == mutant.killed_by:
                    return failed, expired
                # what starts processes may also fail because the machine is busy, and who was under way may only be slow
                sure = marks == COMPUTING and not expired
                sure = sure or bool(self.checkout.run([failed], marks, ALONE_SECONDS).failed)
            if sure and not self.checkout.run([failed], marks, ALONE_SECONDS).failed:
                return failed, False
            if expired:
                return "", True
            if not self._doubt(failed):
                return "", True


def run(listed: MutantList, options: argparse.Namespace) -> int:
    chosen = [mutant for mutant in listed.mutants if mutant.number in options.numbers or not options.numbers]
    tree = _fingerprint()
    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    verdicts = _earlier(tree, chosen)
    print(f"{len(chosen)} mutants of {len(listed.seeds)} seeds, {len(verdicts)} of them judged before", flush=True)
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="m") as folder, ThreadPoolExecutor(options.j) as pool:
        free: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        unfit: set[str] = set()
        judges = [Judge(Checkout(Path(folder, str(slot))), options.limit, options.likely, unfit) for slot in range(options.j)]
        left = [mutant for mutant in chosen if mutant.number not in verdicts]
        judges[0].warm_up(left)
        for judge in judges:
            free.put(judge)
        waiting = [pool.submit(_judged, mutant, free) for mutant in left]
        by_number = {mutant.number: mutant for mutant in chosen}
        try:
            for future in as_completed(waiting):
                verdict = future.result()
                verdicts[verdict.number] = verdict
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"tree": tree, **asdict(verdict)}) + "\n")
                print(verdict.line(by_number[verdict.number]), flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    return _report(chosen, verdicts)


def _judged(mutant: Mutant, free: queue.SimpleQueue[Judge]) -> Verdict:
    judge = free.get()
    try:
        return judge.judge(mutant)
    finally:
        free.put(judge)


def _report(chosen: list[Mutant], verdicts: dict[int, Verdict]) -> int:
    """The table, and in the list which test killed each."""
    print(f"\n{'':3}  {'kind':8}  {'place':60}  {'killed by':80}")
    for mutant in chosen:
        print(verdicts[mutant.number].line(mutant))
    now = MutantList.read()  # others may have been drawn meanwhile
    killers = {tuple(verdict.key): verdict.killed_by for verdict in verdicts.values()}
    for mutant in now.mutants:
        mutant.killed_by = killers.get(mutant.key) or mutant.killed_by
    now.write()
    if len(chosen) == len(now.mutants):
        RESULTS.unlink(missing_ok=True)
    alive = [mutant for mutant in chosen if not verdicts[mutant.number].killed_by]
    print(f"{len(chosen) - len(alive)} of {len(chosen)} killed, {sum(v.seconds for v in verdicts.values()):.0f} s of tests")
    for mutant in alive:
        print(f"{mutant.number:3} lives: {mutant.place.module}:{mutant.place.node.lineno} {mutant.name}")
        print(f"     {mutant.statement!r}\n  -> {mutant.becomes!r}")
    return 1 if alive else 0


def _fingerprint() -> str:
    """Of all files but the list, which a run changes."""
    digest = hashlib.sha256()
    for name in checkout_files():
        if ROOT / name not in (LIST, RESULTS):
            digest.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest()


def _earlier(tree: str, chosen: list[Mutant]) -> dict[int, Verdict]:
    """Verdicts of an interrupted run of the same files."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    stored = [json.loads(line) for line in lines]
    verdicts = [Verdict(**{k: v for k, v in entry.items() if k != "tree"}) for entry in stored if entry["tree"] == tree]
    keys = {mutant.number: list(mutant.key) for mutant in chosen}
    return {verdict.number: verdict for verdict in verdicts if keys.get(verdict.number) == verdict.key}


def _drawn(listed: MutantList) -> int:
    print(f"seeds {listed.seeds}")
    for mutant in draw(listed):
        print(f"{mutant.number:3} {mutant.area}, {mutant.kind}: {mutant.place.module} {mutant.name}")
        print(f"     {mutant.statement!r}\n  -> {mutant.becomes!r}")
    listed.write()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    running = actions.add_parser("run", help="run the tests on mutants; exit code 1 where one survives")
    running.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="which (default: all)")
    running.add_argument("-j", type=int, default=1, help="how many at a time (default 1)")
    running.add_argument("--limit", type=float, default=1800.0, help="seconds for one mutant (default 1800)")
    running.add_argument("--likely", action="store_true", help="only the tests that are likely to see a mutant")
    running.add_argument("--fresh", action="store_true", help="judge anew what an interrupted run has judged")
    drawing = actions.add_parser("draw", help="fill the list")
    drawing.add_argument("--seed", type=int, help="draw sixty more by this seed")
    replacing = actions.add_parser("replace", help="take out a mutant that no test can kill")
    replacing.add_argument("number", type=int)
    replacing.add_argument("reason")
    options = parser.parse_args()
    listed = MutantList.read()
    if options.action == "run":
        return run(listed, options)
    if options.action == "replace":
        listed.take_out(options.number, options.reason)
    elif options.seed is not None:
        listed.seeds.append(options.seed)
    return _drawn(listed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Interrupted: called again, it goes on behind what is judged.")
        sys.exit(130)
