"""How much memory training takes: the growth of the process from the data to the peak.

`python -m benchmarks.nn.memory nn|torch <workload>` prints bytes.
"""

import argparse

from benchmarks.machine import status
from benchmarks.nn.workload import WORKLOADS


def growth(library: str, name: str) -> int:
    """Train some steps and return the growth."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("library", choices=("nn", "torch"))
    parser.add_argument("workload", choices=list(WORKLOADS))
    chosen = parser.parse_args()
    print(growth(chosen.library, chosen.workload))


if __name__ == "__main__":
    main()
