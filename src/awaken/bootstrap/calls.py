"""The methods of a runtime besides those that start runs: control, threads, and short programs."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from awaken.contracts.clock import Clock
from awaken.contracts.errors import AwakenError, InvalidInput, Misuse, RunFailed
from awaken.contracts.events import AgentEvent, RunFinish, RunStart
from awaken.contracts.lifecycle import Failed, NaturalEnd
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Input
from awaken.contracts.record import OutputT
from awaken.contracts.runs.records import RunResult, SteerReceipt
from awaken.contracts.runs.threads import Thread
from awaken.contracts.suspension.tickets import DecisionAction, DecisionReceipt, ToolCallResume

from .arguments import check_optional_text, check_text
from .decisions import DecisionOptions, NamedDecision, build_decision, build_decisions
from .requests import RunOptions, messages_of

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.mailbox.workflow_runs import EventReceipt, ResetReceipt
    from awaken.runtime.engine import RunEngine
    from awaken.runtime.resolution.registry import RegistryHandle
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

    async def wait_for_follow_up(self, run_id: str, *, timeout_ms: int | None = None) -> RunResult:
        """Wait until the run has ended in which plugins do their work after a run.

        Args:
            run_id: The run that it follows.
            timeout_ms: How long to wait, in milliseconds. None waits without a limit.

        Raises:
            UnknownRun: No plugin has work after that run, or it has not ended yet.
            TimeoutError: It takes longer than `timeout_ms`.
        """
        # Few programs have follow-up runs.
        from awaken.services.follow_ups import wait_for_follow_up  # noqa: PLC0415

        check_text("run_id", run_id)
        return await wait_for_follow_up(self._control, run_id, timeout_ms)

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

    async def send_event(
        self, run_id: str, name: str, payload: Any = None, *, event_id: str | None = None
    ) -> "EventReceipt":
        """Send an event to a run of a workflow; it is durable when this returns.

        Args:
            run_id: The run.
            name: The name of the event, as `ctx.wait_for` has it.
            payload: What it carries: anything with a JSON form.
            event_id: The same event under the same id is sent once. A new one unless given.

        Raises:
            UnknownRun: There is no such run.
            RunStillQueued: It is still queued; send the event again.
            NotAWorkflow: It is not a run of a workflow.
            RunHasEnded: It takes no more events.
            EventRefused: The payload does not fit.
        """
        check_text("run_id", run_id)
        # Loaded by the first event: most programs have no workflow.
        from awaken.services.workflows import send_event  # noqa: PLC0415

        record = await self._control.record(run_id)
        event = (name, payload, event_id)
        return await send_event(self._control.engine, self._control, record, event)

    async def reset_run(
        self, run_id: str, step: str | None = None, *, is_dry: bool = False
    ) -> "ResetReceipt":
        """Let a workflow that waits take a step, and all later ones, again.

        Args:
            run_id: The run.
            step: The path of the step. None: the function is only entered again.
            is_dry: Whether only to return what would be taken back.

        Raises:
            UnknownRun: There is no such run.
            NotAWorkflow: It is not a run of a workflow.
            RunHasEnded: It has ended.
            ResetRefused: It executes, or has no such step.
        """
        check_text("run_id", run_id)
        # Loaded by the first reset: most programs have no workflow.
        from awaken.mailbox.workflow_runs import plan_reset, reset_run  # noqa: PLC0415

        record = await self._control.record(run_id)
        services = self._control.mailbox.services
        plan = await plan_reset(services, record, step)
        if not is_dry:
            await reset_run(services, record, plan)
            self._control.start_queued()
        return plan

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

    registry: "RegistryHandle"
    _control: "RunControl"
    _engine: "RunEngine"
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

        async def decide(
            self,
            ticket_id: str,
            action: DecisionAction | str = DecisionAction.RESUME,
            **decision: Unpack[DecisionOptions],
        ) -> DecisionReceipt:
            """See `ControlCalls.decide`."""
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

        async def run_once() -> RunResult:
            async with AsyncExitStack() as stack:
                await self._ensure_open(stack)
                return await self.run(agent_id, input, thread_id=thread_id, **options)

        return self._run_blocking("run", run_once)

    def decide_sync(
        self,
        ticket_id: str,
        action: DecisionAction | str = DecisionAction.RESUME,
        **decision: Unpack[DecisionOptions],
    ) -> RunResult:
        """Decide on a ticket from code without an event loop, and wait for its run.

        Returns the result of the run when it has ended, or waits for the next decision.

        Args:
            ticket_id: The ticket, from `result.tickets` of `run_sync`.
            action: `resume` or `cancel`.
            **decision: The answer and its conditions; see `ToolCallResume`.

        Raises:
            Misuse: An event loop runs here, or the runtime is open: `await runtime.decide(…)`.
            UnknownTicket: There is no such ticket.
            AlreadyDecided: The ticket was decided differently, was closed, or has expired.
        """

        async def decide_once() -> RunResult:
            async with AsyncExitStack() as stack:
                await self._ensure_open(stack)
                receipt = await self.decide(ticket_id, action, **decision)
                return await self._control.wait(receipt.run_id, None)

        return self._run_blocking("decide", decide_once)

    def _run_blocking(
        self, name: str, work: Callable[[], Coroutine[Any, Any, RunResult]]
    ) -> RunResult:
        # Not by a process that only declares agents: asyncio is a third of what it would load.
        import asyncio  # noqa: PLC0415

        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - does not raise
            message = f"An event loop runs here: use `await runtime.{name}(…)`."
            raise Misuse(message)
        if self._is_open:
            message = f"The runtime is open: use `await runtime.{name}(…)` in its event loop."
            raise Misuse(message)
        return asyncio.run(work())

    @overload
    def stream_text(
        self,
        agent_id: "Agent[Any, OutputT]",
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> "AnswerStream[OutputT]": ...

    @overload
    def stream_text(
        self,
        agent_id: str | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> "AnswerStream[Any]": ...

    def stream_text(
        self,
        agent_id: "str | Agent | None",
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> "AnswerStream[Any]":
        """Run an agent and yield the text of its answers; closing the iterator cancels the run.

        An answer that can be refused, by an output type or a validator, is yielded when it is
        accepted, in one piece. When a model's stream breaks off and another answer begins anew, its
        text is yielded again: `stream` has the `StreamReset` that says so.

        The iterator's `result` is the result of the run when the text is over: whether it waits for
        a decision, was blocked, or what its output is.

        Args:
            agent_id: The agent or its id, as in `run`.
            input: A text, content blocks, or messages.
            thread_id: The conversation. None starts a new one.
            **options: Further fields of the request; see `RunOptions`.

        Raises:
            RunFailed: The run ended with an error; `error.result` has its partial result.
            UsageError: The request cannot be served; nothing was written.
        """
        return AnswerStream(
            self.stream(agent_id, input, thread_id=thread_id, **options),
            self._may_refuse_answers,
            self._control,
            is_held="output_schema" in options,
        )

    def _may_refuse_answers(self, start: RunStart) -> bool:
        """Whether the agent that answers now has an output type or validators."""
        active = self._engine.active.of_thread(start.thread_id)
        if active is not None and active.run is not None:
            return active.run.agent.output is not None
        if start.identity is None:
            return False
        try:
            agent_id = start.identity.agent_id
            return self.registry.last_seen(agent_id).resolve(agent_id).output is not None
        except AwakenError:
            return False


class AnswerStream(AsyncIterator[str], Generic[OutputT]):
    """The text of a run's answers while they come."""

    def __init__(
        self,
        events: AsyncGenerator[AgentEvent, None],
        may_refuse: Callable[[RunStart], bool],
        control: "RunControl",
        *,
        is_held: bool,
    ) -> None:
        self._may_refuse = may_refuse
        self._control = control
        self._is_held = is_held
        self._pieces = self._read(events)
        self.result: RunResult[OutputT] | None = None
        """The result of the run; None until the text is over."""

    def __aiter__(self) -> "AnswerStream[OutputT]":
        return self

    async def __anext__(self) -> str:
        """Return the next piece of text.

        Raises:
            RunFailed: The run ended with an error.
        """
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Cancel the run, unless it is over."""
        await self._pieces.aclose()

    async def _read(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[str, None]:
        start: RunStart | None = None
        last: RunFinish | None = None
        async with aclosing(events):
            async for event in events:
                if isinstance(event, TextDelta):
                    if start is not None and not self._is_held:
                        self._is_held = self._may_refuse(start)
                    if not self._is_held:
                        yield event.delta
                elif isinstance(event, RunStart):
                    start = event
                    self._is_held = self._is_held or self._may_refuse(start)
                elif isinstance(event, RunFinish):
                    last = event
        if last is None:
            return
        result: RunResult[Any] = await self._control.wait(last.run_id, None)
        self.result = result
        match last.termination:
            case Failed(message=cause, code=code):
                raise RunFailed(run_id=last.run_id, cause=cause, cause_code=code, result=result)
            case NaturalEnd() if self._is_held and result.text:
                yield result.text


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
