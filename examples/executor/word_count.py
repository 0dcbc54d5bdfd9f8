"""The most frequent words in all files of a directory, on workers of this machine or on threads.

python examples/executor/word_count.py DIRECTORY [--workers N] [--threads]
"""

import contextlib
import re
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

from executor import ClusterExecutor, local_nodes
from executor.parallel import Context

WORD = re.compile(r"\w+")


def main() -> int:
    """Count, and show the ten most frequent words."""
    parser = psgd.OptionParser(description="Count the words in the files of a directory.")
    parser.add_argument("directory", type=psgd.existing)
    parser.add_argument("--workers", type=psgd.positive, default=2, help="how many (default 2)")
    parser.add_argument("--threads", action="store_true", help="use threads of this process instead of agents")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        executor: Executor
        if options.threads:
            executor = stack.enter_context(ThreadPoolExecutor(options.workers))
        else:
            executor = stack.enter_context(ClusterExecutor(stack.enter_context(local_nodes(options.workers))))
        words = Context(executor).text_file(options.directory).flat_map(lambda line: WORD.findall(line.lower()))
        counted = words.map(lambda word: (word, 1)).reduce_by_key(lambda a, b: a + b)
        for word, times in counted.sort_by(lambda pair: (-pair[1], pair[0])).take(10):
            print(f"{times:8d} {word}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
