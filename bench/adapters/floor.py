"""A realistic floor: what a lean typed runtime would do.

Slotted dataclass messages, argument validation by pydantic-core, every step emitted to a listener
as a typed event, tool errors caught, append-only storage committed at every step.
"""

import asyncio
import inspect
import json
import sqlite3
from dataclasses import dataclass

from pydantic import create_model

from adapters.plain import CREATE
from common import SYSTEM, TOOLS, Adapter, stream_turn, turn


@dataclass(slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Message:
    role: str
    content: str | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(slots=True)
class Event:
    kind: str
    data: object = None


def compiled(function):
    """A tool and its compiled argument validator."""
    parameters = inspect.signature(function).parameters
    fields = {name: (parameter.annotation, ...) for name, parameter in parameters.items()}
    return function, create_model(function.__name__, **fields).__pydantic_validator__


COMPILED = {function.__name__: compiled(function) for function in TOOLS}


async def call_tool(call, emit):
    emit(Event("tool_start", call))
    try:
        function, validator = COMPILED[call.name]
        result = str(await function(**validator.validate_json(call.arguments).__dict__))
    except Exception as error:
        result = f"error: {error}"
    message = Message("tool", result, (), call.id)
    emit(Event("tool_end", message))
    return message


async def loop(messages, emit):
    """Run to the final answer; appends to messages."""
    emit(Event("run_start"))
    while True:
        emit(Event("model_start"))
        answer = await turn(len(messages))
        calls = tuple(ToolCall(call.id, call.name, call.json) for call in answer.calls)
        message = Message("assistant", answer.text, calls)
        messages.append(message)
        emit(Event("model_end", message))
        if not calls:
            emit(Event("run_end", message))
            return message.content
        if len(calls) == 1:
            messages.append(await call_tool(calls[0], emit))
        else:
            messages.extend(await asyncio.gather(*[call_tool(call, emit) for call in calls]))


def encode(message):
    calls = [[call.id, call.name, call.arguments] for call in message.calls]
    return json.dumps([message.role, message.content, calls, message.call_id])


def decode(body):
    role, content, calls, call_id = json.loads(body)
    return Message(role, content, tuple(ToolCall(*call) for call in calls), call_id)


class Floor(Adapter):
    name = "floor(typed)"
    packages = ("pydantic",)
    modes = ("inproc",)
    store = "sqlite3, one row per message, WAL, commit after every step"

    async def run(self, prompt, tools):
        events = []
        return await loop([Message("system", SYSTEM), Message("user", prompt)], events.append)

    async def stream(self, prompt):
        queue = asyncio.Queue()

        async def produce():
            async for delta in stream_turn():
                queue.put_nowait(Event("delta", delta))
            queue.put_nowait(None)

        producer = asyncio.create_task(produce())
        count = size = 0
        while (event := await queue.get()) is not None:
            count += 1
            size += len(event.data)
        await producer
        return count, size

    def history(self, messages):
        native = [Message("system", SYSTEM)]
        for kind, *rest in messages:
            if kind == "call":
                native.append(Message("assistant", None, (ToolCall(*rest),)))
            elif kind == "tool":
                native.append(Message("tool", rest[2], (), rest[0]))
            else:
                native.append(Message(kind, rest[0]))
        return native

    async def run_on(self, native, prompt):
        events = []
        return await loop([*native, Message("user", prompt)], events.append)

    async def open_store(self, path):
        self.db = sqlite3.connect(path + ".db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute(CREATE)

    async def stored_turn(self, thread, prompt):
        query = "SELECT body FROM m WHERE thread=? ORDER BY seq"
        rows = self.db.execute(query, (thread,))
        messages = [Message("system", SYSTEM), *(decode(body) for (body,) in rows)]
        saved = len(messages)
        messages.append(Message("user", prompt))

        def emit(event):
            nonlocal saved
            if event.kind in ("model_end", "run_end") and saved < len(messages):
                new = [(thread, saved + i, encode(m)) for i, m in enumerate(messages[saved:])]
                self.db.execute("BEGIN")
                self.db.executemany("INSERT INTO m VALUES(?,?,?)", new)
                self.db.execute("COMMIT")
                saved = len(messages)

        return await loop(messages, emit)

    async def close_store(self):
        self.db.close()


ADAPTER = Floor
