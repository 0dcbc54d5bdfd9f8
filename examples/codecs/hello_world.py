"""A codec in twenty lines: every worker sends its gradients with 16 bits instead of 32.

python examples/codecs/hello_world.py --local 2    on two workers that are started for it
python examples/codecs/hello_world.py -n 2         on the first two workers of ./worker.json; the class travels with the job

docs/codec-guide.md builds another one step by step; parallel_sgd/codec/README.md tells all that a codec may do.
"""

from digits_job import Scheme, main

import numpy as np

from parallel_sgd.codec import Codec, GlobalSettings, netEncapsulation


class HalfPrecision(Codec):
    """The mean over all blocks, each rounded to 16 bits."""

    def __init__(self, node_id):
        super().__init__(node_id)
        self.job = GlobalSettings.get_default()
        self.blocks = {}

    def update_blocks(self, block_weight):
        gradient, block = block_weight
        packet = netEncapsulation(self.job.get_adversary(block), (block, gradient.astype(np.float16)))
        self.receive_blocks(packet.content)  # round for ourselves too, so that all have the same bits
        return packet

    def receive_blocks(self, content):
        block, gradient = content
        self.blocks[block] = gradient.astype(np.float32)
        if len(self.blocks) == self.job.block_count:
            total = sum(self.blocks[block] for block in sorted(self.blocks))  # always in the same order, for the same reason
            self.set_result(total / self.job.block_count)
            self.blocks.clear()


SCHEME = Scheme(HalfPrecision, "16 bits, from hello_world.py")

if __name__ == "__main__":
    raise SystemExit(main(__doc__, SCHEME))
