"""A parameter server: workers send it their gradients, and read the mean of all of them.

python examples/codecs/parameter_server.py --local 4    on four workers that are started for it
python examples/codecs/parameter_server.py -n 4         on the first four workers of ./worker.json, and its parameter server

Each worker sends its gradient once and gets one array back, however many workers there are; between all of them it would
send one array to each of the others. The server takes the load. The bits of the result are those of `Plain`, without a server.
"""

from digits_job import Scheme, main

from parallel_sgd.codec import SyncPS

SCHEME = Scheme(SyncPS, "one server, dense")

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
