"""What permission rules do to the tools of an agent, to calls, and to calls of the past."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import ArgumentRule, PolicyChange
from awaken.services.policy import CALLS_MAX, compare_policies, load_calls
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .context import Id, OperatorContext

EXAMPLES = 5
Number = Annotated[int, Meta(ge=1, le=2**53)]


class TriedCall(StrictRecord, frozen=True, kw_only=True):
    """A call to try."""

    tool: Id
    arguments: Any = None


class PreviewPolicy(StrictRecord, frozen=True, kw_only=True):
    """Calls to try on the rules of an agent."""

    agent: Id
    publication: Number | None = None
    """The publication whose rules are tried, such as a preview of a draft; None: the live one."""
    calls: Annotated[tuple[TriedCall, ...], Meta(max_length=1_000)] = ()


class PublicationQuery(StrictRecord, frozen=True, kw_only=True):
    """The publication that is looked at, such as a preview of a draft; absent: the live one."""

    publication: Number | None = None


class ComparePolicies(StrictRecord, frozen=True, kw_only=True):
    """Two sections `permission`. Without `old`: the rules that the agent has now."""

    new: dict[str, Any]
    old: dict[str, Any] | None = None
    agent: Id | None = None
    """Only the calls of this agent."""
    limit: Annotated[int, Meta(ge=1, le=CALLS_MAX)] = CALLS_MAX
    """How many past calls to look at, the latest first."""


class PermissionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the model of an agent sees after the permission rules."""

    agent_id: str
    permission_plugin_enabled: bool
    default_behavior: ToolBehavior | None
    candidate_tools: tuple[str, ...]
    unconditionally_denied: tuple[str, ...]
    effective_tools: tuple[str, ...]
    args_conditional_rules: tuple[ArgumentRule, ...]


class CallPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a call, and the rule that decides, or `default`."""

    tool: str
    behavior: ToolBehavior
    rule: str


class PolicyPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the rules hide and offer, and what would happen to the calls."""

    agent: str
    hidden: tuple[str, ...]
    offered: tuple[str, ...]
    calls: tuple[CallPreview, ...]


class ChangedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that are decided differently."""

    count: int
    examples: tuple[PolicyChange, ...]


class PolicyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """How many past calls were looked at, and which the new rules allow, ask about or deny."""

    calls: int
    newly: dict[str, ChangedCalls]


class PolicyRoutes:
    """Shows the effect of permission rules; changes nothing."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def permission_preview(self, call: RouteCall) -> Reply:
        """Show which tools the model of an agent sees after the permission rules."""
        asked: PublicationQuery = call.query
        agent = await call.view.agent(call.path["agent_id"], asked.publication)
        policy = self._context.policy.inspect(agent.env.prepared, agent.tools)
        candidates = tuple(sorted(agent.tools))
        denied = () if policy is None else policy.hidden
        preview = PermissionPreview(
            agent_id=agent.spec.id,
            permission_plugin_enabled=policy is not None,
            default_behavior=None if policy is None else policy.default_behavior,
            candidate_tools=candidates,
            unconditionally_denied=denied,
            effective_tools=tuple(it for it in candidates if it not in denied),
            args_conditional_rules=() if policy is None else policy.argument_rules,
        )
        return as_json(preview)

    async def preview(self, call: RouteCall) -> Reply:
        """Show what the rules of an agent would do to calls."""
        asked: PreviewPolicy = call.body
        agent = await call.view.agent(asked.agent, asked.publication)
        inspector, prepared = self._context.policy, agent.env.prepared
        policy = inspector.inspect(prepared, agent.tools)
        if policy is None:
            problem = "it has no PermissionPlugin; every call passes"
            raise InvalidInput(what=f"agent '{asked.agent}'", problem=problem)
        tried = []
        for it in asked.calls:
            verdict = inspector.decide(prepared, it.tool, it.arguments)
            tried.append(CallPreview(tool=it.tool, behavior=verdict.behavior, rule=verdict.rule))
        offered = tuple(sorted(set(agent.tools) - set(policy.hidden)))
        shown = PolicyPreview(
            agent=asked.agent, hidden=policy.hidden, offered=offered, calls=tuple(tried)
        )
        return as_json(shown)

    async def diff(self, call: RouteCall) -> Reply:
        """Show which past calls new rules would newly allow, ask about or deny."""
        asked: ComparePolicies = call.body
        old: Any = asked.old
        if old is None:
            if asked.agent is None:
                raise InvalidInput(what="old", problem="it is missing, and no agent is named")
            agent = await call.view.agent(asked.agent)
            old = self._context.policy.section_of(agent.spec.sections)
        calls = await load_calls(self._context.services.store, asked.agent, asked.limit)
        found = await compare_policies(self._context.policy, old, asked.new, calls)
        newly = {
            kind.value: ChangedCalls(count=len(changes), examples=changes[:EXAMPLES])
            for kind in (ToolBehavior.ALLOW, ToolBehavior.ASK, ToolBehavior.DENY)
            for changes in [found.changes_to(kind)]
        }
        return as_json(PolicyComparison(calls=found.calls, newly=newly))
