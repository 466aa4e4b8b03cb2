"""Lists the agents, and the calls that wait for a decision."""

from awaken.contracts.storage.queries import Page
from awaken.contracts.suspension.tickets import Ticket
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .paging import TicketPaging, build_page, ticket_query
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
    return await _reply_page(call)


async def thread_tickets(call: RouteCall) -> Reply:
    """List the calls of a thread that wait for a decision."""
    return await _reply_page(call, thread_id=call.path["thread_id"])


async def run_tickets(call: RouteCall) -> Reply:
    """List the calls of a run that wait for a decision."""
    run = await call.view.run(call.path["run_id"])
    if run.started_at is None:
        # A run that is still queued may be on a thread that does not exist yet.
        page: Page[Ticket] = Page(items=(), total=0)
        return as_json(build_page(page, ticket_view, call.query))
    return await _reply_page(call, thread_id=run.thread_id, run_id=run.run_id)


async def _reply_page(call: RouteCall, **place: str) -> Reply:
    given: TicketPaging = call.query
    page = await call.view.ticket_page(ticket_query(given, **place))
    return as_json(build_page(page, ticket_view, given))
