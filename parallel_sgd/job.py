"""`ParallelSGD`: a model, a data set and a transform, trained in parallel on the nodes that one names."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from network.faults.plan import FaultPlan
from network.nodes import NodeAssignment
from nn import arguments
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.gradient_descent import ADAMOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.model import Model
from nn.optimizer import IOptimizer, PSGDOptimizer
from rpc import NodeBusy, new_job_id
from rpc.logs import NORMAL, SUBMIT_LOGGER, attach_console, get_logger, verbosity
from rpc.submit import Retry, telling

from .batch_sync import SyncChoice, SynchronizedSGD
from .checkpoint.resume import Resume
from .checkpoint.schedule import AUTO, Every
from .codec.choice import CodecArgument
from .compatibility import check_data
from .local_run import run_here
from .nodes import InProcessNodes, LocalNodes
from .options import AssignmentType, make_spec
from .profiles import IIDBlockAssignment
from .remote_run import run_on_agents
from .run import JobResult

_log = get_logger(SUBMIT_LOGGER)


class ParallelSGD:
    """A training job.

    Args:
        model: set up (loss, metrics, input shape); it is not changed, its weights are the start.
        data: the data set.
        transform: applied on each worker after loading, or None.
    """

    def __init__(self, model: Model, data: AbsDataset, transform: AbsTransformer | None = None) -> None:
        self._model = arguments.instance("ParallelSGD", "model", model, Model)
        if isinstance(data, (tuple, list, np.ndarray)):
            raise TypeError(
                f"ParallelSGD 'data' must be a data set, got {type(data).__name__}: give "
                f"nn.dataset.ArrayDataset(x, y, test_x, test_y)"
            )
        self._data = arguments.instance("ParallelSGD", "data", data, AbsDataset)
        self._transform = (
            None if transform is None else arguments.instance("ParallelSGD", "transform", transform, AbsTransformer)
        )

    def __repr__(self) -> str:
        """What is trained on what."""
        parts = (self._model, self._data, *([] if self._transform is None else self._transform.steps))
        return f"ParallelSGD({', '.join(type(part).__name__ for part in parts)})"

    def parallel(
        self,
        nodes: NodeAssignment,
        redundancy: int = 1,
        block_size: int = 64,
        epoch: int = 10,
        assignment_type: AssignmentType = IIDBlockAssignment,
        sync_type: SyncChoice = SynchronizedSGD,
        op_type: type[IOptimizer] = PSGDOptimizer,
        gd_type: type[IGradientDescent] = ADAMOptimizer,
        codec: CodecArgument = None,
        gd_params: tuple[Any, ...] | Mapping[str, Any] = (),
        ps_codec: CodecArgument = None,
        network_bandwidth: float = 1048576,
        mission_title: str = "P-SGD",
        ssgd_timeout_limit: float = 10000,
        codec_extra_parameters: Mapping[Hashable, Any] | None = None,
        *,
        job_title: str | None = None,
        seed: int = 0,
        wait: float = 0.0,
        blas_threads: int | str = 1,
        on_failure: str | None = None,
        max_restarts: int = 3,
        stall_timeout: float | None = None,
        min_workers: int | None = None,
        max_workers: int | None = None,
        discovery: Any = None,
        fault: str | FaultPlan = "",
        checkpoint_every: Every = AUTO,
        commit_every: int = 1,
        resume: Resume = None,
        directory: str | Path = ".",
        shuffle: bool = True,
        verbose: int = NORMAL,
        class_weight: Mapping[int, float] | None = None,
    ) -> JobResult:
        """Train on all `nodes` and return the mean of their last evaluations.

        Args:
            nodes: from `parse_worker`, `local_workers` or `in_process`.
            redundancy: on how many workers each block is computed.
            block_size: samples of one block.
            epoch: passes over the training set.
            assignment_type: a class or a callable (node_count, redundancy) that deals the blocks.
            sync_type: when a result counts as ready: `SynchronizedSGD`, `AsynchronizedSGD`, `StaleSynchronous(s)`, or your own.
            op_type: what is exchanged.
            gd_type: the gradient-descent rule, made with `gd_params`.
            codec: a codec class for all variables, a `SizeAdaptive`, or a dict of both by variable id, variable name
                ("dense_1/kernel") or layer name ("dense_1"); default `Plain`, with a parameter server `SyncPS`.
            ps_codec: likewise on the parameter server; default the workers' own codec where that serves, else `SyncPS`.
            network_bandwidth: bytes per second, sets the limit of preCommit.
            mission_title: part of file names (`job_title` is another name for it).
            ssgd_timeout_limit: milliseconds after which an overdue result is rescued or given up.
            codec_extra_parameters: what `GlobalSettings.get_params` returns, by any hashable key; the values are plain data. A
                parameter that no codec reads is refused where their code tells what they read (that of all that ship does),
                else a warning names it at the end.
            seed: of every random draw; weights are never drawn anew.
            wait: seconds to wait for busy nodes.
            blas_threads: per worker, or 'auto' for the cores of the host divided by its jobs.
            on_failure: what follows when a node dies or is stuck: 'fail' (default), 'redundant' (others that hold its blocks
                carry on; the default where assignment and codecs allow it), 'restart' (all start again where they were),
                'wait' (likewise, waiting for a node that is gone), 'shrink' (likewise, without the nodes that failed).
            max_restarts: after so many restarts the job fails.
            stall_timeout: seconds in one batch after which a node that neither ends it nor waits for others counts as stuck; by
                default 10 s or 20 times its median step, whichever is longer.
            min_workers: with 'shrink', the number of workers below which the job fails; default 1.
            max_workers: with `discovery`, the number of workers that the job may grow to; default that of `nodes`.
            discovery: where workers come from while the job runs: the path of a script that prints `host[:port] [slots=n]`
                for each host, a function that returns such lines, or the path of a worker.json or of a folder in which agents
                register that is watched. `nodes` then says how many to begin with, and where the parameter server is.
            fault: what shall go wrong, for tests and lectures: 'kill 1@e1.b3; stop 2@e1.b5 for 4s; +500ms 0>1' has worker 1 die
                at the third batch of the first epoch, and so on (`network.faults.FaultPlan`); `seed` is that of the job.
            checkpoint_every: when each node saves its state: 'epoch', a number of batches, seconds as in '30s', or None; by
                default every epoch where `on_failure` starts again and on local workers, else never.
            commit_every: after how many batches each worker commits what survivors go on from. Where all have the same state,
                every applied batch is a commit, at no cost, whatever is given. Where each has one of its own (error feedback,
                local updates, asynchronous types) and `on_failure` starts again, a copy is made in memory so often; with a
                parameter server that remembers, checkpoints are the only commits.
            resume: go on with an earlier job, up to `epoch` epochs in all: 'last', the newest run in `directory`; a job id; or
                the path of a run, of the folder of a node in it, of a checkpoint or of a folder of them.
            directory: where the folder of the run goes, `runs/<title>-<number>/`, with a `Node-<i>-Retrieve` for each node;
                links of that name, and `runs/latest`, lead to the newest.
            shuffle: whether every epoch deals the samples in an order of its own, keyed by (seed, epoch); else all deal them
                in the order that `data` and `transform` give. After transforms such as `Dirichlet`, whose order says which
                block gets what, a sample stays in its block. What does not fill a batch makes a last, shorter one.
            verbose: 0 shows warnings and errors only; 1 the story of the job and its progress, in a notebook one bar and a few
                lines; 2 all of it in a notebook, too. What an application's own logging shows is up to that.
            class_weight: {class: weight} multiplies the losses of the training samples of a class, as in `Model.fit`;
                those that it leaves out have 1. Evaluations are not weighted.

        Raises: ValueError or TypeError for arguments that do not fit, before anything is sent; rpc.SubmissionError when the
            job could not be started (nothing runs then); JobFailed when it did not end well; KeyboardInterrupt.
        """
        attach_console()
        shown = verbosity(verbose)
        with shown, telling("The job", _log):
            arguments.instance("parallel()", "nodes", nodes, NodeAssignment)
            workers = nodes.worker_ids
            if not workers or workers != list(range(len(workers))):
                raise ValueError(f"'nodes' must hold the workers 0..n-1, got {workers}")
            if not self._model.built:
                raise ValueError("ParallelSGD 'model' must have its variables: give it an input_shape and call setup()")
            patience, folder = Retry(arguments.number("parallel()", "wait", wait, 0), NodeBusy), _folder(directory)
            arrays = self._data.load()
            spec = make_spec(
                self._model,
                self._data,
                self._transform,
                len(workers),
                nodes.has_parameter_server,
                redundancy=redundancy,
                block_size=block_size,
                epoch=epoch,
                assignment_type=assignment_type,
                sync_type=sync_type,
                op_type=op_type,
                gd_type=gd_type,
                codec=codec,
                gd_params=gd_params,
                ps_codec=ps_codec,
                network_bandwidth=network_bandwidth,
                mission_title=mission_title if job_title is None else job_title,
                ssgd_timeout_limit=ssgd_timeout_limit,
                codec_extra_parameters=codec_extra_parameters,
                seed=seed,
                blas_threads=blas_threads,
                on_failure=on_failure,
                max_restarts=max_restarts,
                stall_timeout=stall_timeout,
                min_workers=min_workers,
                max_workers=max_workers,
                discovery=discovery,
                fault=fault,
                checkpoint_every=checkpoint_every,
                commit_every=commit_every,
                resume=resume,
                directory=folder,
                is_local=isinstance(nodes, LocalNodes) and nodes.agents is not None,
                shuffle=shuffle,
                class_weight=class_weight,
            )
            for name, given in (("fault", spec.fault.faults and fault), ("discovery", discovery)):
                if given and isinstance(nodes, InProcessNodes):
                    raise ValueError(
                        f"'{name}' needs nodes with processes of their own, such as local_workers(), got {given!r}"
                    )
            check_data(self._model, arrays, self._transform, spec.plan, self._data)
            _log.info("Start job.")
            listed = "".join(f"\n\t\t-->ID: {node:3d}\t\tAddress:  {address}" for node, address in sorted(nodes.items()))
            _log.info("Workers: (%s) nodes has been assigned:%s", len(nodes), listed)
            if isinstance(nodes, InProcessNodes):
                return run_here(spec, arrays, new_job_id(), folder, nodes.has_parameter_server)
            return patience.call(lambda: run_on_agents(spec, arrays, nodes, folder))


def _folder(directory: str | Path) -> Path:
    if not isinstance(directory, (str, Path)):
        raise TypeError(f"'directory' must be a path, got {directory!r}")
    return Path(directory)
