"""Asynchronous training: nobody waits, and the server corrects gradients that come too late (DC-ASGD).

python examples/codecs/dc_asgd.py --local 4    on four workers that are started for it
python examples/codecs/dc_asgd.py -n 4         on the first four workers of ./worker.json, and its parameter server

The server applies each gradient on its arrival and sends the parameters back. Meanwhile others have changed them, so a gradient
is a few steps old; DC-ASGD (Zheng et al., 2017) estimates what it would be now. The rule runs on the server, once per gradient
and not per batch: four workers make four times as many steps, so each is smaller. The last line counts how
old gradients were, those of each variable by themselves.
"""

from digits_job import Scheme, main

from nn.optimizer import GradientAveragingOptimizer
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import DCASGD

SCHEME = Scheme(
    DCASGD,
    "asynchronous, stale gradients corrected",
    gd_params=(0.2,),
    op_type=GradientAveragingOptimizer,
    sync_type=AsynchronizedSGD,
)

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
