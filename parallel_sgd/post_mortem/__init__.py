"""Post-mortem of a job that failed, in one zip: the words of each node with their times, and the states from which the job
could go on.
"""

from __future__ import annotations

from .collect import collect_post_mortem

__all__ = ["collect_post_mortem"]
