"""Specification of a job: the checked arguments of `parallel()`, in the parts that travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from nn.dataset import ArrayDataset
from nn.dataset.interface import AbsDataset
from nn.dataset.transforms.abstract import AbsTransformer
from nn.model import Model
from nn.model.model_file import pack
from nn.registry import code_of, custom_classes
from rpc.elastic import Discovery

from ..checkpoint.resume import ResumePoint
from ..codec.interfaces import Codec
from ..engine.plan import WorkerPlan
from ..record.ledger import Grid
from .fields import CODE, VALUE
from .job_options import PlainOptions

if TYPE_CHECKING:
    from nn.dataset.plan.plan import Plan as DataPlan

_FITTING: Final = ("nn.dataset.plan.fitting", "nn.dataset.plan.steps")  # which `engine.training.prepared` imports


@dataclass(frozen=True)
class JobSpec:
    """Specification of a checked job.

    Args:
        plan: settings on which all workers agree.
        model: the model, with the weights at which the training starts.
        data: the data set.
        transform: applied on each worker after loading, or None.
        policy: the reaction to a failure, one of `rpc.submit.POLICIES`.
        min_workers: number of workers below which the job fails.
        max_workers: number to which discovery may let the job grow; None without discovery.
        discovery: the source of further workers, or None.
        server_keeps: whether the parameter server has a state that its checkpoints must hold.
        resume: the checkpoints at which the job goes on, or None.
        is_local: whether the nodes are agents of this program, and their checkpoints outlive them.
        asked: the options before anything left open in them was decided.
        remark: sentence that tells the user of that decision, or "".
        inputs: plan of columns of the data set, which the transform completes on the workers; None where the model keeps its
            own.
        about: further facts for the record of the run, plain data.
        made: numbers of training and test samples that the transform makes; None where only the workers know them.
    """

    plan: WorkerPlan
    model: Model
    data: AbsDataset
    transform: AbsTransformer | None
    policy: str
    min_workers: int
    max_workers: int | None
    discovery: Discovery | None
    server_keeps: bool
    resume: ResumePoint | None
    is_local: bool
    asked: PlainOptions
    remark: str = ""
    inputs: DataPlan | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    made: tuple[int, int] | None = None

    @cached_property
    def model_file(self) -> bytes:
        """Content of the model's file, with the plan of the data set where that is kept. All parts of a job have this one."""
        return pack(self.model, self.inputs)

    def samples(self, train: int, test: int, mark: str = "") -> str:
        """Return the numbers of samples as words; a transform such as `Windows` makes others of the rows.

        Args:
            train: number of training samples of the data set.
            test: number of its test samples.
            mark: mark between thousands.
        """
        words = f"{train:{mark}} training and {test:{mark}} test samples"
        if self.made is None or self.made == (train, test):
            return words
        return f"{words} ({self.made[0]:{mark}} and {self.made[1]:{mark}} after the transform)"

    @property
    def options(self) -> PlainOptions:
        """Options of the job; those that were left open are decided."""
        return self.plan.options

    def grid(self, batches: int, epochs: int | None, sizes: Mapping[int, int]) -> Grid:
        """Return the grid of batches and blocks that the job has to apply.

        Args:
            batches: number of batches of an epoch; a transform decides on it.
            epochs: number of epochs, where callbacks have ended the job; None for that of the options.
            sizes: blocks of a batch of the attempts before, see `Grid`.
        """
        assignment = self.plan.assignment
        return Grid(
            self.options.epoch if epochs is None else epochs,
            batches,
            assignment.block_count,
            assignment.redundancy,
            self.resume is not None,
            0 if self.resume is None else self.resume.before,
            sizes,
        )

    def config(self) -> dict[str, bool | int | float | str]:
        """Return the settings of the job as writers take them: plain values, and the names of all else."""
        options = self.options
        plain = {name: value for name, value in options.travelling(VALUE).items() if isinstance(value, (bool, int, float, str))}
        parts: dict[str, int | str] = {
            "model": type(self.model).__name__,
            "parameters": self.model.store.values.size,
            "data": self.data.name,
            "workers": len(options.nodes.worker_ids),
            "gd_type": options.gd_type.__name__,
            "op_type": options.op_type.__name__,
            "sync_type": options.sync_type.__name__,
            "codec": ", ".join(dict.fromkeys(kind.__name__ for kind in self.codecs()[1:] or self.codecs())),
            "gd_params": str(options.gd_params) if options.gd_params else "",
        }
        return {**plain, **parts}

    def codecs(self) -> list[type[Codec]]:
        """List the codec classes of the job: the default one, then those of the workers and of the server."""
        chosen = [
            kinds.values() if isinstance(kinds, Mapping) else [kinds] for kinds in (self.plan.codec, self.plan.server_codec)
        ]
        return [self.plan.default_codec, *(kind for kinds in chosen for kind in kinds if kind is not None)]

    def shipped(self) -> dict[str, Any]:
        """Return the objects that need code: built-in ones go by name and configuration, a user's own with their code."""
        return {
            **self.options.travelling(CODE),
            "assignment": self.plan.assignment,
            "default_codec": self.plan.default_codec,
            "codec_parameters": list(self.plan.codec_parameters),  # the keys, which may be of the user's classes
            "transform": self.transform,
            "dataset": self._dataset_recipe(),
            "keeps_plan": self.inputs is not None,
            "custom_objects": custom_classes(*self._parts_of_model()),
        }

    def modules(self) -> list[str]:
        """List the modules of the parts that a worker builds, and of what it does with the transform."""
        options, data = self.options, self._dataset_recipe()
        steps = () if self.transform is None else self.transform.steps
        parts = [*self.codecs(), options.sync_type, options.op_type, options.gd_type, self.plan.assignment, *steps]
        kinds = [part if isinstance(part, type) else type(part) for part in (*parts, *(data or ())[:1])]
        found = [each.__module__ for each in (*kinds, *code_of(*self._parts_of_model()))]
        return [*found, *(_FITTING if steps and self.inputs is not None else ())]

    def _parts_of_model(self) -> tuple[Any, ...]:
        model = self.model
        return model, *model._aim.losses, *model.metrics, model.rule, model.op_type

    def _dataset_recipe(self) -> tuple[type[AbsDataset], dict[str, Any]] | None:
        """Return class and configuration with which a worker can make the data set by itself; None where only the samples
        describe it.
        """
        kind = type(self.data)
        # an array data set has nothing but its samples to be made from
        built_in = kind.__module__.startswith("nn.dataset.") and kind is not ArrayDataset
        return (kind, self.data.get_config()) if built_in else None
