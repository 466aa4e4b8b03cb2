"""What tools that are declared with `approval` say about calls, outside any run.

Predicates are pure functions of the arguments, so that they can be tried on a call that nobody
makes. One that reads the run as well cannot: its answer is then unknown.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from awaken.authoring.foreign_calls import call_within
from awaken.authoring.functions import approve_always
from awaken.contracts.errors import AwakenError
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.policy import (
    ApprovalNeed,
    ApprovalTime,
    CallVerdict,
    PastCall,
    PolicyInspector,
    ToolApproval,
)
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import InvalidArguments, Tool, approval_of, check_of
from awaken.redaction import make_loggable
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot

PREDICATE_S = 1.0
"""How long a predicate may take; a run waits for it for `Limits.hook_ms`."""
_SLOW = ApprovalNeed.NEEDED

logger = logging.getLogger(__name__)


def list_approvals(agent: ResolvedAgent) -> tuple[ToolApproval, ...]:
    """The tools of an agent that are declared with `approval`, by id."""
    return tuple(
        ToolApproval(tool=tool_id, when=_find_time(agent.tools[tool_id]))
        for tool_id in sorted(agent.approvals)
    )


async def preview_call(
    inspector: PolicyInspector, agent: ResolvedAgent, tool: str, arguments: Any
) -> CallVerdict:
    """Decide about a call by the rules of an agent and the approval of its tool.

    Remembered answers and grants are not considered.
    """
    need = await judge_approval(agent.tools.get(tool), arguments)
    return inspector.decide(agent.env.prepared, tool, arguments, need)


async def judge_approval(tool: Tool | None, arguments: Any) -> ApprovalNeed | None:
    """Ask a tool whether a person would have to approve a call; None if it is not declared so.

    As in a run, a predicate that fails or takes too long asks.
    """
    try:
        return await _ask_tool(tool, arguments)
    except TimeoutError:
        return ApprovalNeed.NEEDED


async def _ask_tool(tool: Tool | None, arguments: Any) -> ApprovalNeed | None:
    """Like `judge_approval`; raises TimeoutError if the predicate takes too long."""
    approval = approval_of(tool)
    if tool is None or approval is None:
        return None
    try:
        validated = tool.validate(arguments)
        if (check := check_of(tool)) is not None:
            await call_within(PREDICATE_S, check, validated)
    except InvalidArguments:
        return ApprovalNeed.INVALID_ARGUMENTS
    outside, is_needed = _OutsideRun(), True
    try:
        async with asyncio.timeout(PREDICATE_S):
            is_needed = await approval(validated, cast("ToolContext", outside)) is not False
    except TimeoutError:
        raise
    except Exception as error:
        if not outside.is_read:
            shown = make_loggable(error)
            logger.warning("An approval of %r failed.", tool.descriptor.id, exc_info=shown)
    if outside.is_read:
        return ApprovalNeed.DEPENDS_ON_RUN
    return ApprovalNeed.NEEDED if is_needed else ApprovalNeed.NOT_NEEDED


async def mark_approvals(
    store: Store, calls: Iterable[PastCall], agents: Mapping[str, ResolvedAgent]
) -> list[PastCall]:
    """Return past calls with what the tool of the agent that made each says about it now."""
    asking = {tool for agent in agents.values() for tool in agent.approvals}
    made_by: dict[str | None, str] = {None: ""}
    known: dict[tuple[str, str, bytes], ApprovalNeed | None] = {}
    slow: set[tuple[str, str]] = set()
    marked = []
    for call in calls:
        if call.tool not in asking:
            marked.append(call)
            continue
        if call.run_id not in made_by:
            run = None if call.run_id is None else await store.load_run(call.run_id)
            made_by[call.run_id] = "" if run is None else run.active_agent_id or run.agent_id
        agent_id = made_by[call.run_id]
        key = (agent_id, call.tool, msgspec.json.encode(call.arguments))
        if key not in known:
            agent = agents.get(agent_id)
            tool = None if agent is None else agent.tools.get(call.tool)
            try:
                is_slow = key[:2] in slow
                known[key] = _SLOW if is_slow else await _ask_tool(tool, call.arguments)
            except TimeoutError:
                # It is not waited for once more for each of thousands of calls.
                slow.add(key[:2])
                known[key] = _SLOW
        marked.append(msgspec.structs.replace(call, approval=known[key]))
    return marked


def resolve_agents(
    snapshot: RegistrySnapshot, names: Iterable[str] | None = None
) -> dict[str, ResolvedAgent]:
    """The agents of a snapshot that this process can resolve, all of them or some."""
    found = {}
    for name in snapshot.registries.agents if names is None else names:
        try:
            found[name] = snapshot.resolve(name)
        except AwakenError:
            # Its code is not here, so that nothing is known about its tools.
            continue
    return found


def _find_time(tool: Tool) -> ApprovalTime:
    is_always = approval_of(tool) is approve_always
    return ApprovalTime.ALWAYS if is_always else ApprovalTime.DEPENDS_ON_ARGUMENTS


class _OutsideRun:
    """Stands for the context of a call that no run makes; notes that it was read."""

    def __init__(self) -> None:
        self.is_read = False

    def __getattr__(self, name: str) -> Any:
        self.is_read = True
        raise AttributeError(name)
