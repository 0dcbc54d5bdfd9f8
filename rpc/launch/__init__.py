"""Starting agents: on this machine, for as long as a program needs them."""

from .local import LocalAgents, local_agents

__all__ = ["LocalAgents", "local_agents"]
