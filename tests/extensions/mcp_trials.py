"""Runs that have to do with bad MCP servers: what came of them, and what they left behind."""

import asyncio
import itertools
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.process_watch import bound_memory, list_open_files

from awaken import Agent, AgentRuntime, RedactedString, ToolCallDone, ToolResult
from awaken.extensions.mcp import (
    Http,
    McpPlugin,
    McpServer,
    Restart,
    ServerState,
    ServerStatus,
    Stdio,
)
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolStatus

from .hostile_mcp import HostileServer
from .hostile_mcp_replies import ANY, ERROR, FINE, MISSING, Case

ROOT = Path(__file__).parents[2]
TOKEN = "canary-of-the-mcp-server-51c7"
CONNECT_MS, CALL_MS, PATIENT_MS = 1_500, 400, 20_000
SETTLE_S, CLOSE_S = 30, 10
GROWTH_MAX = 512 << 20
"""Bytes by which a process may grow; the in-process servers and all results are part of it."""
_MARKS = itertools.count()
AT_REST = (ServerState.CONNECTED, ServerState.FAILED, ServerState.DISABLED)


@dataclass(frozen=True)
class Trial:
    """One behaviour over one transport."""

    case: Case
    over: str

    def __str__(self) -> str:
        return f"{self.case.name} ({self.over})"


class Trials:
    """Several bad servers and a good one in one runtime, with one tool of each."""

    def __init__(self, plugin: McpPlugin, runtime: AgentRuntime, bad: Sequence[Trial]) -> None:
        self.plugin, self.runtime, self.bad = plugin, runtime, bad
        self.results: dict[str, ToolResult] = {}
        self.before: dict[str, ServerStatus] = {}
        self.after: dict[str, ServerStatus] = {}

    async def play(self) -> None:
        """One run that calls everything, beside one that only calls the good server."""
        await until(lambda: all(it.state in AT_REST for it in self.plugin.status()))
        self.before = {it.name: it for it in self.plugin.status()}
        async with asyncio.timeout(30):
            self.results, other = await asyncio.gather(self._run("all"), self._run("other"))
        self.after = {it.name: it for it in self.plugin.status()}
        assert [text_of(it) for it in other.values()] == ["did well"]

    async def _run(self, agent_id: str) -> dict[str, ToolResult]:
        events = [it async for it in self.runtime.stream(agent_id, "go")]
        done = [it for it in events if isinstance(it, ToolCallDone)]
        results = {it.result.tool_name: it.result for it in done}
        run_id = events[-1].run_id
        for _ in range(10):
            run = await self.runtime.wait(run_id)
            for ticket in run.tickets:
                assert "javascript:" not in repr(ticket.suspension)
                await self.runtime.decide(ticket.ticket_id, "cancel")
        assert run.text == f"done {agent_id}", run
        return results

    def problems(self) -> dict[str, str]:
        """What did not come as it should have, by behaviour."""
        found = {str(it): self._problem(n, it.case) for n, it in enumerate(self.bad)}
        good = self.results["mcp__good__act"]
        found["the good server"] = "" if text_of(good) == "did well" else repr(good)
        return {name: problem for name, problem in found.items() if problem}

    def _problem(self, number: int, case: Case) -> str:
        result, status = self.results[f"mcp__bad{number}__act"], self.after[f"bad{number}"]
        shown = f"{result} {status.state} {status.last_error} {status.problems}"[:1500]
        if kind_of(result) != case.ends and case.ends != ANY:
            return f"ended as {kind_of(result)}, not {case.ends}: {shown}"
        is_healthy = status.state is ServerState.CONNECTED
        if case.is_healthy is not None and is_healthy != case.is_healthy:
            return f"healthy is {is_healthy}: {shown}"
        if not re.search(case.says, f"{result.data} {result.message}"):
            return f"does not say {case.says}: {shown}"
        if len(repr(result)) > 2_000_000:
            return f"{len(repr(result))} characters"
        return "the token is shown" if TOKEN in f"{result} {status}" else ""


def text_of(result: ToolResult) -> str:
    """What a result says."""
    return str(result.data if result.status is ToolStatus.SUCCESS else result.message)


def kind_of(result: ToolResult) -> str:
    """What a call came to."""
    if result.status is ToolStatus.SUCCESS:
        return FINE
    code = result.metadata.get("code", "")
    if not code:
        return f"untyped {result.status}"
    return MISSING if code == "tool_not_found" else ERROR


@asynccontextmanager
async def trials(bad: Sequence[Trial], **options: Any) -> AsyncIterator[Trials]:
    """A runtime with these servers and a good one; it has to close in time, and leave nothing."""
    mark = f"mark-{os.getpid()}-{next(_MARKS)}"
    tasks = asyncio.all_tasks()
    with nothing_left(mark), bound_memory(GROWTH_MAX, 0.01):
        async with AsyncExitStack() as stack:
            elsewhere = await stack.enter_async_context(HostileServer())
            good = await stack.enter_async_context(HostileServer())
            servers = [await served(it, n, mark, stack, elsewhere) for n, it in enumerate(bad)]
            servers = [changed(it, options) for it in servers]
            plugin = McpPlugin([*servers, server_at("good", good.url, PATIENT_MS)])
            runtime = AgentRuntime([caller("all", plugin, len(bad)), caller("other", plugin, 0)])
            async with closing_in_time(runtime):
                yield Trials(plugin, runtime, bad)
            assert elsewhere.headers == []
            assert await good.is_alone()
        await until(lambda: asyncio.all_tasks() <= tasks)


def caller(name: str, plugin: McpPlugin, bad: int) -> Agent:
    """An agent that calls the tool of each bad server, and that of the good one."""
    calls: list[Any] = [(f"mcp__bad{it}__act", {"text": "it"}) for it in range(bad)]
    script = [ToolCalls([*calls, ("mcp__good__act", {"text": "well"})]), f"done {name}"]
    return Agent(name, model=ScriptedModel(script, cycle=True), plugins=[plugin])


async def served(
    trial: Trial, number: int, mark: str, stack: AsyncExitStack, elsewhere: HostileServer
) -> McpServer:
    """A bad server over its transport, with a short patience where waiting any longer is no use."""
    case = trial.case
    # A deadline is a typed error as well, says nothing else, and is no sign of health.
    is_answered = case.ends == FINE or case.is_healthy or case.says or case.is_patient
    patience = PATIENT_MS if is_answered else CALL_MS
    connect_ms = PATIENT_MS if is_answered or case.ends == ERROR else CONNECT_MS
    name = f"bad{number}"
    if trial.over == "stdio":
        module = ("-S", "-m", "tests.extensions.hostile_mcp_cases", trial.case.name, mark)
        program = Stdio(command=sys.executable, args=module, cwd=str(ROOT))
        return McpServer(
            name=name, transport=program, connect_ms=connect_ms, call_ms=patience, restart=NEVER
        )
    server = HostileServer(trial.case.replies, elsewhere.url)
    await stack.enter_async_context(server)
    return server_at(name, server.url, patience, connect_ms)


NEVER = Restart(max_attempts=0, failures=1)


def server_at(name: str, url: str, call_ms: int, connect_ms: int = PATIENT_MS) -> McpServer:
    """A server over HTTP, with a credential."""
    headers = {"authorization": RedactedString(f"Bearer {TOKEN}")}
    place = Http(url=url, headers=headers, allow_private=True)
    return McpServer(
        name=name, transport=place, connect_ms=connect_ms, call_ms=call_ms, restart=NEVER
    )


@asynccontextmanager
async def closing_in_time(runtime: AgentRuntime) -> AsyncIterator[None]:
    """The runtime is open, and closes within its bound."""
    await runtime.__aenter__()
    try:
        yield
    finally:
        async with asyncio.timeout(CLOSE_S):
            await runtime.__aexit__(None, None, None)


async def until(is_so: Callable[[], bool], within_s: float = SETTLE_S) -> None:
    """Return once it is so."""
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.005)


@contextmanager
def nothing_left(mark: str) -> Iterator[None]:
    """No file, no socket and no process with the mark is left of what happens here."""
    before = list_open_files()
    yield
    assert list_open_files() == before
    # A kill has been sent by now; the system carries it out when it comes to it.
    for _ in range(100 * SETTLE_S):
        if not marked(mark):
            return
        time.sleep(0.01)
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """Processes that were started with the mark, or by one of those."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in place.read_bytes():
                found.append(str(place))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def changed(server: McpServer, options: dict[str, Any]) -> McpServer:
    """The server with some of its settings changed."""
    fields = {name: getattr(server, name) for name in server.__struct_fields__}
    return McpServer(**{**fields, **options})
