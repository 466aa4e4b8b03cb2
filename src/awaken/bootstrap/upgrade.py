"""Upgrade safety: finds unfinished runs of a store that would not resume with new agents.

It only reads. The store must have the schema of this version. Models and backends are not checked:
they can be changed at any time during a run.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from awaken.authoring.agents import Agent
from awaken.authoring.resolvers import AgentResolver
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.errors import CorruptRecord
from awaken.contracts.identity import normalize_id
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, Page, Q, RunQuery, at_cursor
from awaken.contracts.storage.store import Checkout, Store
from awaken.contracts.tasks import SUB_AGENT
from awaken.contracts.tools.tool import Tool
from awaken.runtime.limits import Limits
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .config_operator import OperatorCode
from .host_agents import host_agents
from .registries import registry_set
from .resumability import Resumability
from .upgrade_config import ORPHAN, UpgradedConfig, open_upgraded_config

T = TypeVar("T")

_UNFINISHED = (RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING)
_UNDELIVERED = (DispatchStatus.QUEUED, DispatchStatus.CLAIMED)


class UnfinishedRun(Record, frozen=True, kw_only=True):
    """A run that has not ended, and what prevents it from resuming."""

    run_id: str
    thread_id: str
    agent_id: str
    status: str
    """`waiting`, `running` or `created`; `queued` or `claimed` if it has not begun."""
    problems: tuple[str, ...] = ()


class UpgradeReport(Record, frozen=True, kw_only=True):
    """How many runs were checked, and which would not resume."""

    store: str
    checked: int
    stranded: tuple[UnfinishedRun, ...] = ()
    config: tuple[ConfigProblem, ...] = ()
    """What of the managed configuration does not fit the code."""

    @property
    def is_safe(self) -> bool:
        """Whether every run would resume, and every record can be used."""
        return not self.stranded and all(it.code == ORPHAN for it in self.config)


async def check_upgrade(
    store: Store,
    agents: Iterable[Agent | AgentSpec],
    *,
    tools: Iterable[Tool | Callable[..., Any]] = (),
    plugins: Iterable[Plugin] = (),
    resolver: AgentResolver | None = None,
    code: OperatorCode | None = None,
) -> UpgradeReport:
    """Check every run that waits, executes or is queued; nothing is changed.

    With `code`, the same with its models, managed configuration is compiled against it: runs are
    checked on their publication, and queued ones on the live one.

    Raises:
        InvalidSpec: The agents themselves cannot be accepted.
        StorageError: The store does not answer.
    """
    known: dict[int, Agent | AgentSpec] = {}
    bare = [without_model(agent, known) for agent in agents]
    registries = registry_set(bare, tools, plugins, {}, {})
    host = None if resolver is None else host_agents(_Bare(resolver), Limits().resolver_ms)
    snapshot = RegistrySnapshot(1, replace(registries, is_open=host is not None), host)
    managed = open_upgraded_config(store, code)
    checker = _Checker(store, Resumability(snapshot), managed)
    try:
        found = [run async for run in checker.runs()]
        config = () if managed is None else await managed.list_problems()
    finally:
        if managed is not None:
            await managed.release()
    stranded = tuple(run for run in found if run.problems)
    return UpgradeReport(store=store.name, checked=len(found), stranded=stranded, config=config)


def without_model(
    agent: Agent | AgentSpec, known: dict[int, Agent | AgentSpec] | None = None
) -> Agent | AgentSpec:
    """Return an agent that needs no model of its own and no backend.

    `known` has those that were made, by the agent: one that is a delegate too stays one agent.
    """
    if isinstance(agent, AgentSpec):
        return msgspec.structs.replace(agent, model_id="scripted", endpoint=None)
    made = {} if known is None else known
    if id(agent) not in made:
        delegates: Any = [
            without_model(it, made) if isinstance(it, Agent) else it for it in agent.delegates
        ]
        made[id(agent)] = replace(agent, model="scripted", endpoint=None, delegates=delegates)
    return made[id(agent)]


class _Bare:
    """A resolver whose agents have no models, like the registered agents of the check."""

    def __init__(self, resolver: AgentResolver) -> None:
        self._resolver = resolver

    async def resolve(self, agent_id: str, /) -> Agent | AgentSpec | None:
        agent = await self._resolver.resolve(agent_id)
        return without_model(agent) if isinstance(agent, Agent | AgentSpec) else agent


class _Checker:
    """Reads a store page by page; one corrupt record does not hide the others."""

    def __init__(
        self, store: Store, resumability: Resumability, managed: UpgradedConfig | None
    ) -> None:
        self._store = store
        self._resumability = resumability
        self._managed = managed

    async def _check_on(self, publication: int | None) -> Resumability:
        """How runs on a publication resume; without one, on the code alone."""
        if publication is None or self._managed is None:
            return self._resumability
        return await self._managed.check_publication(publication)

    async def runs(self) -> AsyncIterator[UnfinishedRun]:
        seen: set[str] = set()
        for status in _UNFINISHED:
            query = RunQuery(status=status, limit=LIMIT_MAX)
            async for record in _all(self._store.list_runs, query):
                seen.add(record.run_id)
                yield await self._check_begun(record)
        for delivery in _UNDELIVERED:
            asked = DispatchQuery(status=delivery, limit=LIMIT_MAX)
            async for dispatch in _all(self._store.list_dispatches, asked):
                # A dispatch that continues a run is checked with that run.
                if dispatch.run_id not in seen and not dispatch.request.continue_run_id:
                    yield await self._check_queued(dispatch)

    async def _check_begun(self, record: RunRecord) -> UnfinishedRun:
        agent_id = record.agent_id
        try:
            resumability = await self._check_on(record.publication)
            checkout = await self._checkout(record.thread_id)
            records = await self._store.list_tool_records(record.run_id)
            # A pending handoff follows when the calls of the previous agent are over.
            agent_id = normalize_id(record.active_agent_id) or agent_id
            await resumability.load_agents(agent_id, resumability.active_agent(checkout))
            if record.is_workflow:
                problems = await resumability.journal_problems(record, checkout, records)
            else:
                problems = resumability.problems(agent_id, checkout, records)
                problems += resumability.handoff_problems(agent_id, checkout)
        except (CorruptRecord, UnknownPublication) as error:
            problems = [str(error)]
        if record.task is not None and record.task.task_type != SUB_AGENT:
            # A function task never outlives its process; its owner is notified, and resumes.
            problems = []
        return UnfinishedRun(
            run_id=record.run_id,
            thread_id=record.thread_id,
            agent_id=agent_id,
            status=record.status,
            problems=tuple(problems),
        )

    async def _check_queued(self, dispatch: RunDispatch) -> UnfinishedRun:
        agent_id = normalize_id(dispatch.request.agent_id) or DEFAULT_AGENT
        try:
            live = None if self._managed is None else await self._managed.find_live()
            resumability = await self._check_on(live)
            checkout = await self._checkout(dispatch.thread_id)
            latest = checkout.latest_run
            agent_id = (
                normalize_id(dispatch.request.agent_id)
                or resumability.active_agent(checkout)
                or (latest.agent_id if latest is not None else DEFAULT_AGENT)
            )
            await resumability.load_agents(agent_id)
            problems = resumability.start_problems(agent_id, checkout)
            if checkout.open_run is None:
                problems += resumability.input_problems(agent_id, dispatch.request.messages)
        except CorruptRecord as error:
            problems = [str(error)]
        return UnfinishedRun(
            run_id=dispatch.run_id,
            thread_id=dispatch.thread_id,
            agent_id=agent_id,
            status=dispatch.status,
            problems=tuple(problems),
        )

    async def _checkout(self, thread_id: str) -> Checkout:
        found = await self._store.checkout(thread_id)
        return found or Checkout(thread=Thread(id=thread_id))


async def _all(fetch: Callable[[Q], Awaitable[Page[T]]], query: Q) -> AsyncIterator[T]:
    while True:
        page = await fetch(query)
        for item in page.items:
            yield item
        if page.next_cursor is None:
            return
        query = at_cursor(query, page.next_cursor)
