"""What every codec of a job may look up: the block assignment and the job's extra parameters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from parallel_sgd.profiles import ISetting


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


#: `GlobalSettings.get_params(key, REQUIRED)` raises when the job does not give `key`.
REQUIRED: Final = _Required()


class MissingParameter(LookupError):
    """A codec needs a parameter that the job did not give. Attributes: `key`, `codec` (class name, or empty)."""

    def __init__(self, key: Hashable, codec: str) -> None:
        who = codec or "A codec"
        super().__init__(f"{who} needs the parameter {key!r}: pass codec_extra_parameters={{{key!r}: ...}}.")
        self.key = key
        self.codec = codec


class JobSettings:
    """The settings of one job as one worker sees them. `codec` names the class whose code runs, for messages."""

    def __init__(self, assignment: ISetting, parameters: Mapping[Any, Any] | None = None) -> None:
        self.assignment = assignment
        self.parameters = dict(parameters or {})
        self.codec = ""


_CURRENT: ContextVar[JobSettings] = ContextVar("parallel_sgd_job_settings")


class GlobalSettings:
    """Read access for codecs. Valid in `__init__` or later, not in a class body, which runs before there is a job.

    Every worker runs in its own `contextvars` context, so several may share one process.
    """

    @staticmethod
    def get_default() -> ISetting:
        """The block assignment of the job: `node_count`, `nodes`, `block_count`, `node_2_block`, `get_adversary(block)`...

        Raises: LookupError outside a job.
        """
        return GlobalSettings._current().assignment

    @staticmethod
    def get_params(key: Hashable, default: Any = 0) -> Any:
        """The value of `key` in the job's `codec_extra_parameters`, else `default`.

        Raises: MissingParameter when `default` is REQUIRED and the job does not give `key`; LookupError outside a job.
        """
        settings = GlobalSettings._current()
        value = settings.parameters.get(key, default)
        if value is REQUIRED:
            raise MissingParameter(key, settings.codec)
        return value

    @staticmethod
    def install(settings: JobSettings) -> None:
        """Make `settings` those of the running context; a worker calls it once, before its codecs are made."""
        _CURRENT.set(settings)

    @staticmethod
    @contextmanager
    def use(assignment: ISetting, parameters: Mapping[Any, Any] | None = None) -> Iterator[None]:
        """Settings for a `with` block: what a test of a codec needs."""
        token = _CURRENT.set(JobSettings(assignment, parameters))
        try:
            yield
        finally:
            _CURRENT.reset(token)

    @staticmethod
    def _current() -> JobSettings:
        try:
            return _CURRENT.get()
        except LookupError:
            raise LookupError(
                "GlobalSettings is empty outside a job (a class body runs before it): read it in a codec's __init__ or "
                "later, or open `with GlobalSettings.use(assignment):` in a test."
            ) from None
