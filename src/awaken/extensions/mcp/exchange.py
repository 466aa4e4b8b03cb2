"""One call on its way: its answer, and what the server asks before it gives one."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Literal

from awaken.contracts.tools.context import ToolContext

from .errors import QuestionRefused, ServerUnavailable

GRACE_S = 1.0
"""How long a cancelled call may take to tell its server."""

Kind = Literal["elicitation", "sampling"]
Json = dict[str, Any]
Ask = Callable[[Kind, Json], Awaitable[Json]]
"""Answers what a server asks; raises a `ToolError` when it gets no answer."""

Carry = Callable[["McpExchange"], Awaitable[Json]]
"""Sends a call and waits for its answer."""

CURRENT_EXCHANGE: ContextVar["McpExchange | None"] = ContextVar("mcp_exchange", default=None)
"""The call that a request of a server came with, where the transport can tell."""


class Asked:
    """Something that a server wants to know while its call runs."""

    def __init__(self, kind: Kind, params: Json) -> None:
        self.kind = kind
        self.params = params
        self.reply: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

    def answer(self, answer: Json | QuestionRefused) -> None:
        """Tell the server, which may be that there is no answer; one that is gone needs none."""
        if self.reply.done():
            return
        if isinstance(answer, QuestionRefused):
            self.reply.set_exception(answer)
        else:
            self.reply.set_result(answer)


class McpExchange:
    """A call that a task carries; it outlives the tool's execution while people are asked."""

    def __init__(self, context: ToolContext, questions_max: int, call: Carry) -> None:
        self.context = context
        self.open: Asked | None = None
        """The question that people are asked; what its server asks now is another call's."""
        self._questions_left = questions_max
        self._news: asyncio.Queue[Asked | None] = asyncio.Queue()
        self.task = asyncio.create_task(self._run(call))
        self.task.add_done_callback(self._ended)

    async def told(self) -> Json | Asked:
        """The result, or the next question, whichever comes first.

        Raises:
            ToolError: There is no result.
        """
        asked = await self._news.get()
        if asked is not None:
            return asked
        if self.task.cancelled():
            raise ServerUnavailable("the connection was closed during the call")
        return self.task.result()

    async def ask(self, kind: Kind, params: Json) -> Json:
        """Have whoever waits for the call answer.

        Raises:
            QuestionRefused: It gets no answer.
        """
        if self._questions_left < 1 or self.task.done():
            raise QuestionRefused("the call takes no more questions")
        self._questions_left -= 1
        asked = Asked(kind, params)
        self._news.put_nowait(asked)
        return await asked.reply

    def go_on(self, context: ToolContext, answer: Json) -> None:
        """Answer the question that was open; the call belongs to this context now."""
        self.context = context
        if self.open is not None:
            self.open.answer(answer)
            self.open = None

    async def give_up(self) -> None:
        """Cancel the call and tell its server so."""
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=GRACE_S)

    def _ended(self, _task: "asyncio.Task[Json]") -> None:
        if self.open is not None:
            self.open.answer(QuestionRefused("nobody waits for the call any more"))
        self._news.put_nowait(None)

    async def _run(self, call: Carry) -> Json:
        CURRENT_EXCHANGE.set(self)
        return await call(self)
