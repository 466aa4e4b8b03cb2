"""The port through which the host's own code names agents that are not registered."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from awaken.contracts.specs.agents import AgentSpec

from .agents import Agent

Written = Agent | AgentSpec
"""An agent as its developer declares it."""


class AgentResolver(Protocol):
    """Finds agents in the host's own code, a table of a database for example.

    It is asked for each name that means nothing to the runtime otherwise: whenever a run begins or
    goes on, and when a run hands over to another agent, or asks one, that it does not know yet.
    """

    async def resolve(self, agent_id: str, /) -> Agent | AgentSpec | None:
        """The agent of this id as code declares it; None when there is none.

        Return the same object as long as nothing has changed: then nothing is compiled again.
        """
        ...


@runtime_checkable
class ListingResolver(AgentResolver, Protocol):
    """A resolver that also says which agents there are; what shows agents shows them too."""

    async def list_agents(self) -> Iterable[Agent | AgentSpec]:
        """The agents to be shown; the others run all the same for those who know their ids."""
        ...
