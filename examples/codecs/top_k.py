"""The largest two per cent: small numbers wait until they have grown (top-k with error feedback).

python examples/codecs/top_k.py --local 4    on four workers that are started for it
python examples/codecs/top_k.py -n 4         on the first four workers of ./worker.json

What is not sent is remembered and added to the next gradient (Stich et al., 2018), so nothing is lost, only late. Momentum
after such a merge would spoil it; therefore the rule runs before, on each worker: `LocalUpdateOptimizer`.
"""

from digits_job import Scheme, main

from nn.optimizer import LocalUpdateOptimizer
from parallel_sgd.codec import TopK

SCHEME = Scheme(TopK, "2 % of the numbers, error feedback", op_type=LocalUpdateOptimizer, parameters={"rho": 0.02})

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
