"""The codec of a job that names none, and why: by a fixed table, so that everybody who asks gets the same one."""

from __future__ import annotations

from typing import NamedTuple

from parallel_sgd import codec as codecs

from .interfaces import Codec


class _Row(NamedTuple):
    """Where the parameters take at least `size` bytes, up to so many `workers` send everything to each other."""

    size: int
    workers: int


#: All to all costs W (W - 1) packets per variable, and every worker sends (W - 1) times the parameters. Shards go there and
#: back, but a small variable costs 2 (W - 1) packets, and a worker sends less than twice the parameters. On one host bytes cost
#: little, and packets processors that all share; between hosts bytes cost most. The last row that fits counts.
ONE_HOST = (_Row(0, 8),)
SEVERAL_HOSTS = (_Row(0, 8), _Row(256 << 10, 4), _Row(4 << 20, 2))


class Default(NamedTuple):
    """A codec, and what is to be told of the choice; "" where it is `Plain`, which nobody need be told of."""

    codec: type[Codec]
    said: str = ""


def exact_default(workers: int, size: int, hosts: int) -> Default:
    """`Plain`, or past a number of workers `Ring`, which gives the same bits.

    `size` is that of the parameters in bytes, `hosts` how many the addresses of the workers name. Nothing is measured.
    """
    most = [row.workers for row in (ONE_HOST if hosts == 1 else SEVERAL_HOSTS) if size >= row.size][-1]
    if workers <= most:
        return Default(codecs.Plain)
    where = "one host" if hosts == 1 else f"{hosts} hosts"
    return Default(
        codecs.Ring,
        f"Codec: Ring, with the bits of Plain, which sends everything to all: for {workers} workers on {where} and parameters "
        f"of {size} bytes more than {most} of them would. codec=Plain takes that nevertheless.",
    )
