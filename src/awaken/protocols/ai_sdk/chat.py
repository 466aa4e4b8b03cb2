"""One turn of a chat: new messages, decisions, and answers to regenerate.

`regenerate` and an edited message fork the thread; from then on the chat's id means the branch.
The old messages stay readable under the thread's own id.
"""

from collections.abc import Mapping, Sequence

import msgspec

from awaken.contracts.config.errors import ConfigNotEnabled
from awaken.contracts.identity import Adapter, normalize_id
from awaken.contracts.messages.message import Message, MessageRecord
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, at_cursor
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.services.event_streams import EventStream
from awaken.services.histories import CopiedMessage, ThreadCopy, compare_copy, start_branch
from awaken.services.previews import pin_request
from awaken.transport.asgi import Header, Reply
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, RouteCall
from awaken.transport.sse import EventStreamReply

from .decode import context_messages, decisions_of, find_unseen, input_messages, tool_descriptors
from .encoder import AiSdkEncoder, Calls
from .wire import ChatRequest, PreviewRequest

MARK: Header = (b"x-vercel-ai-ui-message-stream", b"v1")
_ANEW = "regenerate-message"


async def chat(call: RouteCall) -> Reply:
    """Send the new messages of a chat to the agent, and stream its answer."""
    return await take_turn(call)


async def preview_agent(call: RouteCall) -> Reply:
    """Try an agent that is not saved: tools with effects ask first, and it may spend little."""
    body: PreviewRequest = call.body
    if call.view.config is None:
        raise ConfigNotEnabled
    if body.agent.get("endpoint") is not None:
        # The address would get the secrets that the agent names, as if it were live.
        call.require(Access.PUBLISH)
    agent_id, publication = await call.view.config.preview_agent(body.agent, call.actor)
    named = normalize_id(body.thread_id or body.thread_id_alias) or normalize_id(body.id)
    asked = RunRequest(agent_id=agent_id, thread_id=named)
    return await take_turn(call, await pin_request(call.view, asked, publication))


async def take_turn(call: RouteCall, preview: RunRequest | None = None) -> Reply:
    """Send the new messages of a chat to the agent, or to that of a preview."""
    body: ChatRequest = call.body
    named = call.path.get("thread_id") or body.thread_id or body.thread_id_alias
    chat_id = normalize_id(named) or normalize_id(body.id)
    thread = await call.view.find_branch(chat_id) if chat_id else None
    if chat_id is None or thread is None:
        request = _request(call, chat_id, input_messages(body.messages), preview)
        return await _begin(call, request, None)
    copied = [CopiedMessage(normalize_id(it.id), it.role != "assistant") for it in body.messages]
    copy = await compare_copy(call.view, thread, copied)
    return await _Turn(call, chat_id, thread, copy, preview).take()


class _Turn:
    """A request to an existing chat."""

    def __init__(
        self,
        call: RouteCall,
        chat_id: str,
        thread: Thread,
        copy: ThreadCopy,
        preview: RunRequest | None = None,
    ) -> None:
        self._call = call
        self._body: ChatRequest = call.body
        self._chat_id = chat_id
        self._thread = thread
        self._copy = copy
        self._preview = preview

    async def take(self) -> Reply:
        """Branch, resume a run, start one, or stream the one that answers already."""
        call, body, copy = self._call, self._body, self._copy
        if (changed := await self._find_changed()) is not None:
            before, message = changed
            request = _request(call, self._thread.id, {before: message}, self._preview)
            return await self._branch(before, request)
        said = find_unseen(body.messages, copy.ids, is_all=copy.is_all)
        fresh = input_messages(said)
        request = _request(call, self._thread.id, fresh, self._preview)
        tickets = await call.view.tickets(self._thread.id)
        if decisions := decisions_of(body.messages, tickets, body.remember):
            return await self._decide(request, tickets, decisions)
        if not fresh:
            return await self._repeat()
        if (left_out := copy.first_left_out(is_whole=body.whole_history)) is not None:
            return await self._branch(left_out.message_id, request)
        return await _begin(call, request, self._thread, self._branch_id)

    @property
    def _branch_id(self) -> str:
        """The thread's id, if it differs from the chat's id."""
        return "" if self._thread.id == self._chat_id else self._thread.id

    async def _find_changed(self) -> tuple[str, Message] | None:
        """Find the message to answer again, with its new content; it keeps its id."""
        body = self._body
        if body.trigger == _ANEW:
            return await self._find_last_input()
        last = body.messages[-1] if body.messages else None
        if (
            last is None
            or last.role == "assistant"
            or normalize_id(body.message_id) != normalize_id(last.id)
        ):
            return None
        known, given = await self._find_stored(normalize_id(last.id)), input_messages([last])
        if known is None or not given:
            return None
        (message,) = given.values()
        return None if message.content == known.message.content else (known.message_id, message)

    async def _find_last_input(self) -> tuple[str, Message] | None:
        """Find the last input message, with the client's content."""
        last = next((it for it in reversed(self._body.messages) if it.role != "assistant"), None)
        known = None if last is None else await self._find_stored(normalize_id(last.id))
        if last is None or known is None:
            return None
        # Clients send no metadata.
        stored = msgspec.structs.replace(known.message, metadata=None)
        return known.message_id, next(iter(input_messages([last]).values()), stored)

    async def _find_stored(self, message_id: str | None) -> MessageRecord | None:
        """Find a message of the thread by id, also an old one."""
        if message_id is None or message_id in self._copy.ids or self._copy.is_all:
            return self._copy.ids.get(message_id or "")
        query = MessageQuery(limit=LIMIT_MAX, order=Order.DESC)
        while True:
            page = await self._call.view.messages(self._thread.id, query)
            for it in page.items:
                if it.message_id == message_id:
                    return it
            if page.next_cursor is None:
                return None
            query = at_cursor(query, page.next_cursor)

    async def _branch(self, before: str, request: RunRequest) -> Reply:
        view = self._call.view
        started = await start_branch(view, self._chat_id, self._thread, before, request)
        return stream_reply(self._call, started.stream, branch=started.thread_id)

    async def _decide(
        self,
        request: RunRequest,
        tickets: Sequence[Ticket],
        decisions: Mapping[str, ToolCallResume],
    ) -> Reply:
        """Resume a run with decisions; new messages come after them, in a new UI message."""
        call = self._call
        meant = [it for it in tickets if it.ticket_id in decisions]
        call.check_may_answer(meant, decisions.values())
        view, run = call.view, await call.view.run(tickets[0].run_id)
        stream = await view.decide_and_follow(run, decisions, request)
        if not request.messages:
            return stream_reply(call, stream, branch=self._branch_id)
        stream.before.clear()
        earlier: Calls = {it.call_id: (it.tool_name, it.arguments) for it in tickets}
        return stream_reply(call, stream, earlier, branch=self._branch_id)

    async def _repeat(self) -> Reply:
        """Stream the run that got the repeated message."""
        again = self._copy.find_repeat()
        if again is None or again.produced_by_run_id is None:
            raise HttpError(400, "nothing_new", "no new messages or interaction responses")
        self._call.require(Access.READ)
        stream = await self._call.view.follow_run(again.produced_by_run_id)
        return stream_reply(self._call, stream, branch=self._branch_id)


async def _begin(
    call: RouteCall, request: RunRequest, thread: Thread | None, branch: str = ""
) -> Reply:
    if not request.messages:
        raise HttpError(400, "nothing_new", "no new messages or interaction responses")
    started = await call.view.start(request)
    # The client begins a new message, even if a run resumes that it has a message of.
    is_same = thread is not None and thread.open_run_id == started.run_id
    return stream_reply(call, started.stream, {} if is_same else None, branch=branch)


def stream_reply(
    call: RouteCall, stream: EventStream, earlier: Calls | None = None, *, branch: str = ""
) -> Reply:
    """Stream a run, in the chunks of the client's version."""
    asked = call.query.version or (7 if call.headers.get("x-ai-sdk-version") == "7" else 6)
    return EventStreamReply(stream, AiSdkEncoder(asked, earlier), (MARK,), branch=branch)


def _request(
    call: RouteCall,
    thread_id: str | None,
    fresh: Mapping[str, Message],
    preview: RunRequest | None,
) -> RunRequest:
    body: ChatRequest = call.body
    request = RunRequest(
        thread_id=thread_id,
        agent_id=normalize_id(call.path.get("agent_id") or body.agent_id or body.agent_id_alias),
        messages=(*context_messages(body.state), *fresh.values()) if fresh else (),
        frontend_tools=tool_descriptors(body.tools),
        context=body.context,
        adapter=Adapter.AI_SDK,
    )
    if preview is None:
        return request
    return msgspec.structs.replace(
        request,
        agent_id=preview.agent_id,
        publication=preview.publication,
        purpose=preview.purpose,
        budgets=preview.budgets,
    )
