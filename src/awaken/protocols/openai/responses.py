"""`/v1/responses`: create, get, stream and cancel responses."""

import re
from typing import Annotated, Any

import msgspec

from awaken.contracts import events as ev
from awaken.contracts.identity import RunMode
from awaken.contracts.messages import content
from awaken.contracts.messages import message as messages
from awaken.contracts.record import Record
from awaken.contracts.runs import records as runs
from awaken.contracts.storage import dispatch, queries
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall
from awaken.transport.sse import EventStreamReply

from .answer import Activation, is_last
from .decode import OpenAiOptions, approvals_of, request_of
from .previous import EVENTS_MAX, Previous, find_previous
from .responses_encoder import ResponsesEncoder
from .start import begin, read_thread_header, thread_header
from .wire import CreateResponse, Format, bad_request

CANCEL_MS = 10_000
_ECHOED = ("instructions", "max_output_tokens", "temperature", "top_p", "previous_response_id")
_ID = re.compile(r"resp_(.+?)(?:~([0-9]{1,15}))?", re.DOTALL)


class FollowQuery(Record, frozen=True, kw_only=True):
    """How to get a response."""

    stream: bool = False
    starting_after: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """The latest sequence number that the client has."""


async def create_response(call: RouteCall) -> Reply:
    """Run an agent, and answer with its response."""
    body: CreateResponse = call.body
    effort = body.reasoning.effort if body.reasoning else None
    format_ = body.text.format if body.text else None
    thread_id, previous = await _place(call, body)
    options = OpenAiOptions(body.max_output_tokens, effort, format_)
    asked = request_of(body, thread_id, body.input, options)
    mode = dispatch.InputMode.QUEUE if body.background else dispatch.InputMode.INTERRUPT
    begun, after = await begin(
        call, asked, approvals_of(body.input), body.instructions or "", mode, previous
    )
    frame = {
        "id": f"resp_{begun.run_id}" if after is None else f"resp_{begun.run_id}~{after}",
        "model": body.model,
        "created_at": call.view.now_ms() // 1000,
        **{name: getattr(body, name) for name in _ECHOED},
        "metadata": body.metadata or {},
        "conversation": {"id": begun.thread_id} if body.conversation else None,
        "background": bool(body.background),
        "tools": [msgspec.to_builtins(tool) for tool in body.tools or ()],
        "tool_choice": "auto" if body.tool_choice is None else body.tool_choice,
        "text": {"format": _echo_format(format_)},
    }
    encoder = ResponsesEncoder(frame, begun.run_id)
    encoder.is_formed = asked.output_schema is not None
    headers = thread_header(begun.thread_id)
    answer = Activation(begun.stream, is_later=after is not None)
    if body.stream:
        return EventStreamReply(answer, encoder, headers)
    if not body.background:
        await encoder.read(answer)
    return as_json(encoder.document(), headers=headers)


async def get_response(call: RouteCall) -> Reply:
    """Get a response, or stream it from any position."""
    query: FollowQuery = call.query
    run, after = await _find_response(call)
    if not query.stream:
        return await _snapshot(call, run, after)
    latest = call.cursor()
    stream = await call.view.follow_run(run.run_id, after)
    answer = Activation(stream, is_later=after is not None)
    encoder = _encoder(call, run, query.starting_after)
    encoder.is_formed = await _is_formed(call, run)
    if latest is not None:
        # Cursors of other protocols are valid here; the encoder catches up with earlier events.
        latest = max(latest, run.log_start if after is None else after)
        await call.view.events(run.thread_id, latest, 1)
        await stream.skip_to(latest)
    return EventStreamReply(answer, encoder)


async def cancel_response(call: RouteCall) -> Reply:
    """Cancel the run; its messages are kept."""
    run, after = await _find_response(call)
    if await call.view.cancel_run(run.run_id):
        try:
            await call.view.wait(run.run_id, CANCEL_MS)
        except TimeoutError as error:
            raise HttpError(503, "cancel_pending", "It has not stopped yet; look again.") from error
    return await _snapshot(call, await call.view.run(run.run_id), after)


async def delete_response(call: RouteCall) -> Reply:
    """Refuse: a response is part of its thread, and is deleted with it."""
    run, _ = await _find_response(call)
    message = f"A response is deleted with its thread: DELETE /v1/threads/{run.thread_id}."
    raise HttpError(405, "not_deletable", message, ((b"allow", b"GET"),))


async def list_input_items(call: RouteCall) -> Reply:
    """List the run's input messages; none for a response that follows answers."""
    run, after = await _find_response(call)
    first, last = run.input.from_seq or 1, run.input.to_seq or 0
    query = queries.MessageQuery(after=first - 1, before=last + 1, limit=queries.LIMIT_MAX)
    page = await call.view.messages(run.thread_id, query)
    items = [_input_item(record) for record in page.items] if after is None else []
    ids = [item["id"] for item in items] or [None]
    listed = {"first_id": ids[0], "last_id": ids[-1], "has_more": page.has_more}
    return as_json({"object": "list", "data": items, **listed})


async def _place(call: RouteCall, body: CreateResponse) -> tuple[str | None, Previous | None]:
    """The thread that the request names, or the response that it continues."""
    named = body.conversation
    if body.previous_response_id is None:
        known = named.get("id", "") if isinstance(named, dict) else named
        return read_thread_header(call) if known is None else known, None
    if named is not None:
        raise bad_request("Send previous_response_id or conversation, not both.")
    return None, await find_previous(call, *_parse_response_id(body.previous_response_id))


def _echo_format(wanted: Format | None) -> dict[str, Any]:
    """The requested format, with the fields of the API."""
    if wanted is None or wanted.type != "json_schema":
        return {"type": "text" if wanted is None else wanted.type}
    shown = {"type": wanted.type, "name": wanted.name, "schema": wanted.schema}
    return shown | {"description": wanted.description, "strict": wanted.strict}


async def _find_response(call: RouteCall) -> tuple[runs.RunRecord, int | None]:
    run_id, after = _parse_response_id(call.path["response_id"])
    run = await call.view.run(run_id)
    if after is not None and after > (await call.view.thread(run.thread_id)).event_seq:
        raise HttpError(404, "response_not_found", "There is no such response.")
    return run, after


def _parse_response_id(response_id: str) -> tuple[str, int | None]:
    """Parse a response id: the run, and the start of the response in the log."""
    found = _ID.fullmatch(response_id)
    if found is None:
        raise HttpError(404, "response_not_found", f"There is no response '{response_id}'.")
    return found[1], None if found[2] is None else int(found[2])


async def _snapshot(call: RouteCall, run: runs.RunRecord, after: int | None) -> Reply:
    """Build the response from the log."""
    encoder = _encoder(call, run)
    encoder.is_formed = await _is_formed(call, run)
    for item in await call.view.run_events(run.run_id, 0, EVENTS_MAX):
        encoder.encode(item.event)
        if after is not None and item.seq <= after:
            encoder.forget()
        elif is_last(item.event) and not encoder.is_resting:
            break
    if run.started_at is None and run.termination is not None:
        end = ev.RunFinish(thread_id=run.thread_id, run_id=run.run_id, termination=run.termination)
        encoder.encode(end)
    return as_json(encoder.document())


async def _is_formed(call: RouteCall, run: runs.RunRecord) -> bool:
    """Whether the request asked for a schema; read from the queued request."""
    query = queries.DispatchQuery(thread_id=run.thread_id, limit=queries.LIMIT_MAX)
    while run.run_mode is RunMode.BACKGROUND:
        page = await call.view.dispatches(query)
        for it in page.items:
            if it.run_id == run.run_id:
                return it.request.output_schema is not None
        if page.next_cursor is None:
            break
        query = queries.at_cursor(query, page.next_cursor)
    return False


def _encoder(call: RouteCall, run: runs.RunRecord, since: int = -1) -> ResponsesEncoder:
    response_id, created = call.path["response_id"], run.created_at // 1000
    frame = {"id": response_id, "model": run.agent_id, "created_at": created}
    frame |= {"background": run.run_mode is RunMode.BACKGROUND}
    return ResponsesEncoder(frame, run.run_id, since)


def _input_item(record: messages.MessageRecord) -> dict[str, Any]:
    parts: list[dict[str, str]] = []
    for block in record.message.content:
        if isinstance(block, content.Text):
            parts.append({"type": "input_text", "text": block.text})
        elif isinstance(block, content.Image):
            url = _url(block.source)
            parts.append({"type": "input_image", "detail": "auto", "image_url": url})
    role = str(record.message.role)
    return {"id": f"msg_{record.message_id}", "type": "message", "role": role, "content": parts}


def _url(source: content.Source) -> str:
    if isinstance(source, content.Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    return source.url
