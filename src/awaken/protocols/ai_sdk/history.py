"""Converts a thread to UI messages, for a client that loads its history.

Everything that a run said between two messages of the user is one UI message with the run's id,
including the results of its tools. Messages of a run that executes now are left out: resuming its
stream sends it from the start, and a client with both would show it twice.
"""

import mimetypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from awaken.contracts.errors import CursorExpired, UnknownRun
from awaken.contracts.events import ToolCallDone, ToolCallResumed
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, MessageRecord, Role, Visibility
from awaken.contracts.record import Record
from awaken.contracts.storage.queries import (
    DEFAULT_LIMIT,
    LIMIT_MAX,
    OFFSET_MAX,
    MessageQuery,
    Order,
)
from awaken.contracts.suspension.tickets import Asks, Ticket
from awaken.services.view import TenantView

from .parts import Fields, approval_fields, outcome_of, output_fields, question_part

_UNKNOWN = {content.Image: "image/*", content.Audio: "audio/*", content.Video: "video/*"}
"""Media types of files that are known only by their URL."""
_EVENTS = 1000
"""How many events are read at once."""


class HistoryQuery(Record, frozen=True, kw_only=True):
    """A page of UI messages; each page has the cursor of the next one."""

    limit: int = DEFAULT_LIMIT
    offset: int = 0
    cursor: int | None = None
    order: Order = Order.ASC
    run_id: str | None = None


async def ui_messages(
    view: TenantView, thread_id: str, query: HistoryQuery, executing: str | None
) -> tuple[list[Fields], int | None]:
    """Read a page of UI messages; returns it and the cursor of the next page.

    Only the messages of the page are read, but whole runs: a run has the outcomes of its calls,
    and one of its messages has its id.
    """
    is_back, cursor = query.order is Order.DESC, query.cursor
    start = min(max(query.offset, 0), OFFSET_MAX) if cursor is None else 0
    end = start + min(max(query.limit, 1), LIMIT_MAX)
    asked = MessageQuery(limit=LIMIT_MAX, order=query.order, run_id=query.run_id)
    records = await _read(view, thread_id, _from(asked, cursor), _Extent(end + 1, executing))
    if cursor is not None and records and (run_id := records[0].produced_by_run_id) is not None:
        other = msgspec.structs.replace(asked, order=Order.ASC if is_back else Order.DESC)
        rest = _from(other, cursor)
        near = await _read(view, thread_id, rest, lambda it: it.produced_by_run_id != run_id)
        records = [*near[::-1], *records]
    sign = -1 if is_back else 1
    found = _fold_records(records[::sign], executing)[::sign]
    found = [it for it in found if cursor is None or (it["seq"] - cursor) * sign > 0]
    next_cursor = found[end - 1]["seq"] if len(found) > end else None
    return await _settle_calls(view, thread_id, found[start:end]), next_cursor


class _Extent:
    """Detects when enough UI messages, and the whole run that they end in, were read."""

    def __init__(self, wanted: int, executing: str | None) -> None:
        self._wanted, self._executing = wanted, executing
        self._count = 0
        self._run_id: str | None = None
        self._speaker: str | None = ""

    def __call__(self, record: MessageRecord) -> bool:
        """Whether this record, the next in order, is no longer needed."""
        run_id, role = record.produced_by_run_id, record.message.role
        if self._count > self._wanted and (run_id is None or run_id != self._run_id):
            return True
        self._run_id = run_id
        if role in (Role.USER, Role.SYSTEM):
            self._count, self._speaker = self._count + 1, ""
        elif role is Role.ASSISTANT and (run_id is None or run_id != self._executing):
            self._count, self._speaker = self._count + (run_id != self._speaker), run_id
        return False


def _from(query: MessageQuery, cursor: int | None) -> MessageQuery:
    """Start at a cursor: ascending from it, descending before it; together, everything."""
    if cursor is None:
        return query
    place = min(max(cursor, 0), OFFSET_MAX)
    if query.order is Order.DESC:
        return msgspec.structs.replace(query, before=place)
    return msgspec.structs.replace(query, after=max(place - 1, 0))


async def _read(
    view: TenantView,
    thread_id: str,
    query: MessageQuery,
    is_enough: Callable[[MessageRecord], bool],
) -> list[MessageRecord]:
    """Read the visible messages of a thread, up to the first record that is not needed."""
    found: list[MessageRecord] = []
    while True:
        page = await view.messages(thread_id, query)
        for record in page.items:
            # Not filtered by the store, which would have to read all messages.
            if record.message.visibility is Visibility.INTERNAL:
                continue
            if is_enough(record):
                return found
            found.append(record)
        if not page.has_more:
            return found
        edge = "before" if query.order is Order.DESC else "after"
        query = msgspec.structs.replace(query, **{edge: page.items[-1].seq})


def _fold_records(records: Sequence[MessageRecord], executing: str | None) -> list[Fields]:
    """Fold records into UI messages; calls get their outcomes in `_settle_calls`."""
    found: list[Fields] = []
    calls: dict[str, Fields] = {}
    named: set[str | None] = {None}
    for record in records:
        message, run_id = record.message, record.produced_by_run_id
        if message.role in (Role.USER, Role.SYSTEM):
            said = {"id": record.message_id, "role": message.role, "parts": _parts(message)}
            found.append({**said, "seq": record.seq})
        elif run_id is not None and run_id == executing:
            continue
        elif message.role is Role.TOOL:
            calls.get(message.tool_call_id or "", {})["answer"] = message
        else:
            if not found or found[-1].get("run", "") != run_id:
                id_ = record.message_id if run_id in named else run_id
                begun: Fields = {"id": id_, "role": message.role, "parts": []}
                found.append({**begun, "seq": record.seq, "run": run_id})
                named.add(run_id)
            made = [_call(it.id, it.name, it.arguments) for it in message.tool_calls or ()]
            calls |= {it["toolCallId"]: it for it in made}
            found[-1]["parts"] += [{"type": "step-start"}, *_parts(message), *made]
    return found


async def _settle_calls(
    view: TenantView, thread_id: str, messages: Sequence[Fields]
) -> list[Fields]:
    """Add the outcomes of calls to the messages."""
    outcomes: dict[str, Fields | None] = {}
    shown, tickets = [], {it.call_id: it for it in await view.tickets(thread_id)}
    for run_id in dict.fromkeys(it["run"] for it in messages if _has_answers(it)):
        outcomes |= await _outcomes(view, run_id)
    for it in messages:
        for part in list(it["parts"]):
            ticket = tickets.get(part.get("toolCallId"))
            _settle(part, outcomes, ticket)
            if ticket is not None and ticket.question_kind is not Asks.PERMISSION:
                it["parts"] += question_part(ticket.call_id, ticket.ticket_id, ticket.suspension)
        shown.append({name: it[name] for name in ("id", "role", "parts")})
    return shown


def _has_answers(message: Fields) -> bool:
    return message.get("run") is not None and any("answer" in part for part in message["parts"])


def _settle(part: Fields, outcomes: Mapping[str, Fields | None], ticket: Ticket | None) -> None:
    answer = part.pop("answer", None)
    if answer is not None:
        part |= outcomes.get(answer.id) or output_fields(_decode_answer(answer))
    elif ticket is not None and ticket.question_kind is Asks.PERMISSION:
        part |= approval_fields(ticket.ticket_id)


async def _outcomes(view: TenantView, run_id: str) -> dict[str, Fields | None]:
    """Read the outcomes of a run's calls from the log, by the id of the result message."""
    found: dict[str, Fields | None] = {}
    after, is_more = 0, True
    # If the log was purged, the messages alone have the outcomes.
    with suppress(CursorExpired, UnknownRun):
        while is_more:
            events = await view.run_events(run_id, after, _EVENTS)
            for it in events:
                after = it.seq
                if isinstance(it.event, ToolCallDone | ToolCallResumed):
                    found[it.event.message_id] = outcome_of(it.event)
            is_more = len(events) == _EVENTS
    return found


def _call(call_id: str, name: str, given: object) -> Fields:
    part = {"type": f"tool-{name}", "toolCallId": call_id, "state": "input-available"}
    return {**part, "input": given}


def _parts(message: Message) -> list[Fields]:
    return [part for block in message.content if (part := _part(block)) is not None]


def _part(block: content.ContentBlock) -> Fields | None:
    match block:
        case content.Text():
            return {"type": "text", "text": block.text, "state": "done"}
        case content.Thinking():
            return {"type": "reasoning", "text": block.thinking, "state": "done"}
        case content.Image() | content.Audio() | content.Video() | content.Document():
            title = block.title if isinstance(block, content.Document) else None
            return {"type": "file", **_source(block), **({"filename": title} if title else {})}
        case _:
            return None


def _source(block: content.Image | content.Audio | content.Video | content.Document) -> Fields:
    source = block.source
    if isinstance(source, content.Base64Source):
        data = f"data:{source.media_type};base64,{source.data}"
        return {"mediaType": source.media_type, "url": data}
    guessed = mimetypes.guess_type(source.url.partition("?")[0])[0]
    unknown = _UNKNOWN.get(type(block), "application/octet-stream")
    return {"mediaType": guessed or unknown, "url": source.url}


def _decode_answer(answer: Message) -> object:
    """Decode the output of a call from the text that the model got."""
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(answer.text)
    return answer.text
