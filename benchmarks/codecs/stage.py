"""One stage in one direction: `<name>:encode` or `<name>:decode`.

What counts is the processor's time: nothing here waits, and the gates are about one core, however busy the others are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import numpy as np

from benchmarks.codecs.workload import SIZE, STAGES
from parallel_sgd.codec.pipeline import Chain, Draw, Reader, Writer


def prepare(argument: str) -> Callable[[], float]:
    name, direction = argument.split(":")
    stage, draw = Chain([STAGES[name].make()]), Draw(seed=1, epoch=0, batch=0, variable=0, node=0)
    x = np.random.default_rng(0).standard_normal(SIZE, np.float32)
    writer, batches = Writer(), count()

    def encode() -> object:
        writer.write(stage.encode(x, writer, draw._replace(batch=next(batches))))
        return writer.join()

    payload = np.asarray(encode())

    def decode() -> object:
        reader = Reader(payload)
        side, carried = stage.parse(reader, SIZE, draw)
        return stage.decode(reader.read(carried, np.float32), side, SIZE)

    work = encode if direction == "encode" else decode

    def run() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run
