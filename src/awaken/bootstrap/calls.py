"""The methods of a runtime besides those that start runs: control, threads, and short programs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Unpack, overload

from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput, Misuse, RunFailed
from awaken.contracts.events import AgentEvent, RunFinish
from awaken.contracts.lifecycle import Failed
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Input
from awaken.contracts.runs.records import DecisionReceipt, RunResult, SteerReceipt
from awaken.contracts.runs.threads import Thread
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume

from .arguments import check_optional_text, check_text
from .decisions import DecisionOptions, NamedDecision, build_decision, build_decisions
from .requests import RunOptions, messages_of

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.record import OutputT
    from awaken.runtime.engine import RunEngine
    from awaken.services.control import RunControl


class ControlCalls:
    """The methods of a runtime that control runs, wherever they execute."""

    _clock: Clock
    _control: "RunControl"

    async def wait(self, run_id: str, *, timeout_ms: int | None = None) -> RunResult:
        """Wait until a run ends or is suspended, in whichever process it executes.

        Args:
            run_id: The run.
            timeout_ms: How long to wait, in milliseconds. None waits without a limit.

        Raises:
            UnknownRun: There is no such run.
            TimeoutError: It takes longer than `timeout_ms`.
        """
        check_text("run_id", run_id)
        return await self._control.wait(run_id, timeout_ms)

    async def cancel(self, id_: str) -> bool:
        """Cancel a run; False when nothing with that id runs or waits.

        Args:
            id_: The id of the run, of its thread, or of a dispatch.
        """
        check_text("run or thread id", id_, "run_id")
        return await self._control.cancel(id_)

    async def cancel_and_wait(self, id_: str, *, timeout_ms: int = 5_000) -> bool:
        """Cancel a run and wait until its thread is free.

        Args:
            id_: The id of the run, of its thread, or of a dispatch.
            timeout_ms: How long to wait, in milliseconds.
        """
        check_text("run or thread id", id_, "run_id")
        return await self._control.cancel_and_wait(id_, timeout_ms)

    async def decide(
        self,
        ticket_id: str,
        action: DecisionAction | str = DecisionAction.RESUME,
        **decision: Unpack[DecisionOptions],
    ) -> DecisionReceipt:
        """Decide on a ticket. The run continues as soon as all of its tickets are decided.

        The same decision again returns the same receipt.

        Args:
            ticket_id: The ticket.
            action: `resume` or `cancel`.
            **decision: The answer and its conditions; see `ToolCallResume`.

        Raises:
            InvalidInput: The action or an option is unknown; nothing was decided.
            UnknownTicket: There is no such ticket.
            AlreadyDecided: The ticket was decided differently, was closed, or has expired.
        """
        given = build_decision(ticket_id, action, decision, self._clock.now_ms())
        return (await self._control.decide([(ticket_id, given)]))[0]

    async def decide_all(
        self, decisions: Mapping[str, ToolCallResume | NamedDecision]
    ) -> tuple[DecisionReceipt, ...]:
        """Decide on several tickets of one run, all or none.

        Args:
            decisions: A decision for each ticket id: `{ticket_id: {"result": …}, …}`.
        """
        return await self._control.decide(build_decisions(decisions, self._clock.now_ms()))

    async def steer(self, id_: str, input: Input) -> SteerReceipt:
        """Send a message into a run that executes; its model sees it with the next inference.

        Args:
            id_: The id of the run or of its thread.
            input: A text, content blocks, or messages.

        Raises:
            AmbiguousId: The id is that of a run, and that of a thread with another run.
        """
        check_text("run or thread id", id_, "run_id")
        return await self._control.steer(id_, messages_of(input))


class ScriptCalls:
    """The methods of a runtime for short programs."""

    _control: "RunControl"
    _is_open: bool

    if TYPE_CHECKING:

        async def run(
            self,
            agent_id: str | Agent[Any, Any] | None,
            input: Input,
            *,
            thread_id: str | None = None,
            **options: Unpack[RunOptions],
        ) -> RunResult[Any]:
            """See `AgentRuntime.run`."""
            ...

        def stream(
            self,
            agent_id: str | Agent[Any, Any] | None,
            input: Input,
            *,
            thread_id: str | None = None,
            **options: Unpack[RunOptions],
        ) -> AsyncGenerator[AgentEvent, None]:
            """See `AgentRuntime.stream`."""
            ...

        async def _ensure_open(self, stack: AsyncExitStack) -> None: ...

    @overload
    def run_sync(
        self,
        agent_id: "Agent[Any, OutputT]",
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> "RunResult[OutputT]": ...

    @overload
    def run_sync(
        self,
        agent_id: str | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult: ...

    def run_sync(
        self,
        agent_id: "str | Agent | None",
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run an agent as `run` does, from code without an event loop.

        The runtime is opened for the run and closed after it; what its store has stays.

        Args:
            agent_id: The agent or its id, as in `run`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.

        Raises:
            Misuse: An event loop runs here, or the runtime is open: `await runtime.run(…)`.
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The request cannot be served; nothing was written.
        """
        if self._is_open or asyncio._get_running_loop() is not None:  # noqa: SLF001 - does not raise
            message = "An event loop runs here, or the runtime is open: use `await runtime.run(…)`."
            raise Misuse(message)

        async def run_once() -> RunResult:
            async with AsyncExitStack() as stack:
                await self._ensure_open(stack)
                return await self.run(agent_id, input, thread_id=thread_id, **options)

        return asyncio.run(run_once())

    async def stream_text(
        self,
        agent_id: "str | Agent | None",
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[str, None]:
        """Run an agent and yield the text of its answers; closing the iterator cancels the run.

        When a model's stream breaks off and the answer begins anew, its text is yielded again:
        `stream` has the `StreamReset` that says so.

        Args:
            agent_id: The agent or its id, as in `run`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.

        Raises:
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The request cannot be served; nothing was written.
        """
        last: RunFinish | None = None
        async with aclosing(self.stream(agent_id, input, thread_id=thread_id, **options)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.delta
                elif isinstance(event, RunFinish):
                    last = event
        match last:
            case RunFinish(run_id=run_id, termination=Failed(message=cause, code=code)):
                result = await self._control.wait(run_id, None)
                raise RunFailed(run_id=run_id, cause=cause, cause_code=code, result=result)


class ThreadCalls:
    """The methods of a runtime that change threads outside of a run."""

    _engine: "RunEngine"

    async def fork(
        self, thread_id: str, *, at: str | None = None, before: str | None = None
    ) -> Thread:
        """Make a new thread that begins with the messages of another thread.

        The other thread does not change. The new thread has the newest state of the other one,
        because past values of state are not kept.

        Args:
            thread_id: The thread to copy from.
            at: The id of the last message to take over. Without `at` and `before`, all of them.
            before: The id of the first message to leave out.

        Raises:
            InvalidInput: Both `at` and `before` were given.
            UnknownThread: There is no such thread.
            RecordNotFound: It has no such message.
        """
        check_text("thread_id", thread_id)
        check_optional_text("at", at)
        check_optional_text("before", before)
        if at is not None and before is not None:
            raise InvalidInput(what="fork", problem="give `at` or `before`, not both")
        # Imported on demand: few programs fork threads.
        from awaken.runtime.admission.forks import Fork, fork_thread  # noqa: PLC0415

        engine, services = self._engine, self._engine.services
        fork = Fork(at=at, before=before)
        return await fork_thread(engine.store, services.clock, services.ids, thread_id, fork)

    async def undo_compaction(self, thread_id: str) -> bool:
        """Send the whole history of a thread again, without summaries; False if it always was.

        Args:
            thread_id: The thread whose summaries and cuts are removed.

        Raises:
            ThreadBusy: A run of the thread executes in this process.
            ThreadClaimed: A run of the thread executes in another process.
        """
        check_text("thread_id", thread_id)
        return await self._engine.undo_compaction(thread_id)
