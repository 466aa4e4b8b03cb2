"""Worlds with background tasks: agents that do what they are told, and functions that wait."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Limits, MailboxConfig, Message, RunResult, ToolContext, tool
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.stores import DispatchQuery
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript
from awaken.tools import TaskContext, TaskFate, TaskRecord

from .worlds import open_calls

BOUND_S = 25
"""How long a test waits for anything at most."""
CONFIG = MailboxConfig(
    poll_ms=10,
    relay_ms=20,
    relay_base_ms=5,
    relay_cap_ms=20,
    sweep_ms=100,
    lease_ms=20_000,
    renew_ms=200,
)
MORTAL = msgspec.structs.replace(CONFIG, lease_ms=800)
"""Of a process that dies: others notice it soon."""
both_stores = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def obeying(before: Callable[[InferenceRequest], Awaitable[object]] | None = None) -> ScriptedModel:
    """A model that calls the tools that its latest message names, and else repeats what it heard.

    "use" and JSON: a list of pairs of a tool's name and its arguments.
    """

    async def answer(request: InferenceRequest) -> Any:
        if before is not None:
            await before(request)
        last = request.messages[-1]
        if last.role is Role.USER and last.text.startswith("use "):
            return ToolCalls([(name, given) for name, given in json.loads(last.text[4:])])
        return f"after {last.role}: {last.text}"

    return ScriptedModel([answer], cycle=True)


def use(*calls: Any) -> str:
    """A message that makes an obeying model call tools: names, each followed by its arguments."""
    return "use " + json.dumps([[calls[n], calls[n + 1]] for n in range(0, len(calls), 2)])


class Unspeakable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Works:
    """Functions that run as tasks until a test lets them end."""

    def __init__(self) -> None:
        self.begun: dict[str, asyncio.Event] = {}
        self.ends: dict[str, asyncio.Event] = {}
        self.count: Counter[str] = Counter()
        self.tasks: dict[str, TaskContext] = {}
        self.told: dict[str, bool] = {}
        self.tools = [self._spawn_tool()]

    def end(self, name: str) -> None:
        self.ends.setdefault(name, asyncio.Event()).set()

    async def has_begun(self, name: str) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.begun.setdefault(name, asyncio.Event()).wait()

    async def _do(self, task: TaskContext, name: str, how: str) -> Any:
        self.count[name] += 1
        self.tasks[name] = task
        self.begun.setdefault(name, asyncio.Event()).set()
        if how == "emit later":
            await self.ends.setdefault(f"silence of {name}", asyncio.Event()).wait()
        if how.startswith("emit"):
            self.told[name] = await task.emit("progress", {"of": name})
            self.begun.setdefault(f"emit of {name}", asyncio.Event()).set()
        if how != "now":
            await self.ends.setdefault(name, asyncio.Event()).wait()
        match how:
            case "fail":
                message = f"{name} broke"
                raise ValueError(message)
            case "cancel itself":
                raise asyncio.CancelledError
            case "huge error":
                raise ValueError("x" * 2_000_000)
            case "half a character":
                raise ValueError("\ud800")
            case "no json":
                return object()
            case "exit":
                raise SystemExit(3)
            case "say nothing":
                raise Unspeakable
        return {"did": name}

    def _spawn_tool(self) -> Any:
        @tool(effect="idempotent")
        async def spawn(
            ctx: ToolContext,
            name: str,
            how: str = "wait",
            fate: str = "cascade",
            timeout_ms: int | None = None,
        ) -> str:
            async def work(task: TaskContext) -> Any:
                return await self._do(task, name, how)

            task = await ctx.spawn(work, name=name, fate=TaskFate(fate), timeout_ms=timeout_ms)
            if how == "emit":
                # The model reads the update in its next turn.
                await self.has_begun(f"emit of {name}")
            return task.task_id

        return spawn


@tool(effect="once")
async def ask(ctx: ToolContext) -> Any:
    return ctx.suspend("may I?") if ctx.resume is None else f"told {ctx.resume.result}"


class Town:
    """A runtime with a boss that spawns, helpers to be started, and what they heard."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        limits: Limits | None = None,
        works: Works | None = None,
        tools: Iterable[Any] = (),
        store: Any = None,
        helper: ScriptedModel | None = None,
        config: MailboxConfig = CONFIG,
        before: Callable[[InferenceRequest], Awaitable[object]] | None = None,
        **options: Any,
    ) -> None:
        self.works = works or Works()
        self.model = obeying(before)
        self.helper = helper or obeying()
        own = [*self.works.tools, ask, *tools]
        plugins = [BackgroundTasksPlugin()]
        agents = [
            Agent(
                "boss", model=self.model, tools=own, plugins=plugins, delegates=["helper", "second"]
            ),
            Agent("helper", model=self.helper, tools=own, plugins=plugins, delegates=["second"]),
            Agent("second", model=obeying(), tools=own, plugins=plugins),
        ]
        where = store or (None if kind == "memory" else f"sqlite:///{folder / 'store.db'}")
        self.runtime = AgentRuntime(
            agents, store=where, limits=limits or Limits(), mailbox=config, **options
        )

    async def __aenter__(self) -> "Town":
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        for end in self.works.ends.values():
            end.set()
        await self.runtime.__aexit__(*error)

    async def task(self, name: str, thread_id: str = "t") -> TaskRecord:
        """The newest task of a name."""
        return next(it for it in await self.runtime.tasks(thread_id) if it.name == name)

    async def ended(self, name: str, thread_id: str = "t") -> TaskRecord:
        """The task of a name, once it has ended."""

        async def is_over() -> bool:
            found = [it for it in await self.runtime.tasks(thread_id) if it.name == name]
            return bool(found) and found[0].status.is_terminal

        await until(is_over)
        return await self.task(name, thread_id)

    async def messages(self, thread_id: str = "t") -> list[Message]:
        found = [it.message for it in await self.runtime.messages(thread_id)]
        assert_valid_transcript(found, open_calls(found))
        return found

    async def lines(self, thread_id: str = "t") -> list[str]:
        return [it.text for it in await self.messages(thread_id)]

    async def answers(self, thread_id: str = "t") -> list[str]:
        """The results of the thread's tool calls."""
        return [it.text for it in await self.messages(thread_id) if it.role is Role.TOOL]

    async def notices(self, thread_id: str = "t") -> list[dict[str, Any]]:
        """The ends of tasks that a thread was told, in order."""
        told = await self.messages(thread_id)
        return [event_of(it) for it in told if it.sender is not None and it.sender.is_end]

    async def kinds(self, thread_id: str = "t") -> list[str]:
        return [notice["kind"] for notice in await self.notices(thread_id)]

    async def until_told(self, count: int, thread_id: str = "t") -> None:
        """Wait until a thread knows of so many ends, and nothing of it goes on."""

        async def is_told() -> bool:
            return len(await self.notices(thread_id)) >= count

        await until(is_told)
        await self.quiet(thread_id)
        assert len(await self.notices(thread_id)) == count

    async def quiet(self, thread_id: str = "t") -> None:
        """Wait until a thread has nothing to do and nothing is on its way anywhere."""

        async def is_quiet() -> bool:
            # In the order in which work moves: what leaves one place is seen in the next one.
            store = self.runtime.store
            orders = await store.list_outbox()
            sent = (await store.list_dispatches(DispatchQuery(thread_id=thread_id))).items
            runs = await self.runtime.list_runs(thread_id)
            is_busy = self.runtime._engine.active.of_thread(thread_id) is not None
            is_moving = any(not it.status.is_terminal for it in sent)
            is_running = any(it.status == "running" for it in runs)
            return not (orders or is_moving or is_busy or is_running)

        await until(is_quiet)

    async def start(self, text: str, thread_id: str = "t") -> RunResult:
        """Start the boss, and wait until it has ended or was released."""
        await self.quiet(thread_id)
        handle = await self.runtime.start("boss", text, thread_id=thread_id)
        async with asyncio.timeout(BOUND_S):
            return await handle.result()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not await condition():
            await asyncio.sleep(0.005)


def event_of(message: Message) -> dict[str, Any]:
    """What a message of a task says."""
    assert message.text.startswith("<background-task-event ")
    assert message.text.endswith("\n</background-task-event>")
    decoded: dict[str, Any] = json.loads(message.text.split("\n")[1])
    return decoded


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    """Play a scenario in a loop of its own; failures that nobody has seen are errors."""
    unseen: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unseen.append(what))
        await scenario()

    asyncio.run(watched())
    assert unseen == []
