"""What extensions cost: 1,000 MCP tools, 500 skills and 1,000 rules against the same agent without.

usage: python bench/extensions.py [--turns N] [--only NAME,…] [--sqlite]    the table
       python bench/extensions.py profile NAME [TURNS]           where the time goes
       python bench/extensions.py build NAME [ROUNDS]            where the time of building goes
       python bench/extensions.py imports                        resident memory of the modules

All agents live in one process and take their turns in random order, so that all see the same
noise; a turn is a fresh thread, timed until its first text delta. Memory is measured in a process
of its own for each agent, after everything was imported. A part that cannot be built is skipped
with one line that says why.
"""

import argparse
import asyncio
import cProfile
import gc
import importlib
import json
import os
import pstats
import random
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.authoring.schema_tools import SchemaTool
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.models.inference import InferenceRequest, Stop, StopReason
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.tools.tool import Tool, ToolDescriptor
from stats import median, quantile

TOOLS, SKILLS, RULES = 1_000, 500, 1_000
PARTS = 5  # of the turns, to show how far they differ
PAGE = 100  # tools of one page of the MCP server
TARGET_MS, TARGET_MB = 5.0, 50.0
VARIANTS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "plain again": (),
    "tools": ("tools",),
    "mcp": ("mcp",),
    "tools+permission": ("tools", "permission"),
    "skills": ("skills",),
    "tools+deferred": ("tools", "deferred"),
    "all but mcp": ("tools", "permission", "skills", "deferred"),
    "all": ("mcp", "permission", "skills", "deferred"),
}
"""All of them together are what the target is about; `plain again` shows the noise."""
IMPORTED = (
    "awaken.extensions.permission",
    "awaken.extensions.skills",
    "awaken.extensions.deferred_tools",
    "awaken.extensions.mcp",
    "awaken.extensions.mcp.sdk",
)
COLUMNS = (
    "agent", "first token ms", "p90", "later by ms", "CPU ms", "more CPU ms", "x", "RSS MB",
    "heap MB",
)  # fmt: skip
IS_DURABLE = "--sqlite" in sys.argv
SYSTEM = "You are a helpful assistant. Use the tools when they help."


class Words:
    """A model that says one word at once, whatever it is sent."""

    name = "words"

    async def stream(self, request: InferenceRequest) -> AsyncIterator[Any]:
        """One delta, and the end."""
        yield TextDelta(delta="word")
        yield Stop(reason=StopReason.END_TURN)


@dataclass
class Parts:
    """What an agent is made of."""

    folder: str
    tools: list[Tool] = field(default_factory=list)
    plugins: list[Plugin] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)


def tool_name(number: int) -> str:
    """The tools of the server are named by what they are about, as real ones are."""
    verb = ("create", "delete", "find", "list", "update")[number % 5]
    return f"{verb}_object_{number:04}"


def schema(number: int) -> dict[str, Any]:
    """A schema of a usual size, 600 to 700 characters."""
    texts = {f"field_{index}": f"What the field {index} of {number} is." for index in range(6)}
    properties = {name: {"type": "string", "description": it} for name, it in texts.items()}
    limit = {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}
    return {
        "type": "object",
        "properties": {**properties, "limit": limit},
        "required": ["field_0", "field_1"],
    }


def description(number: int) -> str:
    """What the model is told about a tool."""
    return f"Does what tool {number} does with the objects of kind {number} in their system."


def add_tools(parts: Parts, _folder: Path) -> None:
    """Tools of this process, of the ids and schemas that those of the server have."""

    async def nothing(_arguments: Any, _context: ToolContext) -> str:
        return ""

    for number in range(TOOLS):
        descriptor = ToolDescriptor(
            id=f"mcp__bench__{tool_name(number)}",
            description=description(number),
            parameters=schema(number),
        )
        parts.tools.append(SchemaTool(descriptor, nothing))


def add_mcp(parts: Parts, _folder: Path) -> None:
    """The same tools from a server in a process of its own, over stdio."""
    mcp = importlib.import_module("awaken.extensions.mcp")
    transport = mcp.Stdio(command=sys.executable, args=(os.path.abspath(__file__), "serve"))
    server = mcp.McpServer(name="bench", transport=transport, protocol="legacy")
    parts.plugins.append(mcp.McpPlugin([server]))


def add_permission(parts: Parts, _folder: Path) -> None:
    """Rules about single tools, about their arguments and about families of tools."""
    permission = importlib.import_module("awaken.extensions.permission")
    parts.plugins.append(permission.PermissionPlugin())
    parts.config["permission"] = {"default_behavior": "ask", "rules": rules()}


def rules() -> list[dict[str, str]]:
    """Of four rules one is about a tool, two about arguments, one about many tools.

    All are globs: the tools of a server come later than the rules about them.
    """
    made = []
    for number in range(RULES):
        name, index = f"mcp__bench__{tool_name(number)}*", number % 4
        text = (
            name,
            f'{name}(field_0 ~ "*/{number}/*")',
            f'{name}(field_1 =~ "^v{number}-[a-z]+$")',
            f"mcp__bench__*_{number:04}",
        )[index]
        behavior = ("allow", "allow", "ask", "deny")[index]
        made.append({"tool": text, "behavior": behavior})
    return made


def add_skills(parts: Parts, folder: Path) -> None:
    """Skills in folders."""
    folder = folder / "skills"
    folder.mkdir()
    skills = importlib.import_module("awaken.extensions.skills")
    for number in range(SKILLS):
        path = folder / f"skill-{number:03}"
        path.mkdir()
        head = (
            f"name: skill-{number:03}\ndescription: Does what skill {number} is for, step by step."
        )
        body = "\n".join(f"{step}. Do what is to be done in step {step}." for step in range(40))
        (path / "SKILL.md").write_text(f"---\n{head}\n---\n\n# Skill {number}\n\n{body}\n")
    parts.plugins.append(skills.SkillsPlugin(folder))


def add_deferred(parts: Parts, _folder: Path) -> None:
    """All tools deferred."""
    deferred = importlib.import_module("awaken.extensions.deferred_tools")
    parts.plugins.append(deferred.DeferredToolsPlugin())


ADDERS = {
    "tools": add_tools,
    "mcp": add_mcp,
    "permission": add_permission,
    "skills": add_skills,
    "deferred": add_deferred,
}


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@contextmanager
def parts_of(names: tuple[str, ...]) -> Iterator[Parts]:
    """What the named parts give, with a folder for their files."""
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(folder=folder, tools=[add])
        for name in names:
            ADDERS[name](parts, Path(folder))
        yield parts


@asynccontextmanager
async def built(names: tuple[str, ...]) -> AsyncIterator[AgentRuntime]:
    """A runtime whose agent `a` has these parts; checked to have what they promise."""
    with parts_of(names) as parts:
        agent = Agent(
            "a",
            model=Words(),
            instructions=SYSTEM,
            tools=parts.tools,
            plugins=parts.plugins,
            config=parts.config,
        )
        store = {"store": f"sqlite:///{parts.folder}/bench.db"} if IS_DURABLE else {}
        async with AgentRuntime([agent], **store) as runtime:
            known = len(runtime.registry.snapshot().resolve("a").tools)
            wanted = TOOLS if {"tools", "mcp"} & set(names) else 0
            if known < 1 + wanted:
                told = [it.status() for it in parts.plugins if hasattr(it, "status")]
                raise RuntimeError(f"{known} tools instead of {1 + wanted}: {told}")
            yield runtime


# Time


class Turn(NamedTuple):
    """Seconds until the first word."""

    wall: float
    cpu: float


async def first_token(runtime: AgentRuntime) -> Turn:
    """One turn on a fresh thread; what follows the first word is not timed."""
    wall, cpu = time.perf_counter(), time.process_time()
    seen: Turn | None = None
    async for event in runtime.stream("a", "Hello."):
        if seen is None and type(event) is TextDelta:
            seen = Turn(time.perf_counter() - wall, time.process_time() - cpu)
    if seen is None:
        raise RuntimeError("the model said nothing")
    return seen


async def times(names: list[str], turns: int) -> tuple[dict[str, list[Turn]], dict[str, str]]:
    """Turns of all variants in random order, and why some are missing."""
    taken: dict[str, list[Turn]] = {}
    missing: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        runtimes: dict[str, AgentRuntime] = {}
        for name in names:
            try:
                runtimes[name] = await stack.enter_async_context(built(VARIANTS[name]))
            except Exception as error:
                missing[name] = f"{type(error).__name__}: {error}"
        order = list(runtimes)
        for turn in range(-max(5, turns // 10), turns):
            random.shuffle(order)
            for name in order:
                one = await first_token(runtimes[name])
                if turn >= 0:
                    taken.setdefault(name, []).append(one)
            if turn % 20 == 0:
                gc.collect()
    return taken, missing


# Memory


def resident() -> int:
    """The process's resident memory in bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def memory(name: str, *, traced: bool) -> int:
    """What building a variant and ten turns add, in bytes; the imports are there before."""
    import_all()
    async with built(()) as runtime:
        await first_token(runtime)
    gc.collect()
    if traced:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if traced else resident()
    async with built(VARIANTS[name]) as runtime:
        for _ in range(10):
            await first_token(runtime)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] if traced else resident()) - before


def import_all() -> dict[str, int]:
    """Load the extensions and the MCP SDK, as far as they are there; bytes for each of them."""
    grown = {}
    for module in IMPORTED:
        before = resident()
        with suppress(ImportError):
            importlib.import_module(module)
            grown[module] = resident() - before
    return grown


def asked(*arguments: str) -> float | None:
    """A number of bytes from a process of its own, in MB."""
    command = [sys.executable, os.path.abspath(__file__), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1] if done.stderr else "no answer", file=sys.stderr)
        return None
    return float(done.stdout) / 1e6


# The MCP server


def serve() -> None:
    """Speak MCP over stdio, as far as a client needs to list tools."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
            print(json.dumps(reply), flush=True)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request."""
    parameters = message.get("params") or {}
    match message["method"]:
        case "initialize":
            info = {"name": "bench", "version": "1"}
            version = parameters["protocolVersion"]
            known = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            return {"result": known}
        case "tools/list":
            begin = int(parameters.get("cursor") or 0)
            end = min(TOOLS, begin + PAGE)
            page: dict[str, Any] = {"tools": [listed(number) for number in range(begin, end)]}
            return {"result": page | ({"nextCursor": str(end)} if end < TOOLS else {})}
        case "ping":
            return {"result": {}}
        case method:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


def listed(number: int) -> dict[str, Any]:
    """A tool as the server tells of it."""
    return {
        "name": tool_name(number),
        "description": description(number),
        "inputSchema": schema(number),
    }


# Reports


def figures_of(taken: dict[str, list[Turn]]) -> dict[str, dict[str, Any]]:
    """Of each variant: in each fifth of the turns, how much later the first word is; memory."""
    found: dict[str, dict[str, Any]] = {}
    for name, turns in taken.items():
        later = []
        for part in range(PARTS):
            mine = median(it.wall for it in turns[part::PARTS])
            plain = median(it.wall for it in taken["plain"][part::PARTS])
            later.append((mine - plain) * 1e3)
        found[name] = {"later ms": later}
        if (rss := asked("memory", name)) is not None:
            found[name]["RSS MB"] = rss
    return found


def table(taken: dict[str, list[Turn]], missing: dict[str, str], *, is_lean: bool) -> None:
    """One row for each variant: the first word, what it is later by, and memory."""
    base = {kind: median(getattr(it, kind) for it in taken["plain"]) for kind in Turn._fields}
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for name in (it for it in VARIANTS if it in taken):
        turns = taken[name]
        wall, cpu = (median(getattr(it, kind) for it in turns) for kind in Turn._fields)
        p90 = quantile((it.wall for it in turns), 0.9)
        rss = heap = None
        if not is_lean:
            rss, heap = asked("memory", name), asked("traced", name)
        numbers = (wall, p90, wall - base["wall"], cpu, cpu - base["cpu"])
        cells = [f"{1e3 * it:.2f}" for it in numbers] + [f"{cpu / base['cpu']:.1f}"]
        cells += ["-" if it is None else f"{it:.1f}" for it in (rss, heap)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        if name == "all":
            verdict(1e3 * numbers[2], rss)
    for name, why in missing.items():
        print(f"missing: {name}: {why}")


def verdict(later: float, rss: float | None) -> None:
    """Whether the targets are met."""
    print(f"^ first token later by {later:.2f} ms, at most {TARGET_MS}: {later <= TARGET_MS}")
    if rss is not None:
        print(f"^ memory {rss:.1f} MB, at most {TARGET_MB}: {rss <= TARGET_MB}")


async def profile(name: str, turns: int) -> None:
    """cProfile of the turns of one variant."""
    async with built(VARIANTS[name]) as runtime:
        for _ in range(5):
            await first_token(runtime)
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(turns):
            await first_token(runtime)
        profiler.disable()
    shown = pstats.Stats(profiler)
    print(f"{name}: {turns} turns, {1e3 * shown.total_tt / turns:.2f} ms a turn (profiled)")  # type: ignore[attr-defined]
    shown.strip_dirs().sort_stats("tottime").print_stats(25)
    shown.sort_stats("cumulative").print_stats(40)


async def build(name: str, rounds: int) -> None:
    """cProfile of building one variant."""
    profiler = cProfile.Profile()
    began = time.perf_counter()
    for _ in range(rounds):
        profiler.enable()
        async with built(VARIANTS[name]):
            profiler.disable()
    print(f"{name}: {(time.perf_counter() - began) / rounds:.2f} s to build")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(25)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", nargs="?", default="table")
    parser.add_argument("name", nargs="?", default="all")
    parser.add_argument("count", nargs="?", type=int, default=50)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--only", help="variants, with commas between them")
    parser.add_argument("--lean", action="store_true", help="no memory")
    parser.add_argument("--json", action="store_true", help="the figures in one line instead")
    parser.add_argument("--sqlite", action="store_true", help="on a file instead of in memory")
    given = parser.parse_args()
    match given.mode:
        case "serve":
            serve()
        case "memory" | "traced":
            print(asyncio.run(memory(given.name, traced=given.mode == "traced")))
        case "imports":
            for module, size in import_all().items():
                print(f"{module}: {size / 1e6:.1f} MB")
        case "profile":
            asyncio.run(profile(given.name, given.count))
        case "build":
            asyncio.run(build(given.name, min(given.count, 5)))
        case _:
            chosen = ["plain", *given.only.split(",")] if given.only else list(VARIANTS)
            taken, missing = asyncio.run(times(chosen, given.turns))
            if given.json:
                print(json.dumps(figures_of(taken)))
            else:
                table(taken, missing, is_lean=given.lean)


if __name__ == "__main__":
    main()
