"""The port through which the host's code provides agents that are not registered."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from awaken.contracts.specs.agents import AgentSpec

from .agents import Agent

Written = Agent | AgentSpec
"""An agent as its developer declares it."""


class AgentResolver(Protocol):
    """Finds agents in the host's own code, for example in a database table.

    The runtime calls it for each agent id that is not registered: whenever a run begins or
    continues, and when a run hands over or delegates to an agent that it does not know yet.
    """

    async def resolve(self, agent_id: str, /) -> Agent | AgentSpec | None:
        """Return the agent with this id, or None.

        Return the same object until the agent changes: then nothing is compiled again.
        """
        ...


@runtime_checkable
class ListingResolver(AgentResolver, Protocol):
    """A resolver that can also list its agents; listings of agents include them."""

    async def list_agents(self) -> Iterable[Agent | AgentSpec]:
        """Return the agents to list; agents that are not listed can still be run by id."""
        ...
