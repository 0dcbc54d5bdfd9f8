"""Whether those who do not answer could go on with the job without us."""

from __future__ import annotations

from collections.abc import Collection

from network.nodes import NodeAssignment
from network.request import Request
from rpc.membership.majority import may_go_on
from rpc.succession.takeover import ANSWER_SECONDS, is_refusal


def silent_majority(request: Request, nodes: NodeAssignment, lost: Collection[int], *, submitter: bool) -> str:
    """Why nobody may go on yet, or "": too many of the `nodes` of the last attempt are silent, of which `lost` were lost.

    An agent that can be reached is with us, and where a host refuses the connection there is none; only who is silent may work
    on, on the other side of a cut. The submitter goes on unless the silent ones are a majority by themselves, an heir only
    with a majority.
    """
    away = NodeAssignment(key_file=nodes.key_file)
    for node in lost:
        away.add(node, nodes[node])
    if not len(away):
        return ""
    com, errors = request.reach(away, ANSWER_SECONDS)
    com.close()
    gone = {node for node, error in errors.items() if is_refusal(error)}
    silent = set(errors) - gone
    fine = (
        2 * len(silent) <= len(nodes) if submitter else may_go_on([*nodes], set(nodes) - silent - gone, gone, submitter=False)
    )
    if fine:
        return ""
    names = ", ".join(f"Node({node}) at {nodes[node]}" for node in sorted(silent))
    return f"{names} cannot be reached, and may be going on without us."
