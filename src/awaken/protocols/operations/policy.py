"""What permission rules do to the tools of an agent, to calls, and to calls of the past."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.errors import InvalidInput, UnknownAgent
from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.contracts.suspension.policy import (
    ApprovalNeed,
    ArgumentRule,
    PolicyChange,
    ToolApproval,
)
from awaken.services.approvals import (
    list_approvals,
    mark_approvals,
    preview_call,
    resolve_agents,
)
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
    """Two sections `permission`. Without `old`: the rules that the agent has now.

    If an agent is named, the rules of its plugin are added to both.
    """

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
    approvals: tuple[ToolApproval, ...]
    """The tools that ask a person themselves, whatever the rules are."""


class CallPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a call, and what decides: a rule, `default`, or `approval`."""

    tool: str
    behavior: ToolBehavior
    rule: str
    approval: ApprovalNeed | None
    """What the tool's `approval` says about the call; null if the tool has none."""


class PolicyPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the rules hide and offer, and what would happen to the calls."""

    agent: str
    hidden: tuple[str, ...]
    offered: tuple[str, ...]
    calls: tuple[CallPreview, ...]
    approvals: tuple[ToolApproval, ...]
    """The tools that ask a person themselves, whatever the rules are."""


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
            approvals=list_approvals(agent),
        )
        return as_json(preview)

    async def preview(self, call: RouteCall) -> Reply:
        """Show what the rules of an agent, and its tools' approvals, would do to calls."""
        asked: PreviewPolicy = call.body
        agent = await call.view.agent(asked.agent, asked.publication)
        inspector = self._context.policy
        policy = inspector.inspect(agent.env.prepared, agent.tools)
        if policy is None and not agent.approvals:
            problem = "it has no PermissionPlugin and no tool with `approval`; every call passes"
            raise InvalidInput(what=f"agent '{asked.agent}'", problem=problem)
        tried = []
        for it in asked.calls:
            verdict = await preview_call(inspector, agent, it.tool, it.arguments)
            tried.append(
                CallPreview(
                    tool=it.tool,
                    behavior=verdict.behavior,
                    rule=verdict.rule,
                    approval=verdict.approval,
                )
            )
        hidden = () if policy is None else policy.hidden
        shown = PolicyPreview(
            agent=asked.agent,
            hidden=hidden,
            offered=tuple(sorted(set(agent.tools) - set(hidden))),
            calls=tuple(tried),
            approvals=list_approvals(agent),
        )
        return as_json(shown)

    async def diff(self, call: RouteCall) -> Reply:
        """Show which past calls new rules would newly allow, ask about or deny."""
        asked: ComparePolicies = call.body
        policy, services = self._context.policy, self._context.services
        prepared: Mapping[str, Any] = {}
        if asked.agent is not None:
            try:
                prepared = (await call.view.agent(asked.agent)).env.prepared
            except UnknownAgent:
                # Its past calls can still be compared by two given sections.
                if asked.old is None:
                    raise
        elif asked.old is None:
            raise InvalidInput(what="old", problem="it is missing, and no agent is named")
        new, old = policy.add_section(prepared, asked.new, "new"), policy.rules_of(prepared)
        if asked.old is not None:
            old = policy.add_section(prepared, asked.old, "old")
        agents = resolve_agents(services.engine.registry.snapshot())
        past = await load_calls(services.store, asked.agent, asked.limit)
        calls = await mark_approvals(services.store, past, agents)
        found = await compare_policies(policy, old, new, calls)
        newly = {
            kind.value: ChangedCalls(count=len(changes), examples=changes[:EXAMPLES])
            for kind in (ToolBehavior.ALLOW, ToolBehavior.ASK, ToolBehavior.DENY)
            for changes in [found.changes_to(kind)]
        }
        return as_json(PolicyComparison(calls=found.calls, newly=newly))
