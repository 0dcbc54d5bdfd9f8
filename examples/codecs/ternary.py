"""Three values: every number of a gradient becomes minus, zero or plus (TernGrad).

python examples/codecs/ternary.py --local 4    on four workers that are started for it
python examples/codecs/ternary.py -n 4         on the first four workers of ./worker.json

Two bits per number and one scale per variable (Wen et al., 2017). Which numbers become zero is random, such that the mean over
many draws is the gradient itself: unbiased, so nothing needs to be remembered.
"""

from digits_job import Scheme, main

from parallel_sgd.codec import TernGrad

SCHEME = Scheme(TernGrad, "2 bits, unbiased", parameters={"clip": 2.5})

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
