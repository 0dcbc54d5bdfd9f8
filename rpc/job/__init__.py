"""Job process: one fresh interpreter per job and node, started and watched by the agent."""

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .hardening import end_process as end_process
    from .kernels import BITS as BITS
    from .kernels import KERNEL_VARIABLES as KERNEL_VARIABLES
    from .kernels import PORTABLE as PORTABLE
    from .kernels import common_kernels as common_kernels
    from .kernels import kernel_variables as kernel_variables
    from .peers import PeerConnector as PeerConnector
    from .peers import look_if_cores_suffice as look_if_cores_suffice
    from .report import add_remedy as add_remedy
    from .report import users_traceback as users_traceback

lazily(
    __name__,
    {
        "hardening": "end_process",
        "kernels": "BITS KERNEL_VARIABLES PORTABLE common_kernels kernel_variables",
        "peers": "PeerConnector look_if_cores_suffice",
        "report": "add_remedy users_traceback",
    },
)
