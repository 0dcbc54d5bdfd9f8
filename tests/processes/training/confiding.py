"""A submitter whose job nobody shall read: `confiding KEY FOLDER ADDRESS...`. First it says something in the clear to the last
address, which tells whoever listens that he hears."""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path
from typing import Any

import network
import nn
from nn.model import Model, SequentialModel
from parallel_sgd import ParallelSGD
from parallel_sgd.codec.plain import Plain
from tests.processes.training.jobs import line_data

IN_THE_CLEAR = b"said in the clear, " * 300
TITLE, LAYER, LOGGED = "confided-title", "confided_layer", "confided to the log"


class Confided(Plain):
    """A codec of which nobody shall read the source."""

    def update_blocks(self, block_weight: Any) -> Any:
        logging.getLogger("confided").warning("%s", LOGGED)
        return super().update_blocks(block_weight)


def confided_model() -> Model:
    model = SequentialModel(input_shape=[-1, 2], seed=1)
    model.add(nn.layer.Dense(20, activation="tanh", name=LAYER))
    model.add(nn.layer.Dense(1))
    model.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError())
    return model


def main() -> None:
    key_file, folder, *addresses = sys.argv[1:]
    nodes = network.NodeAssignment(key_file)
    for number, address in enumerate(addresses):
        nodes.add(number, address)
    host, _, port = addresses[-1].rpartition(":")
    with socket.create_connection((host, int(port))) as heard:
        heard.sendall(IN_THE_CLEAR)
    settings: dict[str, Any] = {"codec": Confided, "epoch": 2, "block_size": 6, "mission_title": TITLE}
    result = ParallelSGD(confided_model(), line_data()).parallel(nodes, directory=folder, **settings)
    Path(folder, "weights").write_bytes(result.models[0].store.values.tobytes())


if __name__ == "__main__":
    main()
