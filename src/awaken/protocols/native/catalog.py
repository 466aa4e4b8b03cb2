"""Lists the agents, and the calls that wait for a decision."""

import msgspec

from awaken.contracts.suspension.tickets import Ticket
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .paging import TicketPaging
from .views import Listed, agent_view, ticket_view


async def list_agents(call: RouteCall) -> Reply:
    """List the agents that can be run."""
    agents = (await call.view.agents()).values()
    return as_json(Listed(items=tuple(agent_view(it.spec, it.tool_ids) for it in agents)))


async def get_agent(call: RouteCall) -> Reply:
    """Get an agent."""
    agent = await call.view.agent(call.path["agent_id"])
    return as_json(agent_view(agent.spec, agent.tool_ids))


async def list_tickets(call: RouteCall) -> Reply:
    """List all calls that wait for a decision, oldest first."""
    return _reply_page(call, await call.view.tickets())


async def thread_tickets(call: RouteCall) -> Reply:
    """List the calls of a thread that wait for a decision."""
    return _reply_page(call, await call.view.tickets(call.path["thread_id"]))


async def run_tickets(call: RouteCall) -> Reply:
    """List the calls of a run that wait for a decision."""
    run = await call.view.run(call.path["run_id"])
    # A run that is still queued may be on a thread that does not exist yet.
    found = await call.view.tickets(run.thread_id) if run.started_at is not None else ()
    return _reply_page(call, tuple(it for it in found if it.run_id == run.run_id))


def _reply_page(call: RouteCall, tickets: tuple[Ticket, ...]) -> Reply:
    given: TicketPaging = call.query
    begin = given.offset if given.cursor is None else given.cursor
    end = begin + given.limit
    has_more = end < len(tickets)
    page = Listed(
        items=tuple(map(ticket_view, tickets[begin:end])),
        has_more=has_more,
        next_cursor=str(end) if has_more else None,
        total=len(tickets) if given.total else msgspec.UNSET,
    )
    return as_json(page)
