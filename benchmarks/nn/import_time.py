"""Print the seconds that `import nn` takes after `import numpy`."""

import time

import numpy  # noqa: F401 - what it takes does not count

start = time.perf_counter()

import nn  # noqa: E402, F401

print(time.perf_counter() - start)
