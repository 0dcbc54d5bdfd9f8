"""Redundancy against stragglers: every block is computed by two workers, so any one of them may be late or die.

python examples/codecs/stragglers.py --local 4                three runs: undisturbed, one worker late, one worker killed
python examples/codecs/stragglers.py --local 3 --victim 0     another number of workers, another victim
python examples/codecs/stragglers.py -n 4                     on the first four workers of ./worker.json

The first copy of a block counts, and sums run along a fixed tree over the blocks; therefore it makes no difference who sends
first, and the weights of the three runs are compared bit for bit. Only the job's process is killed: its worker takes new jobs.

While one is late the others go on, until the buffers of the connections to it are full; what they send must be taken some day.
"""

import csv
import os
import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd
from digits_job import Outcome, Scheme, describe, parser, train

import numpy as np

from parallel_sgd.codec import BlockWeight, FirstCopy, GlobalSettings
from parallel_sgd.profiles import IIDBlockAssignment

MISFORTUNE = 20  # the batch in which it happens
LATE = 1.0  # seconds
CLASSES = 10  # size of the last bias: there is a codec for each variable, but only one of them shall sleep


class Unlucky(FirstCopy):
    """`FirstCopy`, but once the victim sleeps, or is killed, in the middle of a batch."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.batches = 0
        self.fate = GlobalSettings.get_params("fate", "none") if node_id == GlobalSettings.get_params("victim", -1) else "none"

    def update_blocks(self, block_weight: BlockWeight):
        if block_weight.block_id == GlobalSettings.get_default().node_2_block[self.node_id][-1]:
            self.batches += 1
            if self.batches == MISFORTUNE and self.fate == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.batches == MISFORTUNE and self.fate == "late" and block_weight.content.size == CLASSES:
                time.sleep(LATE)
        return super().update_blocks(block_weight)


SCHEME = Scheme(FirstCopy, "every block on two workers", assignment_type=IIDBlockAssignment, redundancy=2)
UNLUCKY = Scheme(Unlucky, SCHEME.why, assignment_type=IIDBlockAssignment, redundancy=2)


def same_weights(one: Outcome, other: Outcome) -> bool:
    """Whether all workers of both runs that are left have equal weights, to the last bit."""
    first, *rest = (model.store.values for outcome in (one, other) for model in outcome.result.models.values())
    return all(np.array_equal(first, values) for values in rest)


def seconds_of(outcome: Outcome, node: int) -> float:
    """How long `node` took from its last block of the unlucky batch to that of the next, from its table of steps."""
    path = next(path for path in outcome.result.files[node] if path.match("TR-*.csv"))
    with path.open(newline="") as file:
        rows = {(row["Epochs"], row["Batches"]): float(row["Time"]) for row in csv.DictReader(file)}
    ends = list(rows.values())  # when each batch's last block was computed
    return ends[MISFORTUNE] - ends[MISFORTUNE - 1]


def main() -> int:
    """Train three times and compare."""
    options = parser(__doc__, workers=4, epochs=5)
    options.add_argument("--victim", type=int, metavar="ID", help="the worker that has bad luck (default the last one)")
    given = options.parse_args()
    count = given.local or given.n
    victim = count - 1 if given.victim is None else given.victim
    if not (count >= 2 and 0 <= victim < count):
        options.error(f"there must be at least 2 workers, and the victim one of them, got {count} and {victim}")
    if given.epochs < 2:
        options.error(f"the misfortune happens in batch {MISFORTUNE}, in the second epoch; --epochs must be at least 2")
    outcomes: dict[str, Outcome] = {}
    with psgd.nodes_of(options, given) as nodes:
        for fate in ("none", "late", "killed"):
            luck = {"fate": fate, "victim": victim}
            folder = Path(given.directory) / fate
            outcomes[fate] = train(UNLUCKY, nodes, given.epochs, folder, codec_extra_parameters=luck)
    undisturbed = outcomes["none"]
    print(f"Undisturbed: {describe(SCHEME, undisturbed)}")
    equal = True
    for fate, what in (("late", f"slept for {LATE} s"), ("killed", "was killed")):
        outcome = outcomes[fate]
        longest = max(seconds_of(outcome, node) for node in outcome.result.models if node != victim)
        same = same_weights(undisturbed, outcome)
        equal = equal and same
        print(
            f"Worker {victim} {what} in batch {MISFORTUNE}: the others took {1000 * longest:.0f} ms at most for that batch; "
            f"workers {', '.join(map(str, outcome.result.models))} have {'the same' if same else 'OTHER'} weights."
        )
    return int(not equal)


if __name__ == "__main__":
    raise SystemExit(main())
