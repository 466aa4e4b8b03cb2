"""Starts runs with a stream of their events, lists and gets them."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.errors import ThreadBusy
from awaken.contracts.events import AgentEvent, encode_event
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import OnBusy, RunRecord, RunRequest
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, Page, RunQuery, at_cursor
from awaken.mailbox.submissions import digest
from awaken.services.event_streams import EventStream
from awaken.services.model_choice import choose_model
from awaken.services.previews import pin_request
from awaken.services.run_forks import fork_run as fork_before
from awaken.transport.asgi import Header, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, RouteCall
from awaken.transport.sse import EventStreamReply

from .bodies import RunBudget, StartRun, messages_of
from .inputs import IDEMPOTENCY_KEY, check_agent
from .paging import AnyRunFilter, build_page, run_query
from .views import NativeThreadView, Whole, run_view, thread_view
from .whole_results import WholeResultReply, wants_json


class NativeEncoder:
    """Encodes every event in its own JSON form."""

    __slots__ = ()

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        """Encode an event as one frame."""
        return (b"data: " + encode_event(event),)

    def state(self) -> None:
        """It has none: every event is encoded by itself."""


NATIVE = NativeEncoder()
WORKFLOW_PAGES = 10
"""How many pages of runs are read to find runs of workflows."""


async def start_run(call: RouteCall) -> Reply:
    """Run an agent and stream its events; under the same `Idempotency-Key` it runs once.

    With `Accept: application/json` it answers with the whole result, when the run ends or waits;
    after `run_wait_ms` it answers 202 with the run's id.
    """
    body: StartRun = call.body
    if not body.agent_id.strip():
        raise HttpError(400, "invalid_input", "agent_id cannot be empty")
    request = RunRequest(
        agent_id=body.agent_id,
        thread_id=body.thread_id,
        messages=messages_of(body.messages),
        on_busy=body.on_busy,
        budgets=() if body.budget is None else _read_budgets(body.budget),
        context=body.context,
    )
    if body.publication is not None:
        call.principal.check(Access.CONFIG)
        request = await pin_request(call.view, request, body.publication)
    if body.model is not None:
        call.principal.check(Access.CONFIG)
        request = await choose_model(call.view, request, body.model)
    key = call.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        started = await call.view.start(request)
        return _reply(call, started.stream, started.run_id, started.thread_id)
    stream = await _once(call, request, key)
    return _reply(call, stream, stream.run_id or "", stream.thread_id)


async def list_runs(call: RouteCall) -> Reply:
    """List runs by creation time, oldest first unless `order=desc`."""
    given: AnyRunFilter = call.query
    query = run_query(call, given.thread_id)
    if given.is_workflow:
        return as_json(build_page(await _find_workflow_runs(call, query), run_view, given))
    return as_json(build_page(await call.view.runs(query), run_view, given))


async def _find_workflow_runs(call: RouteCall, query: RunQuery) -> Page[RunRecord]:
    """Return the runs of workflows on the next page that has some, and where to go on.

    No store has an index of them: pages without any are passed over, a bounded number of them.
    """
    query = msgspec.structs.replace(query, with_total=False)
    for _ in range(WORKFLOW_PAGES):
        page = await call.view.runs(query)
        found = tuple(it for it in page.items if it.is_workflow)
        if found or page.next_cursor is None:
            break
        query = at_cursor(query, page.next_cursor)
    return msgspec.structs.replace(page, items=found)


class RunForkView(Whole, frozen=True, kw_only=True):
    """A new thread as a run found it, and what to send there to have the run again."""

    thread: NativeThreadView
    agent_id: str
    messages: tuple[Message, ...]
    """The input of the run; the thread does not have it."""
    is_state_exact: bool
    """Whether the thread has the state that the run found; otherwise it has the newest state."""
    run_id: str | None = None
    """The run that goes on from the point of a fork `at` it."""


class ForkPlace(StrictRecord, frozen=True, kw_only=True):
    """A point of a run: before the inference of a step, before its tools, or after a result."""

    step: Annotated[int, Meta(ge=1, le=1 << 30)]
    results: Annotated[int, Meta(ge=0, le=1 << 30)] | None = None
    """How many results of the step's calls the fork keeps; 0: before its tools; absent: before its
    inference."""


class ForkRun(StrictRecord, frozen=True, kw_only=True):
    """Where to fork a run."""

    at: ForkPlace | None = None
    """Absent: before the input of the run; nothing goes on by itself."""
    allow_effects: bool = False
    """Whether effects of the fork happen without asking a person first."""


async def fork_run(call: RouteCall) -> Reply:
    """Create a thread as a run found it, or go on from any point of the run on a new thread."""
    body: ForkRun = call.body
    if body.at is not None:
        return await _fork_at(call, body, body.at)
    made = await fork_before(call.view, call.path["run_id"])
    shown = RunForkView(
        thread=thread_view(made.thread),
        agent_id=made.agent_id,
        messages=made.messages,
        is_state_exact=made.is_state_exact,
    )
    return as_json(shown, 201)


async def _fork_at(call: RouteCall, body: ForkRun, at: ForkPlace) -> Reply:
    # Loaded by the first such fork.
    from awaken.evals.forking import ForkAt, fork_here  # noqa: PLC0415

    point = ForkAt(step=at.step, results=at.results)
    if body.allow_effects:
        record = await call.view.stored_run(call.path["run_id"])
        place = {"step": at.step, "results": at.results}
        await call.audit(AuditAction.REPLAY, f"runs/{record.run_id}", mode="fork", at=place)
    made = await fork_here(call.view, call.path["run_id"], point, allow_effects=body.allow_effects)
    shown = RunForkView(
        thread=thread_view(made.thread),
        agent_id=made.run.agent_id,
        messages=(),
        is_state_exact=made.is_state_exact,
        run_id=made.run.run_id,
    )
    return as_json(shown, 202)


async def get_run(call: RouteCall) -> Reply:
    """Get a run, also one that is still queued."""
    run = await call.view.run(call.path["run_id"])
    shown = run_view(run, is_whole=call.principal.may(Access.CONFIG))
    return as_json(msgspec.structs.replace(shown, context=run.context))


async def _once(call: RouteCall, request: RunRequest, key: str) -> EventStream:
    """Start a run through the queue, which recognizes a repeated key."""
    if request.publication is None:
        await check_agent(call, request.agent_id)
    view, thread_id = call.view, request.thread_id
    # Keys belong to threads: without a thread, the caller gets a thread for this key.
    thread_id = thread_id or digest([view.tenant_id, view.principal_id, key])
    on_busy = request.on_busy
    request = msgspec.structs.replace(request, thread_id=thread_id, on_busy=OnBusy.QUEUE)
    thread = await view.find_thread(thread_id)
    busy_with = None if thread is None else thread.active_run_id
    if on_busy is OnBusy.REJECT and busy_with and not await _is_known(call, thread_id, key):
        raise ThreadBusy(thread_id=thread_id, run_id=busy_with)
    open_run = None if thread is None else await view.open_run(thread_id)
    if open_run is not None and open_run.is_resumable_waiting:
        # A waiting run takes the input, as without a key.
        mode = InputMode.RESUME
    else:
        is_urgent = on_busy is OnBusy.INTERRUPT and busy_with
        mode = InputMode.INTERRUPT if is_urgent else InputMode.QUEUE
    receipt = await view.send(request, mode, {"dedupe_key": key}, asked=["runs", call.body])
    return await view.follow_run(receipt.run_id)


async def _is_known(call: RouteCall, thread_id: str, key: str) -> bool:
    """Whether input with this key was sent to the thread before."""
    query = DispatchQuery(thread_id=thread_id, limit=LIMIT_MAX)
    while True:
        page = await call.view.dispatches(query)
        if any(it.dedupe_key == key for it in page.items):
            return True
        if page.next_cursor is None:
            return False
        query = at_cursor(query, page.next_cursor)


def _read_budgets(given: RunBudget) -> tuple[Budget, ...]:
    if given.tokens is None and given.cost_usd is None:
        return ()
    return (Budget(tokens=given.tokens, cost_usd=given.cost_usd),)


def _reply(call: RouteCall, stream: EventStream, run_id: str, thread_id: str) -> Reply:
    headers: list[Header] = [(b"x-run-id", run_id.encode()), (b"x-thread-id", thread_id.encode())]
    accept = call.headers.get("accept", "")
    if "application/" not in accept.lower() or not wants_json(accept):
        return EventStreamReply(stream, NATIVE, headers)
    stream.close()
    return WholeResultReply(call.view, run_id, thread_id, headers, call.run_wait_ms)
