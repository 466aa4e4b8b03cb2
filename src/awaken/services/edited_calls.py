"""Checks arguments that a decider edited, before the decision is stored.

The process that executes the run checks and gates them again: by then a remembered answer or
another publication may refuse them.
"""

from collections.abc import Iterable, Sequence

from awaken.authoring.foreign_calls import call_within
from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.errors import EditDenied, InvalidEdit
from awaken.contracts.suspension.permissions import ASKING_TOOLS, ToolBehavior
from awaken.contracts.suspension.policy import PolicyInspector
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume
from awaken.contracts.tools.tool import check_of
from awaken.redaction import make_loggable
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import ResolvedAgent

CHECK_S = 10.0
"""How long the check of a tool's arguments may take; a run waits for it for `Limits.hook_ms`."""


async def check_edits(
    registry: RegistryHandle,
    policy: PolicyInspector | None,
    run: RunRecord,
    tickets: Sequence[Ticket],
    decisions: Iterable[tuple[str, ToolCallResume]],
) -> None:
    """Refuse edited arguments that the tool does not take, or that the agent's rules deny.

    If this process does not have the agent or the tool, only the executing process checks them.

    Raises:
        InvalidEdit: The arguments do not fit the tool; names the field.
        EditDenied: A rule denies the call with these arguments; names the rule.
        UnknownPublication: The publication of the run does not exist.
        AgentResolverFailed: It is unknown which agent the run has.
    """
    # A decision that was taken before is only repeated: what it changes is done.
    opened = {it.ticket_id: it for it in tickets if it.status is TicketStatus.OPEN}
    edited = [
        (opened[ticket_id], given.arguments)
        for ticket_id, given in decisions
        if given.arguments is not None
        and given.action == DecisionAction.RESUME
        and ticket_id in opened
    ]
    if not edited:
        return
    agent_id = run.active_agent_id or run.agent_id
    pinned = await registry.pin(agent_id, run.publication)
    try:
        agent = pinned.resolve(agent_id)
    except AwakenError:
        return
    for ticket, arguments in edited:
        await _check_fit(agent, ticket, arguments)
        _check_rules(agent, policy, ticket, arguments)


async def _check_fit(agent: ResolvedAgent, ticket: Ticket, arguments: object) -> None:
    tool = agent.tools.get(ticket.tool_name)
    if tool is None:
        return
    try:
        validated = tool.validate(arguments)
        if (check := check_of(tool)) is not None:
            await call_within(CHECK_S, check, validated)
    except BaseException as error:
        if is_interruption(error):
            raise
        problem = str(make_loggable(error)).removesuffix(".")
        raise InvalidEdit(
            what=f"The edit of ticket '{ticket.ticket_id}'", problem=problem
        ) from error


def _check_rules(
    agent: ResolvedAgent, policy: PolicyInspector | None, ticket: Ticket, arguments: object
) -> None:
    prepared = agent.env.prepared
    if policy is None or ticket.tool_name in ASKING_TOOLS or policy.inspect(prepared, ()) is None:
        return
    verdict = policy.decide(prepared, ticket.tool_name, arguments)
    if verdict.behavior is ToolBehavior.DENY:
        raise EditDenied(ticket_id=ticket.ticket_id, tool_name=ticket.tool_name, rule=verdict.rule)
