"""One bit per number, and later what it lacked."""

from __future__ import annotations

from .compose import AllToAll, ShardedPS
from .interfaces import Codec
from .pipeline.memory import ErrorFeedback
from .pipeline.quantize import Sign

EFSign = Codec.of(AllToAll(), up=ErrorFeedback(Sign()), name="EFSign")
"""Signs and one scale, with error feedback. For op_type=LocalUpdateOptimizer, or rules without momentum.

Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", 2019."""

EFSignBothWays = Codec.of(ShardedPS(), up=ErrorFeedback(Sign()), down=ErrorFeedback(Sign()), name="EFSignBothWays")
"""The same on both ways, with error feedback where shards are merged too.

Zheng et al., "Communication-efficient distributed blockwise momentum SGD with error-feedback", 2019."""
