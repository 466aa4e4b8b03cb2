"""Agents of the host: its resolver is asked for agent ids that are not registered.

The agents that it returns are checked and compiled like registered ones. A run keeps the agents
with which it began.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

import msgspec

from awaken.authoring.agents import Agent
from awaken.authoring.functions import is_interruption
from awaken.authoring.resolvers import AgentResolver, ListingResolver, Written
from awaken.contracts.errors import (
    AwakenError,
    DuplicateRegistration,
    InvalidInput,
    InvalidSpec,
)
from awaken.contracts.resolver_errors import AgentResolverFailed
from awaken.contracts.specs.agents import AgentSpec
from awaken.redaction import make_loggable
from awaken.runtime.journal.request_checks import check_id

from .registries import RegistrySet
from .resolver import unknown_agents
from .snapshots import Answers, RegistrySnapshot

logger = logging.getLogger(__name__)

T = TypeVar("T")

AddAgent = Callable[[RegistrySet, Written], RegistrySet]
"""Returns the set with a declared agent added, or raises what is wrong with the agent."""

_LISTING = "*"
"""The agent id in failures of a listing."""
KEPT_MAX = 1_024
"""How many agents are kept compiled; the least recently used ones are dropped."""


class _Pin(msgspec.Struct, frozen=True):
    """The resolver's last answers for an agent and those it names, and the compiled snapshot."""

    base: RegistrySnapshot
    answers: Answers
    snapshot: RegistrySnapshot


class _Listing(msgspec.Struct, frozen=True):
    """The agents that the resolver listed last, and the compiled snapshot."""

    base: RegistrySnapshot
    agents: tuple[Written, ...]
    snapshot: RegistrySnapshot


class HostAgents:
    """Asks the host's resolver. Implements `AgentHost`."""

    __slots__ = ("_add", "_base", "_complete", "_listing", "_pins", "_timeout_ms", "resolver")

    def __init__(self, resolver: AgentResolver, add: AddAgent, timeout_ms: int) -> None:
        self.resolver = resolver
        self._add = add
        self._timeout_ms = timeout_ms
        self._pins: dict[str, _Pin] = {}
        self._listing: _Listing | None = None
        self._base: RegistrySnapshot | None = None
        self._complete: set[str] = set()
        """Registered agents of `_base` that name only registered agents."""

    async def pin(self, current: RegistrySnapshot, agent_id: str) -> RegistrySnapshot:
        """The snapshot that a run of an agent keeps: it has the agent and those that it names.

        Raises:
            AgentResolverFailed: The resolver could not say whether there is such an agent.
            AwakenError: What it returned cannot be accepted; the error names the problem.
        """
        if current is not self._base:
            self._base, self._complete = current, set()
        if agent_id in self._complete:
            return current
        name = current.registries.local_id(agent_id)
        async with self._limit_time(name):
            answers = await self._ask_again(current, name)
            known = self._pins.get(name)
            if known is not None and known.base is current and _is_same(known.answers, answers):
                self._keep(name, known)
                return known.snapshot
            registries = await self._gather(current.registries, name, answers)
        if not answers:
            # No question was needed: the agent is registered, and so is every agent it names.
            if current.registries.name_of(agent_id) in current.registries.agents:
                self._complete.add(agent_id)
            return current
        if answers.get(name, name) is None:
            self._pins.pop(name, None)
            return current
        pinned = current.with_registries(replace(registries, is_open=False))
        self._keep(name, _Pin(current, answers, pinned))
        return pinned

    async def find(self, pinned: RegistrySnapshot, agent_id: str) -> Answers:
        """The answers for one more agent and those it names, by id; None if there is no such agent.

        Raises:
            AgentResolverFailed: The resolver could not say whether there is such an agent.
            AwakenError: What it returned cannot be accepted; the error names the problem.
        """
        answers: dict[str, Written | None] = {}
        name = pinned.registries.local_id(agent_id)
        async with self._limit_time(name):
            await self._gather(pinned.registries, name, answers)
        return answers

    def extend(self, pinned: RegistrySnapshot, answers: Answers) -> RegistrySnapshot:
        """The snapshot with more agents; those that it already has are unchanged."""
        registries = pinned.registries
        for name, agent in answers.items():
            if agent is not None and name not in registries.agents:
                registries = self._add(registries, agent)
        # Also if nothing was found: from now on, unknown names are refused.
        return pinned.with_registries(replace(registries, is_open=False)) if answers else pinned

    def last_seen(self, current: RegistrySnapshot, agent_id: str) -> RegistrySnapshot:
        """The snapshot with an agent's last known form; the resolver is not asked."""
        known = self._pins.get(current.registries.local_id(agent_id))
        return current if known is None else known.snapshot

    async def list_agents(self, current: RegistrySnapshot) -> RegistrySnapshot:
        """The registered agents and those that the resolver lists, for display, not for execution.

        An agent that cannot be accepted is left out and logged.

        Raises:
            AgentResolverFailed: The resolver failed, or listed something other than agents.
        """
        if not isinstance(self.resolver, ListingResolver):
            return current
        async with self._limit_time(_LISTING):
            listed = await _call_resolver(_LISTING, self.resolver.list_agents)
        agents = _check_list(listed)
        known = self._listing
        if known is not None and known.base is current and known.agents == agents:
            return known.snapshot
        registries = current.registries
        for agent in agents:
            if agent.id not in registries.agents:
                registries = self._with_listed(current, registries, agent)
        self._listing = _Listing(current, agents, current.with_registries(registries))
        return self._listing.snapshot

    def _with_listed(
        self, current: RegistrySnapshot, registries: RegistrySet, agent: Written
    ) -> RegistrySet:
        try:
            changed = self._add(registries, agent)
            current.with_registries(changed).resolve(agent.id)
        except AwakenError as error:
            logger.warning("Agent '%s' of the resolver is not shown: %s", agent.id, error)
            return registries
        return changed

    async def _ask_again(self, current: RegistrySnapshot, name: str) -> dict[str, Written | None]:
        """Ask the resolver again for the ids that it was asked for at the agent's last pin."""
        known = self._pins.get(name)
        if known is None or known.base is not current:
            return {}
        answers: dict[str, Written | None] = {}
        for asked, last in known.answers.items():
            agent = await self._ask(asked)
            is_same = agent is last or (isinstance(agent, AgentSpec) and agent == last)
            answers[asked] = last if is_same else agent
            if not is_same:
                # The changed agent may name other agents now.
                break
        return answers

    async def _gather(
        self, registries: RegistrySet, name: str, answers: dict[str, Written | None]
    ) -> RegistrySet:
        """Add an agent and those that it names, if they are unknown; records the answers."""
        if not registries.knows(name):
            registries = await self._with(registries, name, answers)
        for other in unknown_agents(registries, name):
            registries = await self._with(registries, registries.local_id(other), answers)
        return registries

    async def _with(
        self, registries: RegistrySet, name: str, answers: dict[str, Written | None]
    ) -> RegistrySet:
        if name not in answers:
            answers[name] = await self._ask(name)
        agent = answers[name]
        return registries if agent is None else self._add(registries, agent)

    async def _ask(self, name: str) -> Written | None:
        try:
            check_id("agent_id", name)
        except InvalidInput:
            # A client may have sent the name: the resolver is not called with an invalid id.
            return None
        agent: object = await _call_resolver(name, self.resolver.resolve, name)
        if agent is None:
            return None
        if not isinstance(agent, Agent | AgentSpec):
            problem = f"it returned a {type(agent).__name__}, not an Agent, an AgentSpec or None"
            raise _log_failure(AgentResolverFailed(agent_id=name, problem=problem))
        if agent.id != name:
            problem = f"it returned the agent '{agent.id}'"
            raise _log_failure(AgentResolverFailed(agent_id=name, problem=problem))
        return agent

    def _keep(self, name: str, pin: _Pin) -> None:
        self._pins.pop(name, None)
        self._pins[name] = pin
        if len(self._pins) > KEPT_MAX:
            del self._pins[next(iter(self._pins))]

    @asynccontextmanager
    async def _limit_time(self, name: str) -> AsyncIterator[None]:
        """Limit the time of the host's code: for an agent and all that it names together."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                yield
        except TimeoutError as error:
            problem = f"it did not answer within {self._timeout_ms} ms"
            raise _log_failure(AgentResolverFailed(agent_id=name, problem=problem)) from error


class Pinned(Protocol):
    """A run, seen as the holder of a snapshot."""

    pinned: RegistrySnapshot


async def include_agent(run: Pinned, agent_id: str) -> None:
    """Add an agent to the snapshot of a run that needs it; agents it has are unchanged.

    Raises:
        AgentResolverFailed: The resolver could not say whether there is such an agent.
        AwakenError: What it returned cannot be accepted; the error names the problem.
    """
    host = run.pinned.host
    if host is not None:
        answers = await host.find(run.pinned, agent_id)
        # Other calls of the run may have extended its snapshot meanwhile.
        run.pinned = host.extend(run.pinned, answers)


async def _call_resolver(name: str, ask: Callable[..., Awaitable[T]], *arguments: str) -> T:
    """Call the host's code; an exception is logged, and reported by its type only."""
    try:
        return await ask(*arguments)
    except (InvalidSpec, DuplicateRegistration):
        # The agent itself is invalid: reported as for registered agents.
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        raise _failure(name, error) from error


def _failure(name: str, error: BaseException) -> AgentResolverFailed:
    problem = f"it raised {type(error).__name__}; the log has more"
    return _log_failure(AgentResolverFailed(agent_id=name, problem=problem), error)


def _log_failure(
    failure: AgentResolverFailed, error: BaseException | None = None
) -> AgentResolverFailed:
    logger.warning("%s", failure, exc_info=None if error is None else make_loggable(error))
    return failure


def _is_same(last: Answers, now: Answers) -> bool:
    return last.keys() == now.keys() and all(now[name] is agent for name, agent in last.items())


def _check_list(listed: object) -> tuple[Written, ...]:
    agents = tuple(listed) if isinstance(listed, Iterable) and not isinstance(listed, str) else None
    if agents is None or not all(isinstance(it, Agent | AgentSpec) for it in agents):
        problem = f"list_agents() returned a {type(listed).__name__}, not agents"
        raise _log_failure(AgentResolverFailed(agent_id=_LISTING, problem=problem))
    return agents
