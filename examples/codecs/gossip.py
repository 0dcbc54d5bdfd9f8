"""Gossip: there is no common model; each worker averages its own with those of two neighbours (D-PSGD).

python examples/codecs/gossip.py --local 4    on four workers that are started for it
python examples/codecs/gossip.py -n 4         on the first four workers of ./worker.json

After every batch w <- (own + both neighbours) / 3 (Lian et al., 2017). The workers never agree exactly, but they stay close;
the accuracy printed is the mean over them. There is no server, and nobody hears more than two others.
"""

from digits_job import Scheme, main

from nn.optimizer import ParameterAveragingOptimizer
from parallel_sgd.codec import DPSGD

SCHEME = Scheme(DPSGD, "parameters, two neighbours", op_type=ParameterAveragingOptimizer)

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
