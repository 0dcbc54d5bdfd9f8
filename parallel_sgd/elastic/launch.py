"""`launch`: a function on workers that come and go."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from network.key_files import find_keys_for
from network.loopback import refuse_misplaced
from network.nodes import Address, NodeAssignment
from network.values import encode
from nn import arguments
from nn.extension import checked_call
from rpc import new_job_id
from rpc.elastic import ELASTIC_TIMEOUT, PERIOD_SECONDS, CoolDown, ElasticDriver, Host, HostsSeen, discovery_of
from rpc.shipping import Bundle
from rpc.submit import pack_executable
from rpc.support.logs import attach_console, short_console

from ..nodes import InProcessNodes, LocalNodes
from .job import KEEP_SECONDS, ElasticJob, StateFile
from .stragglers import STOP_SECONDS, WARN_SECONDS, StragglerDetector
from .worker import ElasticWorker
from .worker_handle import Task

_HOPELESS_SECONDS = 1.0  # to wait for slots that no host can bring


@checked_call
def launch(
    func: Callable[..., Any],
    nodes: NodeAssignment,
    args: Sequence[Any] = (),
    *,
    min_workers: int = 1,
    max_workers: int | None = None,
    discovery: str | Path | Callable[[], Iterable[str]] | None = None,
    cool_down: tuple[float, float] | None = None,
    reset_limit: int | None = None,
    timeout: float = ELASTIC_TIMEOUT,
    stall_timeout: float | None = None,
    warn_after: float = WARN_SECONDS,
    stop_after: float = STOP_SECONDS,
    discovery_every: float = PERIOD_SECONDS,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = KEEP_SECONDS,
    blas_threads: int = 1,
    title: str = "elastic",
    on_print: Callable[[int, str], None] | None = None,
) -> dict[int, Any]:
    """Run `func(*args)` on every worker; return the results of the workers of the last round, {rank: value}.

    Inside, `elastic.rank()`, `size()`, `allreduce`, `broadcast` and `barrier` work on the group of all workers, in the thread
    that runs the function; `elastic.run` has it go on when workers are lost, come or leave. Survivors keep their process and
    its memory. This program drives the job: it returns when the job ends, and the job ends with it.

    The function travels as the code of jobs does (see `rpc.shipping`); arguments that are data may have any size; the result
    of the function must be data.

    Args:
        func: the function that every worker runs.
        nodes: the workers of the first round, which waits for as many slots; a host that stands there twice has two.
        args: the arguments of `func`.
        min_workers: with how many later rounds may go on; with fewer, training pauses.
        max_workers: how many there are at most; default as many as there are slots.
        discovery: source of hosts while the job runs: the path of a script that prints `host[:port] [slots=n]` lines, of a
            watched `worker.json`, or a function that returns such lines. Default: the hosts of `nodes`, for ever.
        cool_down: (low, high) seconds for which a slot, or a host with a lost agent, is left alone after a failure: low,
            2 low, ... at most high. Default: for ever; and without `checkpoint`, too, a host as a whole after a failure of
            one of its workers.
        reset_limit: how many rounds may follow the first; default any number.
        timeout: seconds to wait for slots. Where no worker can come, neither by discovery nor after a cool-down nor because
            of `checkpoint`, the job ends at once.
        stall_timeout: seconds without progress after which a worker counts as stuck, once it has ended its first group
            operation: each of them is progress, and so are the signals of `rpc.monitor` in programs that give these. Default:
            only programs that give signals are watched so.
        warn_after: seconds that workers wait for others in a group operation, or for a new round, until a warning names the
            late workers.
        stop_after: seconds until the late workers are given up; 0 for never.
        discovery_every: seconds from one look for hosts to the next.
        checkpoint: a file in which this program keeps the state (an `ObjectState` or `ModelState` of plain data) as rank 0 has
            saved it last. The job goes on from it when all workers that hold the state are lost, killed, crashed or stuck, on
            every host that answers, unless it was lost so three times at the same place: by the same rank at the same epoch
            and batch of its signals; without signals, by the same rank with nothing else kept in between. It begins with the
            file if it is there already, so that the same call continues a job that has ended badly. Remove it to begin anew.
        checkpoint_every: seconds from one writing of that file to the next.
        blas_threads: BLAS threads of each worker.
        title: the name that other submitters see while the nodes are busy.
        on_print: called with the rank and the text, whole lines, that the function prints; it is in the job's log in any case.

    Raises: JobFailed with the first worker that failed; ValueError, TypeError for wrong arguments, code that cannot travel, and
    a `checkpoint` that is none; KeyFileError for a key that cannot be read.

    >>> with parallel_sgd.local_workers(2) as nodes:  # doctest: +SKIP
    ...     print(elastic.launch(lambda: elastic.allreduce(elastic.rank(), "sum").item(), nodes))
    {0: 1, 1: 1}
    """
    if not callable(func):
        raise TypeError(f"elastic.launch 'func' must be a function, got {type(func).__qualname__}")
    if not isinstance(nodes, NodeAssignment) or isinstance(nodes, InProcessNodes) or not nodes.worker_ids:
        raise TypeError(f"elastic.launch 'nodes' must be workers on agents (local_workers, parse_worker), got {nodes!r}")
    nodes.check_open()
    if stall_timeout is not None:
        arguments.number("elastic.launch", "stall_timeout", stall_timeout, 0, open_low=True)
    arguments.integer("elastic.launch", "min_workers", min_workers, minimum=1)
    if max_workers is not None:
        arguments.integer("elastic.launch", "max_workers", max_workers, minimum=1)
    if cool_down is not None and (not isinstance(cool_down, (tuple, list)) or len(cool_down) != 2):
        raise TypeError(f"elastic.launch 'cool_down' must be (low, high) seconds, got {cool_down!r}")
    arguments.number("elastic.launch", "checkpoint_every", checkpoint_every, 0)
    arguments.number("elastic.launch", "discovery_every", discovery_every, 0, open_low=True)
    arguments.integer("elastic.launch", "blas_threads", blas_threads, minimum=1)
    arguments.number("elastic.launch", "timeout", timeout, 0, open_low=True)
    if discovery is None:
        # a fixed list is checked at once; discovery may correct itself
        refuse_misplaced(nodes[node] for node in nodes.worker_ids)
    # made here: a worker without one would not come
    find_keys_for((nodes[node] for node in nodes), Path(nodes.key_file) if nodes.key_file else None, os.environ)
    found = None if discovery is None else discovery_of(discovery, nodes.key_file)
    hopeless = found is None and cool_down is None and checkpoint is None
    driver = ElasticDriver(
        len(nodes.worker_ids),
        min_workers,
        max_workers,
        cool_down=None if cool_down is None else CoolDown(*cool_down),
        resumes=checkpoint is not None,
        reset_limit=reset_limit,
        # no slot can come any more: a minute of waiting would change nothing
        timeout=min(timeout, _HOPELESS_SECONDS) if hopeless else timeout,
        now=time.monotonic(),
    )
    stragglers = StragglerDetector(warn_after, stop_after)
    attach_console()
    state_file = None if checkpoint is None else StateFile(checkpoint)
    settings = {
        "watched": stall_timeout is not None,
        "keep_every": None if state_file is None else float(checkpoint_every),
        "prints": on_print is not None,
    }
    bundle, data, size = _packed(func, list(args), settings)
    task = Task(new_job_id(), title, nodes.key_file, bundle, data, size, blas_threads, stall_timeout or 0.0)
    job = ElasticJob(task, driver, stragglers, state_file, on_print)
    with short_console(isinstance(nodes, LocalNodes)), contextlib.closing(job.members):
        if found is None:
            job.members.inbox.put(HostsSeen(_hosts(nodes)))
        else:
            job.members.discover(found, discovery_every)
        return job.run()


def _packed(func: Callable[..., Any], args: list[Any], settings: dict[str, Any]) -> tuple[Bundle, dict[int, Any], int]:
    """Pack the code, with the arguments that are no data, apart from the data, which may be large; with the size of its arrays.

    Workers request the data by themselves (`ElasticWorker.requests`), so that it may have any size.
    """
    data: dict[int, Any] = {}
    size = 0
    for place, value in enumerate(args):
        try:
            # tried as data; what is none travels with the code
            arrays = encode(value)[1]
        except TypeError:
            continue
        data[place] = value
        size += sum(array.nbytes for array in arrays)
    # places of data stay empty: they are filled in when they have come (`ElasticWorker._arguments`)
    code = [None if place in data else value for place, value in enumerate(args)]
    bundle = pack_executable(ElasticWorker, {"function": func, "arguments": code, **settings})
    return bundle, data, size


def _hosts(nodes: NodeAssignment) -> tuple[Host, ...]:
    slots: dict[Address, int] = {}
    for node in nodes.worker_ids:
        slots[nodes[node]] = slots.get(nodes[node], 0) + 1
    return tuple(Host(address, count) for address, count in slots.items())
