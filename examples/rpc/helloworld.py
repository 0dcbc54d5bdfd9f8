"""Every worker says hello: the smallest job there is.

python examples/rpc/helloworld.py --local 2    on two workers that are started for it
python examples/rpc/helloworld.py -n 2         on the first two workers of ./worker.json, where `python worker.py` runs
"""

import argparse
import contextlib

import network
import parallel_sgd
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
    parser = argparse.ArgumentParser(description="Let every worker say hello.")
    parser.add_argument("-n", type=int, default=1, help="number of workers, from worker.json")
    parser.add_argument("--local", type=int, metavar="N", help="start N workers on this machine instead")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if options.local is not None:
            nodes = stack.enter_context(parallel_sgd.local_workers(options.local))
        else:
            nodes = parallel_sgd.parse_worker(options.n)
        com = stack.enter_context(network.Request().request(nodes))
        job = rpc.Coordinator(com, title="Hello")
        job.submit_group(Hello)
        job.resources_dispatch(lambda node, request: None)
        results, error = job.join()
    for greeting in results.values():
        print(greeting)
    return int(error)


if __name__ == "__main__":
    raise SystemExit(main())
