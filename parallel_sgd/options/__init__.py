"""Options of a job: its fields, their forms on a command line and in files, their checks, and the job that they specify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .job_options import JobOptions as JobOptions

lazily(__name__, {"job_options": "JobOptions"})
