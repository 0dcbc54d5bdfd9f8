"""Low rank: the gradient of a matrix travels as the product of two narrow ones (PowerSGD).

python examples/codecs/power_sgd.py --local 4    on four workers that are started for it
python examples/codecs/power_sgd.py -n 4         on the first four workers of ./worker.json

A gradient of m x p numbers becomes r (m + p) (Vogels et al., 2019). Narrow matrices of several workers can be added up, so they
go round a ring, with traffic that does not grow with the number of workers. What is lost is remembered.
"""

from digits_job import Scheme, main

from parallel_sgd.codec import PowerSGD

SCHEME = Scheme(PowerSGD, "rank 2, error feedback, ring", parameters={"rank": 2})

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
