"""Writers: a job or a `Model.fit` in TensorBoard, MLflow, Weights & Biases, Trackio, or any other tool that follows
experiments.

`parallel(nodes, writers=[TensorBoardWriter("tb")])`, and in `fit` the callback `WriterCallback(TensorBoardWriter("tb"))`. A
writer has three methods, see `Writer`; a module such as `wandb`, with `init`, serves as it is. One that fails is told once, and
training goes on.
"""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .interface import Writer, WriterCallback
    from .mlflow import MLflowWriter
    from .tensorboard import TensorBoardWriter

__all__ = ["MLflowWriter", "TensorBoardWriter", "Writer", "WriterCallback"]
lazily(
    __name__,
    {
        "interface": "Writer WriterCallback",
        "mlflow": "MLflowWriter",
        "tensorboard": "TensorBoardWriter",
    },
)
