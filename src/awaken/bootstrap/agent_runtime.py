"""`AgentRuntime`: the front door for developers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack

from awaken.authoring.agents import Agent
from awaken.contracts.backends import ExecutionBackend
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import RunFailed, UnknownRun
from awaken.contracts.events import AgentEvent
from awaken.contracts.inference import ModelClient
from awaken.contracts.lifecycle import Failed, RunStatus
from awaken.contracts.messages import MessageRecord
from awaken.contracts.plugins import Plugin
from awaken.contracts.profile import ProfileStore
from awaken.contracts.queries import LIMIT_MAX, MessageQuery, Page, Q, RunQuery, at_cursor
from awaken.contracts.runs import (
    DecisionReceipt,
    RunRecord,
    RunRequest,
    RunResult,
    SteerReceipt,
)
from awaken.contracts.specs import AgentSpec, ModelSpec
from awaken.contracts.storage import Store
from awaken.contracts.suspension import DecisionAction, Ticket, ToolCallResume
from awaken.contracts.tools import Tool
from awaken.runtime.engine import RunEngine
from awaken.runtime.handles import RunHandle
from awaken.runtime.limits import Limits, ToolSlots
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Services
from awaken.runtime.system import SystemClock, Uuid7Source
from awaken.stores.memory.profiles import MemoryProfileStore

from .arguments import check_names, check_optional_text, check_text, converted
from .decisions import DecisionOptions, NamedDecision, decision_on, named_decisions
from .registries import registry_set
from .requests import Input, RunOptions, messages_of, run_request, start_request
from .stores import opened_store

T = TypeVar("T")


class RuntimeOptions(TypedDict, total=False):
    """The replaceable parts of a runtime, and models that its agents may name."""

    limits: Limits
    clock: Clock
    ids: IdSource
    profile: ProfileStore
    models: Iterable[ModelSpec]
    """Models that agents may name by their id."""


class AgentRuntime:
    """Runs agents in this process.

    Use it as an async context manager; leaving it cancels what still runs. Without `store` all
    is kept in memory. An agent that is only a spec names its model, plugins and tools among
    those of the runtime.

    Raises:
        InvalidInput: An argument is of the wrong type, or there is no such option.
        InvalidSpec: Some agent cannot be resolved; the message names every problem.
        DuplicateRegistration: Two things of one kind have the same id.
    """

    def __init__(
        self,
        agents: Iterable[Agent | AgentSpec] = (),
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        plugins: Iterable[Plugin] = (),
        providers: Mapping[str, ModelClient] | None = None,
        backends: Mapping[str, ExecutionBackend] | None = None,
        store: Store | str | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        check_names("runtime option", options, RuntimeOptions.__annotations__)
        limits = converted("limits", options.get("limits") or Limits(), Limits)
        models = options.get("models", ())
        registries = registry_set(agents, tools, plugins, providers or {}, backends or {}, models)
        self.registry = RegistryHandle(registries)
        self.store = opened_store(store)
        self._clock = options.get("clock") or SystemClock()
        self._engine = RunEngine(
            self.store,
            self.registry,
            Services(
                clock=self._clock,
                ids=options.get("ids") or Uuid7Source(),
                limits=limits,
                tool_slots=ToolSlots(),
                profile=options.get("profile") or MemoryProfileStore(),
            ),
        )

    async def __aenter__(self) -> "AgentRuntime":
        await self.store.open()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self._engine.close()
        await self.store.close()

    async def run(
        self,
        agent_id: str | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run an agent to its end, or until it waits for a decision.

        The run ends with its caller: cancelling the awaiting task cancels the run.

        Raises:
            RunFailed: The run ended with an error; `error.result` has what it produced.
            UsageError: The request cannot be served; nothing was written.
        """
        return _checked(await self._engine.run(run_request(agent_id, input, thread_id, options)))

    def stream(
        self,
        agent_id: str | None,
        input: Input,
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run an agent and yield its events; closing the iterator cancels the run.

        A failed run ends with a `run_finish` event that says so; nothing is raised for it.
        """
        return self._engine.stream(run_request(agent_id, input, thread_id, options))

    async def start(
        self,
        agent_id: str | RunRequest | None,
        input: Input = (),
        *,
        thread_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> RunHandle:
        """Start a run that goes on by itself; returns once it is durable."""
        return await self._engine.start(start_request(agent_id, input, thread_id, options))

    async def wait(self, run_id: str) -> RunResult:
        """Wait until a run ends or waits for a decision."""
        check_text("run_id", run_id)
        return await self._engine.wait(run_id)

    async def cancel(self, id_: str) -> bool:
        """Cancel by run or thread id; False when nothing of that id runs or waits."""
        check_text("run or thread id", id_, "run_id")
        return await self._engine.cancel(id_)

    async def cancel_and_wait(self, id_: str, *, timeout_ms: int = 5_000) -> bool:
        """Cancel and wait until the thread is free again."""
        check_text("run or thread id", id_, "run_id")
        return await self._engine.cancel_and_wait(id_, timeout_ms)

    async def decide(
        self,
        ticket_id: str,
        action: DecisionAction | str = DecisionAction.RESUME,
        **decision: Unpack[DecisionOptions],
    ) -> DecisionReceipt:
        """Decide on a ticket: its call goes on, and the run once no ticket of it is open.

        The same decision again gives the same receipt.

        Raises:
            InvalidInput: The action is unknown, or an option; nothing was decided.
            UnknownTicket: There is no such ticket.
            AlreadyDecided: It was decided otherwise, closed, or has expired.
        """
        given = decision_on(ticket_id, action, decision, self._clock.now_ms())
        return (await self._engine.decide([(ticket_id, given)]))[0]

    async def decide_all(
        self, decisions: Mapping[str, ToolCallResume | NamedDecision]
    ) -> tuple[DecisionReceipt, ...]:
        """Decide on several tickets of one run, all or none: `{ticket_id: {"result": …}, …}`."""
        return await self._engine.decide(named_decisions(decisions, self._clock.now_ms()))

    async def steer(self, id_: str, input: Input) -> SteerReceipt:
        """Send a message into a running run; it sees it before its next inference."""
        check_text("run or thread id", id_, "run_id")
        return self._engine.steer(id_, messages_of(input))

    async def get_run(self, run_id: str) -> RunRecord:
        """Return a run's record.

        Raises:
            UnknownRun: There is no such run.
        """
        check_text("run_id", run_id)
        record = await self.store.load_run(run_id)
        if record is None:
            raise UnknownRun(run_id=run_id)
        return record

    async def list_runs(
        self, thread_id: str | None = None, status: RunStatus | str | None = None
    ) -> tuple[RunRecord, ...]:
        """List runs, oldest first."""
        check_optional_text("thread_id", thread_id)
        wanted = None if status is None else converted("status", status, RunStatus)
        query = RunQuery(thread_id=thread_id, status=wanted, limit=LIMIT_MAX)
        return await _all_pages(self.store.list_runs, query)

    async def messages(
        self, thread_id: str, query: MessageQuery | None = None
    ) -> tuple[MessageRecord, ...]:
        """List a thread's messages in order, all of them unless a query asks for a page."""
        check_text("thread_id", thread_id)
        if query is not None:
            wanted = converted("query", query, MessageQuery)
            return (await self.store.list_messages(thread_id, wanted)).items
        list_messages = partial(self.store.list_messages, thread_id)
        return await _all_pages(list_messages, MessageQuery(limit=LIMIT_MAX))

    async def tickets(self, thread_id: str | None = None) -> tuple[Ticket, ...]:
        """List the open tickets, oldest first."""
        check_optional_text("thread_id", thread_id)
        return await self.store.list_tickets(thread_id)


async def _all_pages(fetch: Callable[[Q], Awaitable[Page[T]]], query: Q) -> tuple[T, ...]:
    found: list[T] = []
    while True:
        page = await fetch(query)
        found.extend(page.items)
        if page.next_cursor is None:
            return tuple(found)
        query = at_cursor(query, page.next_cursor)


def _checked(result: RunResult) -> RunResult:
    if isinstance(result.termination, Failed):
        raise RunFailed(
            run_id=result.run_id,
            cause=result.termination.message,
            cause_code=result.termination.code,
            result=result,
        )
    return result
