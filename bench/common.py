"""Shared by every adapter: the scripted model, the tools, the neutral history, the interface.

The scripted model is a `Script`. The harness puts one into the `SCRIPT` context variable before
each run; an adapter's model awaits `turn()` and converts the returned `Turn` to its own types.
So every framework gets the same decisions, and only the framework's own work differs.
"""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

SYSTEM = "You are a helpful assistant. Use the tools when they help."
ANSWER = "The answer is ready; every tool call returned what was expected."
_run_ids = itertools.count()


@dataclass(slots=True)
class Call:
    """One tool call the model asks for; `json` is `args` as the model would send them."""

    id: str
    name: str
    args: dict[str, Any]
    json: str


@dataclass(slots=True)
class Turn:
    """What the model says: a text, or tool calls, or a text cut into deltas."""

    text: str | None
    calls: list[Call] = field(default_factory=list)
    deltas: list[str] | None = None


@dataclass(slots=True)
class Script:
    """The model's part in one run. Positional order matters: see `prompt` and fake_openai.py."""

    rounds: int = 0  # tool rounds before the answer
    fanout: int = 1  # tool calls per round
    tool: str = "add"  # which tool is called
    delay: float = 0.0  # seconds awaited in each model call
    deltas: int = 1  # pieces the answer is streamed in
    gap: float = 0.0  # seconds awaited between deltas
    step: int = 0  # model calls made so far
    seen: int = 0  # messages the framework handed to the model in the last call
    run_id: int = field(default_factory=_run_ids.__next__)

    def next(self) -> Turn:
        """Play the next model call."""
        step, self.step = self.step, self.step + 1
        if step >= self.rounds:
            if self.deltas > 1:
                return Turn(None, [], [f"word{i % 10} " for i in range(self.deltas)])
            return Turn(ANSWER)
        calls = []
        for i in range(self.fanout):
            args = tool_args(self.tool, step, i)
            calls.append(Call(f"call_{self.run_id}_{step}_{i}", self.tool, args, json.dumps(args)))
        return Turn(None, calls)

    def prompt(self) -> str:
        """The user's text; its mark lets the fake HTTP server play the same script."""
        mark = f"{self.rounds},{self.fanout},{self.tool},{self.delay},{self.deltas},{self.gap}"
        return f"[[{mark}]] Please do the sums and tell me the result."


def tool_args(tool: str, step: int, index: int) -> dict[str, Any]:
    """Arguments for the index-th call of a round."""
    if tool == "add":
        return {"a": step, "b": index}
    if tool == "nap":
        return {"ms": 10, "tag": f"{step}.{index}"}
    return {"text": f"step {step} item {index}"}


SCRIPT: ContextVar[Script | None] = ContextVar("script", default=None)


def _of_server() -> Script:
    """What servers play, where no harness is in the process: `BENCH_SCRIPT=deltas,gap,delay`."""
    deltas, gap, delay = (os.environ.get("BENCH_SCRIPT") or "1,0,0").split(",")
    return Script(deltas=int(deltas), gap=float(gap), delay=float(delay))


def current() -> Script:
    """The script of the run in this context, else a bare one of one answer."""
    return SCRIPT.get() or _of_server()


async def turn(seen: int = 0) -> Turn:
    """One model call, not streamed. `seen` is the number of messages the model was given."""
    script = current()
    script.seen = seen
    if script.delay:
        await asyncio.sleep(script.delay)
    answer = script.next()
    if answer.deltas is not None:
        answer.text = "".join(answer.deltas)
    return answer


async def stream_turn(seen: int = 0) -> AsyncIterator[str | list[Call]]:
    """One model call, streamed: yields text deltas, or one list of calls."""
    script = current()
    script.seen = seen
    if script.delay:
        await asyncio.sleep(script.delay)
    answer = script.next()
    if answer.calls:
        yield answer.calls
    elif answer.deltas is None:
        yield answer.text or ""
    else:
        for i, delta in enumerate(answer.deltas):
            if script.gap and i:
                await asyncio.sleep(script.gap)
            yield delta


# ---- the tools: no-ops, apart from nap ----
# Real annotations, not strings (no `from __future__ import annotations` here): frameworks that
# look at signatures in every call would pay for evaluating them.


async def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: first integer
        b: second integer
    """
    return a + b


async def echo(text: str) -> str:
    """Return the text unchanged.

    Args:
        text: the text
    """
    return text


async def nap(ms: int, tag: str) -> str:
    """Sleep for some milliseconds.

    Args:
        ms: milliseconds
        tag: a label
    """
    await asyncio.sleep(ms / 1000)
    return "rested"


TOOLS = (add, echo, nap)


def _schema(name: str, description: str, **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOL_SCHEMAS = [
    _schema("add", "Add two integers.", a="integer", b="integer"),
    _schema("echo", "Return the text unchanged.", text="string"),
    _schema("nap", "Sleep.", ms="integer", tag="string"),
]

# ---- history: cycles of user / assistant with a tool call / tool result / assistant text ----

USER = (
    "Please look up item number {i} for me, add the two figures you find there, "
    "and say what the total is and why."
)
REPLY = (
    "For item {i} the two figures were found in the record and added with the tool. "
    "The total is {i}. I checked it twice, and there is nothing else in the record "
    "that would change the result."
)


def neutral_history(count: int) -> list[tuple[str, ...]]:
    """`count` messages, each one of

    ("user", text), ("call", id, name, args_json), ("tool", id, name, result), ("assistant", text).
    """
    messages: list[tuple[str, ...]] = []
    for i in range(count // 4):
        call_id = f"hist_{i}"
        messages += [
            ("user", USER.format(i=i)),
            ("call", call_id, "add", json.dumps({"a": i, "b": 0})),
            ("tool", call_id, "add", str(i)),
            ("assistant", REPLY.format(i=i)),
        ]
    return messages


class Adapter:
    """What the harness needs of a framework; see README.md.

    A method that is left out raises NotImplementedError: that workload is skipped.
    """

    name = "?"  # shown in tables
    packages: tuple[str, ...] = ()  # distributions whose versions are reported
    modes: tuple[str, ...] = ("inproc", "http")
    store: str | None = None  # words about the store used by the persist suite
    note = ""

    def __init__(self, mode: str, base_url: str) -> None:
        self.mode, self.base_url = mode, base_url

    async def setup(self) -> None:
        """Build two agents: one without tools, one with TOOLS."""

    async def run(self, prompt: str, tools: bool) -> str:
        """W1, W2, W3, W5: one run on a fresh conversation; returns the final text."""
        raise NotImplementedError

    async def stream(self, prompt: str) -> tuple[int, int]:
        """W6: one turn through the public streaming API; returns (deltas, characters)."""
        raise NotImplementedError

    def history(self, messages: list[tuple[str, ...]]) -> Any:
        """W4: convert neutral messages to the framework's own, once and untimed."""
        raise NotImplementedError

    async def fresh(self, native: Any) -> Any:
        """W4: what `run_on` gets, made before each run, untimed."""
        return native

    async def run_on(self, native: Any, prompt: str) -> str:
        """W4: one turn on that history, with tools; returns the final text."""
        raise NotImplementedError

    async def open_store(self, path: str) -> None:
        """Persist: open a store; the path of every file must start with `path`."""
        raise NotImplementedError

    async def stored_turn(self, thread: str, prompt: str) -> str:
        """Persist: load the thread, run, save. No history may be kept by the adapter."""
        raise NotImplementedError

    async def store_io(self) -> tuple[int, int] | None:
        """(bytes written so far, bytes stored), only for a store that is not local files."""
        return None

    async def close_store(self) -> None:
        """Close what `open_store` opened."""
