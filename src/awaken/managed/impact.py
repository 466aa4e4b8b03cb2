"""The impact of a change before it is published: on agents, runs, tools, past calls and cost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from awaken.contracts.clock import Clock
from awaken.contracts.config.compiler import AgentChange, AgentForm
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.models.budgets import PriceList
from awaken.contracts.record import Record, always
from awaken.contracts.storage.queries import LIMIT_MAX, Order, RunQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.contracts.storage.usage import DAY_MS, UsageSums
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import PastCall, PolicyChange, PolicyInspector
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.approvals import mark_approvals, resolve_agents
from awaken.services.policy import CALLS_MAX, compare_policies, load_calls
from awaken.services.usage import UsageField, UsageQuery, report_usage

from .publishing import CandidateTrial

EXAMPLES = 5
RUNS_MAX = 10_000
"""How many runs of each status are counted by agent; more are only in the total."""
USAGE_MS = 7 * DAY_MS
_EVERYTHING_PASSES = {"default_behavior": "allow"}
"""What an agent without permission rules does."""


class AgentImpact(Record, frozen=True, kw_only=True):
    """An agent that a change concerns, and what of it differs."""

    id: str
    change: str
    """`added`, `changed` or `removed`."""
    fields: tuple[str, ...] = always(())
    """Paths of the fields of its spec; `tools` and `models` if only what they name differs."""


class ToolImpact(Record, frozen=True, kw_only=True):
    """The tools that the model of an agent gains and loses, after the permission rules."""

    agent: str
    added: tuple[str, ...] = always(())
    removed: tuple[str, ...] = always(())


class RunImpact(Record, frozen=True, kw_only=True):
    """The runs of an agent that have not ended, and stay on the configuration they began with."""

    agent: str
    running: int = always(0)
    waiting: int = always(0)


class CallImpact(Record, frozen=True, kw_only=True):
    """Past calls that the new rules decide differently."""

    calls: int = always(0)
    """How many were looked at."""
    newly_allowed: int = always(0)
    newly_asked: int = always(0)
    newly_denied: int = always(0)
    examples: tuple[PolicyChange, ...] = always(())


class CostImpact(Record, frozen=True, kw_only=True):
    """What the usage of the last seven days would cost, in billionths of a US dollar."""

    agent: str
    before_nanos: int | None = always(None)
    """None if a price is not known."""
    after_nanos: int | None = always(None)
    difference_nanos: int | None = always(None)


class ConfigImpact(Record, frozen=True, kw_only=True):
    """What a change does. What only a look into the store tells is None without that look."""

    agents: tuple[AgentImpact, ...] = always(())
    tools: tuple[ToolImpact, ...] = always(())
    prompt_cache: tuple[str, ...] = always(())
    """The agents whose requests begin differently: their prompt caches are written anew."""
    secrets: tuple[str, ...] = always(())
    """References to secrets that this process cannot resolve."""
    runs: tuple[RunImpact, ...] | None = None
    calls: CallImpact | None = None
    cost: tuple[CostImpact, ...] | None = None


def describe_impact(trial: CandidateTrial) -> ConfigImpact:
    """Describe what a trial changes, without a look into the store."""
    forms = [(it.agent_id, it.before, it.after) for it in trial.agents]
    both = [(name, old, new) for name, old, new in forms if old is not None and new is not None]
    tools = (_compare_tools(name, old, new) for name, old, new in forms)
    return ConfigImpact(
        agents=tuple(map(_compare_forms, trial.agents)),
        tools=tuple(it for it in tools if it.added or it.removed),
        prompt_cache=tuple(name for name, old, new in both if old.prefix != new.prefix),
        secrets=(*trial.missing_secrets, *trial.unresolved_secrets),
    )


class ImpactReporter:
    """Finds out what a trial does to runs, past calls and cost."""

    def __init__(
        self,
        store: Store,
        inspector: PolicyInspector,
        registry: RegistryHandle,
        prices: PriceList,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._inspector = inspector
        self._prices = prices
        self._clock = clock

    async def report(self, trial: CandidateTrial) -> ConfigImpact:
        """Describe everything that a trial changes."""
        impact = describe_impact(trial)
        base = trial.candidate.base.no or None
        return ConfigImpact(
            agents=impact.agents,
            tools=impact.tools,
            prompt_cache=impact.prompt_cache,
            secrets=impact.secrets,
            runs=await self._count_runs({it.agent_id for it in trial.agents}, base),
            calls=await self._compare_calls(trial.agents),
            cost=await self._compare_cost(trial.agents),
        )

    async def _count_runs(self, agents: set[str], base: int | None) -> tuple[RunImpact, ...]:
        if not agents or base is None:
            return ()
        counts: dict[RunStatus, Counter[str]] = {}
        for status in (RunStatus.RUNNING, RunStatus.WAITING):
            found = counts[status] = Counter()
            query = RunQuery(publication=base, status=status, limit=LIMIT_MAX)
            while True:
                page = await self._store.list_runs(query)
                found.update(it.agent_id for it in page.items)
                if page.next_cursor is None or found.total() >= RUNS_MAX:
                    break
                query = at_cursor(query, page.next_cursor)
        running, waiting = counts[RunStatus.RUNNING], counts[RunStatus.WAITING]
        return tuple(
            RunImpact(agent=name, running=running[name], waiting=waiting[name])
            for name in sorted(agents)
            if running[name] or waiting[name]
        )

    async def _compare_calls(self, changes: Iterable[AgentChange]) -> CallImpact:
        rules = {
            it.agent_id: (it.before.rules, it.after.rules)
            for it in changes
            if it.before is not None and it.after is not None and it.before.rules != it.after.rules
        }
        if not rules:
            return CallImpact()
        calls = await self._load_calls_by_agent(rules)
        found: list[PolicyChange] = []
        for name, (old, new) in rules.items():
            old, new = (_EVERYTHING_PASSES if it is None else it for it in (old, new))
            agents = resolve_agents(self._registry.snapshot(), [name])
            past = await mark_approvals(self._store, calls[name], agents)
            diff = await compare_policies(self._inspector, old, new, past)
            found += diff.changes
        counts = Counter(it.after for it in found)
        return CallImpact(
            calls=sum(map(len, calls.values())),
            newly_allowed=counts[ToolBehavior.ALLOW],
            newly_asked=counts[ToolBehavior.ASK],
            newly_denied=counts[ToolBehavior.DENY],
            examples=tuple(found[:EXAMPLES]),
        )

    async def _load_calls_by_agent(self, agents: Mapping[str, Any]) -> dict[str, list[PastCall]]:
        """Load the latest calls of all agents, and return those of some."""
        by_agent: dict[str, list[PastCall]] = {name: [] for name in agents}
        calls = await load_calls(self._store, None, CALLS_MAX)
        missing = {it.run_id for it in calls if it.run_id is not None}
        names: dict[str, str] = {}
        query = RunQuery(order=Order.DESC, limit=LIMIT_MAX)
        while missing:
            page = await self._store.list_runs(query)
            names |= {it.run_id: it.active_agent_id or it.agent_id for it in page.items}
            missing -= names.keys()
            if page.next_cursor is None:
                break
            query = at_cursor(query, page.next_cursor)
        for call in calls:
            own = by_agent.get(names.get(call.run_id or "", ""))
            if own is not None:
                own.append(call)
        return by_agent

    async def _compare_cost(self, changes: Iterable[AgentChange]) -> tuple[CostImpact, ...]:
        pairs = ((it.agent_id, it.before, it.after) for it in changes)
        forms = {
            name: (old, new)
            for name, old, new in pairs
            if old is not None and new is not None and old.models != new.models
        }
        if not forms:
            return ()
        now = self._clock.now_ms()
        query = UsageQuery(since=now - USAGE_MS, until=now, by=(UsageField.AGENT, UsageField.MODEL))
        used: dict[str, list[tuple[str, UsageSums]]] = {}
        for row in (await report_usage(self._store, query)).rows:
            used.setdefault(row.agent_id or "", []).append((row.model or "", row.sums))
        return tuple(
            self._price_agent(name, used[name], forms[name]) for name in sorted(forms.keys() & used)
        )

    def _price_agent(
        self,
        name: str,
        used: Iterable[tuple[str, UsageSums]],
        forms: tuple[AgentForm, AgentForm],
    ) -> CostImpact:
        before, after = 0, 0
        for model, sums in used:
            costs = [self._price(form, model, sums) for form in forms]
            if costs[0] is None or costs[1] is None:
                return CostImpact(agent=name)
            before, after = before + costs[0], after + costs[1]
        return CostImpact(
            agent=name,
            before_nanos=before,
            after_nanos=after,
            difference_nanos=after - before,
        )

    def _price(self, form: AgentForm, model: str, sums: UsageSums) -> int | None:
        """The price of usage: of the model that was used, else of the agent's first one."""
        same = (it for it in form.models if it.upstream_model == model)
        spec = next(same, form.models[0] if form.models else None)
        usage = TokenUsage(
            prompt_tokens=sums.input_tokens,
            completion_tokens=sums.output_tokens,
            cache_read_tokens=sums.cache_read_tokens,
            cache_creation_tokens=sums.cache_creation_tokens,
        )
        return None if spec is None else self._prices.nanos(spec, usage)


def _compare_forms(change: AgentChange) -> AgentImpact:
    old, new = change.before, change.after
    if old is None or new is None:
        kind = "added" if old is None else "removed"
        return AgentImpact(id=change.agent_id, change=kind)
    paths = _list_paths(old.fields, new.fields)
    paths += ["tools"] if old.tools != new.tools else []
    paths += ["models"] if old.models != new.models else []
    return AgentImpact(id=change.agent_id, change="changed", fields=tuple(paths))


def _list_paths(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields that differ; of the sections, each section."""
    paths: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if name == "sections":
            sections = {*(before or {}), *(after or {})}
            differing = [it for it in sections if (before or {}).get(it) != (after or {}).get(it)]
            paths += [f"sections/{it}" for it in sorted(differing)]
        else:
            paths.append(name)
    return paths


def _compare_tools(name: str, old: AgentForm | None, new: AgentForm | None) -> ToolImpact:
    before = set() if old is None else set(old.tools)
    after = set() if new is None else set(new.tools)
    return ToolImpact(
        agent=name, added=tuple(sorted(after - before)), removed=tuple(sorted(before - after))
    )
