"""Creates, lists, changes and deletes threads; lists their messages and queues."""

import msgspec

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import Page
from awaken.contracts.storage.store import DeleteStrategy
from awaken.runtime.admission.forks import Fork
from awaken.runtime.journal.request_checks import check_id
from awaken.services.demo_data import count_demo_threads, hide_demo_threads
from awaken.services.thread_context import read_context, restore_history
from awaken.services.thread_search import search_threads
from awaken.services.threads import ThreadEdit
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .paging import (
    ThreadFilter,
    ThreadSearch,
    build_page,
    dispatch_query,
    message_query,
    run_query,
    thread_query,
)
from .views import (
    ActiveRunView,
    ThreadMatches,
    ThreadSummary,
    dispatch_view,
    run_view,
    thread_view,
)


class DeleteQuery(StrictRecord, frozen=True, kw_only=True):
    """What happens to the children of a deleted thread."""

    child_strategy: DeleteStrategy = DeleteStrategy.DETACH


class ForkThread(StrictRecord, frozen=True, kw_only=True):
    """Where to fork: after the message `at`, or `before` one; without both, at the end."""

    at: str | None = None
    before: str | None = None


async def list_threads(call: RouteCall) -> Reply:
    """List threads, most recently changed first."""
    page = await _list_shown(call)
    return as_json(build_page(page, lambda thread: thread.id, call.query))


async def list_summaries(call: RouteCall) -> Reply:
    """List threads with their titles and their latest agents."""
    page = await _list_shown(call)
    agents = iter(await call.view.latest_agents(page.items))
    return as_json(build_page(page, lambda thread: _summary(thread, next(agents)), call.query))


async def search(call: RouteCall) -> Reply:
    """Find threads among those that changed last: by a text, or by what they were forked from."""
    asked: ThreadSearch = call.query
    if asked.q is None and asked.forked_from is None:
        raise HttpError(400, "invalid_query", "send `q` or `forked_from`")
    found = await search_threads(call.view, asked.q, asked.forked_from, asked.limit)
    agents = await call.view.latest_agents(found.items)
    shown = ThreadMatches(
        items=tuple(_summary(it, agent) for it, agent in zip(found.items, agents, strict=True)),
        looked_at=found.looked_at,
        is_complete=found.is_complete,
    )
    return as_json(shown)


async def get_context(call: RouteCall) -> Reply:
    """Get where a thread's history was compacted: what its requests leave out."""
    return as_json(await read_context(call.view, call.path["thread_id"]))


async def restore_context(call: RouteCall) -> Reply:
    """Undo the compaction of a thread: its whole history is sent again."""
    return as_json(await restore_history(call.view, call.path["thread_id"]))


async def create_thread(call: RouteCall) -> Reply:
    """Create a thread."""
    return as_json(thread_view(await call.view.create_thread(_check_edit(call.body))), 201)


async def get_thread(call: RouteCall) -> Reply:
    """Get a thread."""
    return as_json(thread_view(await call.view.thread(call.path["thread_id"])))


async def edit_thread(call: RouteCall) -> Reply:
    """Change a thread: an absent field stays, null clears, `custom` is merged key by key."""
    edited = await call.view.edit_thread(call.path["thread_id"], _check_edit(call.body))
    return as_json(thread_view(edited))


async def delete_thread(call: RouteCall) -> Reply:
    """Delete a thread with everything that belongs to it."""
    thread_id, strategy = call.path["thread_id"], call.query.child_strategy
    try:
        await call.view.delete_thread(thread_id, strategy)
    except InvalidRecord as error:
        if strategy is not DeleteStrategy.REJECT:
            raise
        message = f"thread '{thread_id}' has child threads; choose 'detach' or 'cascade'"
        raise HttpError(400, "has_children", message) from error
    return Bytes(204)


async def fork_thread(call: RouteCall) -> Reply:
    """Create a thread with the messages of this one up to a message; this one stays."""
    body: ForkThread = call.body
    if body.at is not None and body.before is not None:
        raise HttpError(400, "invalid_input", "Send `at` or `before`, not both.")
    branch = await call.view.fork(call.path["thread_id"], Fork(at=body.at, before=body.before))
    return as_json(thread_view(branch), 201)


async def list_messages(call: RouteCall) -> Reply:
    """List a thread's messages."""
    page = await call.view.messages(call.path["thread_id"], message_query(call.query))
    return as_json(build_page(page, lambda record: record, call.query))


async def list_mailbox(call: RouteCall) -> Reply:
    """List what was queued on a thread, oldest first."""
    page = await call.view.dispatches(dispatch_query(call.query, call.path["thread_id"]))
    return as_json(build_page(page, dispatch_view, call.query))


async def list_thread_runs(call: RouteCall) -> Reply:
    """List a thread's runs, oldest first."""
    thread = await call.view.thread(call.path["thread_id"])
    page = await call.view.runs(run_query(call, thread.id))
    return as_json(build_page(page, run_view, call.query))


async def active_run(call: RouteCall) -> Reply:
    """The run of a thread that executes or waits, if there is one."""
    run = await call.view.open_run(call.path["thread_id"])
    return as_json(ActiveRunView(active_run=None if run is None else run_view(run)))


async def latest_run(call: RouteCall) -> Reply:
    """The newest run of a thread."""
    run = await call.view.latest_run(call.path["thread_id"])
    if run is None:
        raise HttpError(404, "unknown_run", f"thread has no runs: {call.path['thread_id']}")
    return as_json(run_view(run))


async def _list_shown(call: RouteCall) -> Page[Thread]:
    given: ThreadFilter = call.query
    query = thread_query(call)
    page = await call.view.threads(query)
    if given.demo or given.parent_thread_id is not None:
        return page
    store, total = call.view.engine.store, page.total
    if given.total and total is not None:
        total -= await count_demo_threads(store, query)
    page = await hide_demo_threads(store, call.view.tenant_id, page)
    return msgspec.structs.replace(page, total=total)


def _check_edit(edit: ThreadEdit) -> ThreadEdit:
    for name in ("resource_id", "parent_thread_id"):
        given = getattr(edit, name)
        if isinstance(given, str) and given.strip():
            check_id(name, given)
    return edit


def _summary(thread: Thread, agent_id: str | None) -> ThreadSummary:
    return ThreadSummary(
        id=thread.id,
        resource_id=thread.resource_id,
        parent_thread_id=thread.parent_thread_id,
        title=thread.metadata.title,
        updated_at=thread.metadata.updated_at,
        agent_id=agent_id,
    )
