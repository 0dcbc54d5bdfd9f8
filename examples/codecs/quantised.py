"""Few bits: gradients are rounded at random to a small number of levels (QSGD).

python examples/codecs/quantised.py --local 4    on four workers that are started for it
python examples/codecs/quantised.py -n 4         on the first four workers of ./worker.json

Four bits per number and one norm per 512 of them (Alistarh et al., 2017). Rounding up or down is random, with the right mean.
Try 2 or 8 bits: change `bits` below.
"""

from digits_job import Scheme, main

from parallel_sgd.codec import QSGD

SCHEME = Scheme(QSGD, "4 bits, unbiased", parameters={"bits": 4})

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
