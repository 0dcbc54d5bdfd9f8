"""Every worker says hello: the smallest job there is.

python examples/rpc/helloworld.py --local 2    on two workers that are started for it
python examples/rpc/helloworld.py -n 2         on the first two workers of ./worker.json, where `psgd worker` runs
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for a Python without Parallel-SGD

import psgd

import network
import rpc


class Hello(rpc.AbsSimpleExecutor):
    """Runs on every worker; what it returns comes back to the submitter."""

    def run(self, com: rpc.Communication) -> str:
        """Tell who we are, and meet the others."""
        self.logger.info("This line ends in the log of node %s.", com.node_id)
        com.barrier()
        com.report_progress(100)
        return f"Hello from node {com.node_id}, one of {com.size}."


def main() -> int:
    """Submit the job, wait for it, and print what the workers said."""
    parser = psgd.OptionParser(description="Let every worker say hello.")
    psgd.add_nodes(parser)
    options = parser.parse_args()
    with psgd.nodes_of(parser, options) as nodes, network.Request().request(nodes) as com:
        job = rpc.Coordinator(com, title="Hello")
        job.submit_group(Hello)
        results, error = job.join(stop_on_interrupt=bool(options.local))
    for greeting in results.values():
        print(greeting)
    return int(error)


if __name__ == "__main__":
    raise SystemExit(main())
