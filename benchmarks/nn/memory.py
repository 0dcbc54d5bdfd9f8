"""How much memory training takes: the growth of the process from the data to the peak.

`python -m benchmarks.nn.memory nn|torch <workload>` prints bytes.
"""

import sys

from benchmarks.machine import status
from benchmarks.nn.workload import WORKLOADS


def main(library: str, name: str) -> int:
    """Train some steps and print the growth."""
    workload = WORKLOADS[name]
    if library == "nn":
        from benchmarks.nn import ours as contender

        argument = f"train:{name}"
    else:
        import torch

        from benchmarks.nn import torch_peer as contender  # type: ignore[no-redef]

        torch.nn.functional.relu(torch.zeros(1)).sum()  # what the library needs once is not the training's
        argument = f"train:{name}:eager"
    workload.data()
    before = status("VmRSS")
    run = contender.prepare(argument)
    for _ in range(3):
        run()
    return status("VmHWM") - before


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
