"""What a node of a job says of itself before it begins, for whoever looks for the cause of a failure later."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nn.blas import describe_blas
from rpc.files import keep_configuration

from .checkpoint.snapshot import versions
from .plan import WorkerPlan

_LARGE: Final = ("net_model", "data_samples", "net_checkpoint", "extra_package")  # no settings, or values without their names
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS")


def describe_node(node: int, attempt: int, parts: Mapping[str, Any], plan: WorkerPlan) -> dict[str, Any]:
    """The settings of the job as this node has them, who has which blocks, and what computes here."""
    assignment = plan.assignment
    return {
        "node": node,
        "attempt": attempt,
        "settings": {name: part for name, part in parts.items() if name not in _LARGE},
        "codec_parameters": {k if isinstance(k, str) else repr(k): value for k, value in plan.codec_parameters.items()},
        "gradient_descent": {"type": plan.optimizer.gd_type.__name__, "exchange": plan.optimizer.op_type.__name__},
        "assignment": {
            "type": type(assignment).__name__,
            "redundancy": assignment.redundancy,
            "blocks_of_nodes": [[int(block) for block in blocks] for blocks in assignment.node_2_block],
        },
        "versions": {**versions(), "numerics": describe_blas()},
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        },
    }


def keep_description(folder: Path, description: Mapping[str, Any], logger: logging.Logger) -> None:
    """Write it into the folder of the job; training does not depend on that, so a full disk is a warning."""
    try:
        keep_configuration(folder, description)
    except OSError as error:
        logger.warning("The configuration cannot be kept for later: %s.", error.strerror)
