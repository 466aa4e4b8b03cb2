"""Where messages to other threads go: into the run's next commit, or to the host's sink."""

import asyncio
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.messages.inbox import AgentMessage, inbox_messages
from awaken.contracts.storage.outbox import ThreadMessage, entry_of
from awaken.contracts.tools.sub_runs import (
    DurableMessageRequest,
    DurableMessageSink,
    MessageNotSent,
)
from awaken.redaction import describe_error, remove_secrets
from awaken.runtime.journal.request_checks import check_id
from awaken.runtime.run import Run

PROBLEM_CHARS = 500
"""How much of an error text of the host's sink is passed on to the sender."""
MESSAGE_ID_CHARS = 256


class OutboxMessages:
    """The runtime's own sink: a message is part of the commit of its sender's step."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        """Accept a message; it is sent when the run's next commit is durable.

        Raises:
            UnknownAgent: The addressed agent does not exist.
            InvalidInput: The thread's id is malformed, or the text is too large.
        """
        check_id("thread_id", request.recipient_thread_id)
        if request.recipient_agent_id is not None:
            self._run.pinned.resolve(request.recipient_agent_id)
        command = ThreadMessage(
            thread_id=request.recipient_thread_id,
            agent_id=request.recipient_agent_id,
            tenant_id=request.tenant_id,
            user_id=request.user_id,
            sender_thread_id=request.sender_thread_id,
            payload=msgspec.to_builtins(build_message(request)),
        )
        self._run.order(entry_of(command, request.idempotency_key))
        return request.idempotency_key


class HostMessages:
    """The host's sink, with a timeout, and with errors that a model may read."""

    __slots__ = ("_sink", "_timeout_ms")

    def __init__(self, sink: DurableMessageSink, timeout_ms: int) -> None:
        self._sink = sink
        self._timeout_ms = timeout_ms

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        """Pass a message to the host's sink now.

        Raises:
            MessageNotSent: The sink failed, or did not answer in time.
            InvalidInput: The text is too large.
        """
        build_message(request)
        deadline = asyncio.timeout(self._timeout_ms / 1000)
        try:
            async with deadline:
                message_id: Any = await self._sink.send_agent_message(request)
        except TimeoutError as error:
            problem = describe_problem(error)
            if deadline.expired():
                problem = f"the message sink did not answer within {self._timeout_ms} ms"
            raise MessageNotSent(problem=problem) from error
        except BaseException as error:
            if is_interruption(error):
                raise
            raise MessageNotSent(problem=describe_problem(error)) from error
        if not isinstance(message_id, str) or not message_id.strip():
            raise MessageNotSent(problem="the message sink returned no message id")
        return replace_surrogates(message_id[:MESSAGE_ID_CHARS])


def build_message(request: DurableMessageRequest) -> AgentMessage:
    """Build the message as its receiving thread will read it.

    Raises:
        InvalidInput: The text is too large.
    """
    message = AgentMessage(
        content=request.message,
        agent_id=request.sender_agent_id,
        thread_id=request.sender_thread_id,
        run_id=request.sender_run_id,
        hops=request.hops,
    )
    inbox_messages(message)
    return message


def describe_problem(error: BaseException) -> str:
    """Return the text of a foreign error, without secrets and shortened; without text, its type."""
    try:
        text = remove_secrets(str(error)).strip()
    except Exception:  # noqa: BLE001 - an error without a text is named by its type
        text = ""
    text = text or describe_error(error)
    return text if len(text) <= PROBLEM_CHARS else f"{text[:PROBLEM_CHARS]}…"
