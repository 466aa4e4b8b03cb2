"""Lists the agents, and the calls that wait for a decision."""

from typing import Annotated

import msgspec
from msgspec import Meta

from awaken.contracts.record import StrictRecord
from awaken.contracts.storage.queries import OFFSET_MAX, Page
from awaken.contracts.suspension.tickets import Ticket
from awaken.services.demo_data import count_demo_tickets, hide_demo_tickets
from awaken.services.model_choice import list_choices
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, RouteCall

from .paging import TicketFilter, build_page, ticket_query
from .views import AgentList, ModelChoice, ModelChoices, agent_view, ticket_view

AGENTS_PAGE, AGENTS_MAX = 100, 1_000


class AgentPaging(StrictRecord, frozen=True, kw_only=True):
    """A page of the agents, in the order in which they were declared."""

    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX)] = 0
    limit: Annotated[int, Meta(ge=1, le=AGENTS_MAX)] = AGENTS_PAGE


async def list_agents(call: RouteCall) -> Reply:
    """List the agents that can be run; with the scope `config`, also the fields of their specs."""
    asked: AgentPaging = call.query
    found = await call.view.agents()
    names = list(found)[asked.offset : asked.offset + asked.limit]
    shown = [agent_view(found[it]) for it in names]
    page = AgentList(
        items=tuple(shown),
        has_more=asked.offset + asked.limit < len(found),
        offset=asked.offset,
        limit=asked.limit,
    )
    if _may_read_specs(call) and call.view.config is not None:
        specs = await call.view.config.list_agent_specs()
        items = [{**specs.get(it.id, {}), **msgspec.to_builtins(it)} for it in shown]
        return as_json({**msgspec.to_builtins(page), "items": items})
    return as_json(page)


async def get_agent(call: RouteCall) -> Reply:
    """Get an agent; with the scope `config`, also the fields of its spec."""
    agent = await call.view.agent(call.path["agent_id"])
    shown = agent_view(agent)
    if _may_read_specs(call) and call.view.config is not None:
        spec = await call.view.config.find_agent_spec(shown.id)
        return as_json({**spec, **msgspec.to_builtins(shown)})
    return as_json(shown)


class ModelsQuery(StrictRecord, frozen=True, kw_only=True):
    """The publication that the agent is taken from; absent: the live one."""

    publication: Annotated[int, Meta(ge=1, le=2**53)] | None = None


async def list_models(call: RouteCall) -> Reply:
    """List the models that may answer for an agent in a run: those of its model's provider."""
    asked: ModelsQuery = call.query
    agent, choices = await list_choices(call.view, call.path["agent_id"], asked.publication)
    own = {route.spec.upstream_model for route in agent.models}
    shown = ModelChoices(
        model=agent.spec.model_id,
        items=tuple(
            ModelChoice(id=it.id, upstream_model=it.upstream_model, is_own=it.upstream_model in own)
            for it in choices
        ),
    )
    return as_json(shown)


def _may_read_specs(call: RouteCall) -> bool:
    """Whether the caller may read prompts and rules: they are the deployment's."""
    return call.principal.tenant_id is None and call.principal.may(Access.CONFIG)


async def list_tickets(call: RouteCall) -> Reply:
    """List the calls that wait for a decision, oldest first, or those that were decided."""
    return await _reply_page(call)


async def thread_tickets(call: RouteCall) -> Reply:
    """List the calls of a thread that wait for a decision, or those that were decided."""
    return await _reply_page(call, thread_id=call.path["thread_id"])


async def run_tickets(call: RouteCall) -> Reply:
    """List the calls of a run that wait for a decision, or those that were decided."""
    run = await call.view.run(call.path["run_id"])
    if run.started_at is None:
        # A run that is still queued may be on a thread that does not exist yet.
        page: Page[Ticket] = Page(items=(), total=0)
        return as_json(build_page(page, ticket_view, call.query))
    return await _reply_page(call, thread_id=run.thread_id, run_id=run.run_id)


async def _reply_page(call: RouteCall, **place: str) -> Reply:
    given: TicketFilter = call.query
    query = ticket_query(given, **place)
    page = await call.view.ticket_page(query)
    if not (place or given.demo):
        store, tenant_id, total = call.view.engine.store, call.view.tenant_id, page.total
        if total is not None:
            wanted = msgspec.structs.replace(query, tenant_id=tenant_id)
            total -= await count_demo_tickets(store, wanted)
        page = await hide_demo_tickets(store, tenant_id, page)
        page = msgspec.structs.replace(page, total=total)
    return as_json(build_page(page, ticket_view, given))
