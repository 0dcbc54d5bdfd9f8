"""Federated averaging: workers train alone, and average their parameters after every fifth batch.

python examples/codecs/fedavg.py --local 4    on four workers that are started for it
python examples/codecs/fedavg.py -n 4         on the first four workers of ./worker.json, and its parameter server

Nothing is compressed, there are just fewer exchanges (McMahan et al., 2017). Parameters travel instead of gradients, so the
job takes `ParameterAveragingOptimizer`. `LocalSGD` is the same without a server.
"""

from digits_job import Scheme, main

from nn.optimizer import ParameterAveragingOptimizer
from parallel_sgd.codec import FedAvg

SCHEME = Scheme(
    FedAvg,
    "parameters, every 5th batch",
    op_type=ParameterAveragingOptimizer,
    parameters={"local_batches": 5},
)

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
