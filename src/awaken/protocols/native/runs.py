"""Runs: started with a stream of their events, listed, and looked at."""

from awaken.contracts.dispatch import InputMode
from awaken.contracts.runs import RunRequest
from awaken.mailbox.submissions import digest
from awaken.services.following import EventStream
from awaken.transport.asgi import Header, Reply, as_json
from awaken.transport.problems import Problem
from awaken.transport.routes import Call
from awaken.transport.sse import EventStreamReply

from .bodies import StartRun, messages_of
from .encoder import NativeEncoder
from .inputs import IDEMPOTENCY_KEY, check_agent
from .paging import AnyRunFilter, listed, run_query
from .views import run_view


async def start_run(call: Call) -> Reply:
    """Run an agent and stream its events; under the same `Idempotency-Key` it runs once."""
    body: StartRun = call.body
    if not body.agent_id.strip():
        raise Problem(400, "invalid_input", "agent_id cannot be empty")
    request = RunRequest(
        agent_id=body.agent_id, thread_id=body.thread_id, messages=messages_of(body.messages)
    )
    key = call.headers.get(IDEMPOTENCY_KEY)
    if key is not None:
        return _streamed(await _once(call, request, key))
    return _streamed((await call.view.start(request)).stream)


async def list_runs(call: Call) -> Reply:
    """List runs, oldest first."""
    given: AnyRunFilter = call.query
    return as_json(listed(await call.view.runs(run_query(call, given.thread_id)), run_view))


async def get_run(call: Call) -> Reply:
    """Look at a run, also one that is still queued."""
    return as_json(run_view(await call.view.run(call.path["run_id"])))


async def _once(call: Call, request: RunRequest, key: str) -> EventStream:
    """Start a run through the queue, which knows what was asked under a key before."""
    check_agent(call, request.agent_id)
    view, thread_id = call.view, request.thread_id
    # Keys belong to threads: without one, whoever asks has one of its own for the key.
    thread_id = thread_id or digest([view.tenant_id, view.principal_id, key])
    request = RunRequest(agent_id=request.agent_id, thread_id=thread_id, messages=request.messages)
    thread = await view.find_thread(thread_id)
    open_run = None if thread is None else await view.open_run(thread_id)
    is_waiting = open_run is not None and open_run.is_resumable_waiting
    # A run that waits takes the input in, as without a key. Asked again, it may not wait any more.
    mode = InputMode.RESUME if is_waiting else InputMode.INTERRUPT
    receipt = await view.send(request, mode, {"dedupe_key": key}, asked=["runs", call.body])
    return await view.follow_run(receipt.run_id)


def _streamed(stream: EventStream) -> Reply:
    names = ((b"x-run-id", stream.run_id or ""), (b"x-thread-id", stream.thread_id))
    headers: list[Header] = [(name, value.encode()) for name, value in names]
    return EventStreamReply(stream, NativeEncoder(), headers)
