"""Models of single clients, where some variables stay with each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nn.model import Model
from nn.tensor_files import ModelFileError, read_file

from ..checkpoint.snapshot import CLIENT, CheckpointError, Snapshot
from ..checkpoint.state import restore_values
from .remembering import PERSONAL

__all__ = ["load_client"]


def load_client(model: Model, checkpoint: str | Path, client: int) -> bool:
    """Give a model the values that a client has after a checkpoint: those of the global model, and its personal variables.

    Args:
        model: a model of the structure of that of the job; it is changed.
        checkpoint: file of a checkpoint of a job with `Clients(personal=..)`.
        client: number of the client.

    Returns: whether the client has trained; where not, its personal variables are those with which it would begin.

    Raises: CheckpointError for a file that is no checkpoint of such a model.
    """
    try:
        content = read_file(checkpoint, sys.maxsize)
    except ModelFileError as error:
        raise CheckpointError(str(error)) from error
    snapshot = Snapshot.read(memoryview(content))
    restore_values(model, snapshot)
    state, found = snapshot.part(CLIENT), False
    for variable in (*model.store.variables, *model.store.buffers):
        own = state.get(f"{PERSONAL}{variable.name}@{client}")
        if own is not None:
            np.copyto(variable.value, own)
            found = True
    return found
