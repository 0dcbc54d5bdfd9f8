"""Dense exchange along a tree of workers."""

from __future__ import annotations

from .compose import Tree as TreeExchange
from .interfaces import Codec

Tree = Codec.of(TreeExchange(), name="Tree")
"""Sums climb a binary tree and the mean comes down: the bits of `Plain`, at most log2(W) 4n bytes each way per worker."""
