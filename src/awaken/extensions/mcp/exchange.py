"""One call under way: its answer, and the server's questions before it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Literal

from awaken.contracts.tools.context import ToolContext

from .errors import QuestionRefused, ServerUnavailable

GRACE_S = 1.0
"""How long a cancelled call may take to notify its server."""

Kind = Literal["elicitation", "sampling"]
Json = dict[str, Any]
Ask = Callable[[Kind, Json], Awaitable[Json]]
"""Answers a question of a server; raises a `ToolError` if there is no answer."""

Carry = Callable[["McpExchange"], Awaitable[Json]]
"""Sends the call and waits for its answer."""

CURRENT_EXCHANGE: ContextVar["McpExchange | None"] = ContextVar("mcp_exchange", default=None)
"""The call to which a server's request belongs, if the transport knows it."""


class ServerQuestion:
    """A question of a server during a call."""

    def __init__(self, kind: Kind, params: Json) -> None:
        self.kind = kind
        self.params = params
        self.reply: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    def answer(self, answer: Json | QuestionRefused) -> None:
        """Answer or refuse the question; does nothing if the server no longer waits."""
        if self.reply.done():
            return
        if isinstance(answer, QuestionRefused):
            self.reply.set_exception(answer)
        else:
            self.reply.set_result(answer)


class McpExchange:
    """A call in its own task; it outlives the tool's execution while people are asked."""

    def __init__(self, context: ToolContext, questions_max: int, call: Carry) -> None:
        self.context = context
        self.open: ServerQuestion | None = None
        """The question to people; while it is open, new questions belong to other calls."""
        self._questions_left = questions_max
        self._replies: asyncio.Queue[ServerQuestion | None] = asyncio.Queue()
        self.task = asyncio.create_task(self._run(call))
        self.task.add_done_callback(self._on_done)

    async def wait_for_reply(self) -> Json | ServerQuestion:
        """Wait for the result or the next question, whichever comes first.

        Raises:
            ToolError: The call failed.
        """
        asked = await self._replies.get()
        if asked is not None:
            return asked
        if self.task.cancelled():
            raise ServerUnavailable("the connection was closed during the call")
        return self.task.result()

    async def ask(self, kind: Kind, params: Json) -> Json:
        """Pass a question to the waiting tool call, and return its answer.

        Raises:
            QuestionRefused: There is no answer.
        """
        if self._questions_left < 1 or self.task.done():
            raise QuestionRefused("the call takes no more questions")
        self._questions_left -= 1
        asked = ServerQuestion(kind, params)
        self._replies.put_nowait(asked)
        return await asked.reply

    def resume(self, context: ToolContext, answer: Json) -> None:
        """Answer the open question; the call belongs to this context from now on."""
        self.context = context
        if self.open is not None:
            self.open.answer(answer)
            self.open = None

    async def cancel(self) -> None:
        """Cancel the call and notify its server."""
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=GRACE_S)

    def _on_done(self, _task: "asyncio.Task[Json]") -> None:
        if self.open is not None:
            self.open.answer(QuestionRefused("the call has ended"))
        self._replies.put_nowait(None)

    async def _run(self, call: Carry) -> Json:
        CURRENT_EXCHANGE.set(self)
        return await call(self)
