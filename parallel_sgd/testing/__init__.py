"""Tools for authors of codecs: the laws that every codec keeps, tried on yours."""

from __future__ import annotations

from .array_job import ArrayJob
from .laws import CodecLawError, CodecReport, check_codec

__all__ = ["ArrayJob", "CodecLawError", "CodecReport", "check_codec"]
