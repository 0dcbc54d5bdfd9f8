"""Check of the jobs that a plan or a calibration runs, before it runs the first of them."""

from __future__ import annotations

from nn.dataset.interface import AbsDataset
from nn.model import Model

from ..codec.interfaces import Codec
from ..options.job_options import JobOptions
from ..options.make_spec import make_spec

__all__ = ["check_job"]


def check_job(codec: type[Codec], model: Model, data: AbsDataset, given: JobOptions) -> None:
    """Refuse a codec that a job could not take, which would be found after others had run for half a minute.

    Args:
        codec: its class, as the user named it.
        model: that of the job.
        data: that of the job.
        given: the options of the job.

    Raises:
        ValueError: naming the codec, and the reason.
    """
    try:
        make_spec(model, data, None, given.without_words())
    except (TypeError, ValueError) as error:
        raise ValueError(f"'codecs' must be codecs that exchange gradients in step, got {codec.__name__}: {error}") from error
