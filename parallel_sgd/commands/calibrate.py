"""Command that measures a cluster, and writes the platform on which jobs are simulated."""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from network.nodes import NodeAssignment
from nn.progress import Bar
from rpc.support.files import publish
from rpc.support.logs import is_quiet

from ..options.named_parts import codec as codec_named
from ..simulation.calibrate import calibrate as measure
from ..simulation.platform_text import platform_to_toml
from .nodes import all_nodes, launcher_from
from .options import load_model, make_dataset
from .output import tell
from .submit import nodes_of

CODECS: Final = "Plain,Ring,TopK,Int8,EFSign"
"""Codecs whose times are measured unless others are named."""


def calibrate(options: argparse.Namespace) -> int:
    """Measure the workers that the options name, and write the file; return the exit code.

    Args:
        options: those of the command line.

    Raises: ValueError, NetworkError.
    """
    path: Path = options.out
    if path.suffix != ".toml":
        raise ValueError(f"--out must end in .toml, by which a platform's file is known, got {path}.")
    if path.exists() and not options.force:
        raise ValueError(f"--out must be a new file, unless --force is given, got {path}, which exists.")
    codecs = [codec_named("--codecs", name.strip()) for name in options.codecs.split(",")]
    model = None if options.model is None else load_model(options.model)
    data = None if options.dataset is None else make_dataset(options.dataset)
    began = time.monotonic()
    with (
        _nodes(options) as nodes,
        Bar(total=2 + len(codecs), desc="calibrate", unit=" steps", leave=False, disable=is_quiet() or None) as bar,
    ):

        def begins(step: str) -> None:
            bar.set_description(f"calibrate: {step}")
            bar.update()

        platform = measure(nodes, codecs, model, data, block_size=options.block_size, on_step=begins)
    took = time.monotonic() - began
    publish(path, platform_to_toml(platform), 0o644)
    found = platform.calibration
    noise = "" if found is None else f" Noise: {found.noise:.0%} of a latency; load {found.load:.2f} per core at the begin."
    content = {"file": str(path), "platform": platform.describe(), "seconds": round(took, 1)}
    return tell(
        options,
        content,
        f"{platform.describe()}\nMeasured in {took:.0f} s.{noise}\nWritten: {path}, for simulated(.., platform={str(path)!r}).",
        done="The cluster is calibrated",
        place=path,
        seconds=None,
    )


def _nodes(options: argparse.Namespace) -> AbstractContextManager[NodeAssignment]:
    offer = launcher_from(options)
    if options.local is None and offer is None:  # agents of a file run already, and stay
        return nullcontext(all_nodes(options))
    return nodes_of(options, offer)
