"""The tutorial: a network for MNIST, trained by the workers of worker.json. Start `python worker.py` first."""

import nn
import nn.dataset.transforms as transforms
import parallel_sgd
from parallel_sgd.codec.plain import Plain


def main() -> None:
    """Build the model, submit the job, print its result."""
    model = nn.model.SequentialModel(input_shape=[-1, 784])
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(128, activation=nn.activation.Tanh()))
    model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())

    data = nn.dataset.MNIST()
    trans = transforms.Shuffle().add(transforms.ImageCls())

    job = parallel_sgd.ParallelSGD(model, data, trans)
    nodes = parallel_sgd.parse_worker(worker_cnt=1)
    print(job.parallel(nodes, codec=Plain, epoch=2))


if __name__ == "__main__":
    main()
