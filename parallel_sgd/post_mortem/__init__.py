"""What remains of a job that failed, in one zip: who said what, when, and from which state it could go on."""

from __future__ import annotations

from .collect import collect_post_mortem

__all__ = ["collect_post_mortem"]
