"""How a hostile MCP server answers: the pieces that its behaviours are made of."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .hostile_mcp import (
    LATEST,
    Asked,
    Reply,
    answer,
    call_tool,
    note,
    said,
    tool,
)

BOTH, STDIO_ONLY, HTTP_ONLY = ("stdio", "http"), ("stdio",), ("http",)
FINE, ERROR, MISSING, ANY = "fine", "error", "missing", "any"
LONG = b"x" * 65536
FLOOD = 20_000


@dataclass(frozen=True)
class Case:
    """One behaviour: what the tool call of the run comes to, and how the server shows."""

    name: str
    replies: Mapping[str, Reply]
    ends: str
    """`fine`: it is answered. `error`: a typed tool error. `missing`: there is no such tool."""
    is_healthy: bool | None = None
    """How the server shows after the call; None where either will do."""
    over: tuple[str, ...] = BOTH
    says: str = ""
    """What the result has to say, as a regular expression."""
    is_heavy: bool = False
    """Whether it keeps a processor busy."""
    is_patient: bool = False
    """Whether it has to fail by itself, and not because nobody waits any longer."""


def result(value: Any) -> Reply:
    """The value that was asked for."""
    return lambda asked: asked.result(value)


def error(code: Any, text: Any) -> Reply:
    """A refusal."""
    return lambda asked: asked.error(code, text)


def raw(*pieces: bytes) -> Reply:
    """Bytes in the place of messages."""
    return lambda asked: asked.wire.raw(*pieces)


def message(text: str) -> Reply:
    """One message whose text is given, with the id of the request in the place of `$id`."""

    async def reply(asked: Asked) -> None:
        line = text.replace("$id", json.dumps(asked.id)).encode()
        framed = line + b"\n" if asked.wire.is_stdio else b"data: " + line + b"\n\n"
        await asked.wire.raw(framed)

    return reply


def first(*messages: Any, then: Reply) -> Reply:
    """Messages, and then the answer."""

    async def reply(asked: Asked) -> None:
        await asked.wire.send(*messages)
        await then(asked)

    return reply


def first_raw(junk: bytes, then: Reply) -> Reply:
    """Bytes, and then the answer."""

    async def reply(asked: Asked) -> None:
        await asked.wire.raw(junk)
        await then(asked)

    return reply


def flood(*messages: Any, then: Reply, times: int = FLOOD) -> Reply:
    """The same messages over and over, and then the answer."""

    async def reply(asked: Asked) -> None:
        for _ in range(times // 500):
            await asked.wire.send(*(messages * 500)[:500])
        await then(asked)

    return reply


def endless(piece: bytes) -> Reply:
    """The same bytes for ever."""

    async def reply(asked: Asked) -> None:
        while True:
            await asked.wire.raw(piece)

    return reply


def endless_messages(value: Any) -> Reply:
    """The same message for ever."""

    async def reply(asked: Asked) -> None:
        while True:
            await asked.wire.send(*[value] * 500)

    return reply


def bare(*pieces: bytes) -> Reply:
    """These bytes in the place of a whole HTTP answer, and the end of the connection."""

    async def reply(asked: Asked) -> None:
        await asked.wire.bare(*pieces)
        asked.wire.writer.close()

    return reply


def endlessly_bare(begin: bytes, piece: bytes, every_s: float = 0) -> Reply:
    """A beginning in the place of an HTTP answer, and then the same for ever."""

    async def reply(asked: Asked) -> None:
        await asked.wire.bare(begin)
        while not asked.wire.writer.is_closing():
            await asked.wire.bare(piece)
            await asyncio.sleep(every_s)

    return reply


def turns(*replies: Reply) -> Reply:
    """One after the other; the last one stays."""
    return lambda asked: replies[min(asked.count, len(replies)) - 1](asked)


def listed(*tools: Any, **more: Any) -> Reply:
    """A list of tools."""
    return result({"tools": list(tools), **more})


def made(make: Callable[[], Reply]) -> Reply:
    """An answer that is costly to make, when it is asked for."""
    return lambda asked: make()(asked)


async def hang(asked: Asked) -> None:
    """No answer at all."""
    await asked.wire.hang()


async def die(asked: Asked) -> None:
    """The end of the server."""
    asked.wire.die()


async def huge_answer(asked: Asked) -> None:
    """A valid answer of fifty megabytes, in pieces."""
    prefix = b"" if asked.wire.is_stdio else b"data: "
    begin = json.dumps(answer(asked.id, said("$"))).encode().split(b"$")
    await asked.wire.raw(prefix + begin[0], *[LONG] * 800, begin[1] + b"\n\n")


async def greet_twice(asked: Asked) -> None:
    """The greeting, and another one with fewer rights."""
    hello = {
        "protocolVersion": LATEST,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "h", "version": "1"},
    }
    await asked.wire.send(answer(asked.id, hello))
    await asked.result({**hello, "capabilities": {}})


async def with_resources(asked: Asked) -> None:
    """A server that has resources, too."""
    await asked.result(
        {
            "protocolVersion": LATEST,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "h", "version": "1"},
        }
    )


async def half_and_die(asked: Asked) -> None:
    """Half an answer."""
    await asked.wire.raw(b'data: {"jsonrpc":"2.0","id":')
    asked.wire.die()


async def wrong_id(asked: Asked) -> None:
    """An answer to something else."""
    await asked.wire.send(answer(987_654, said("wrong")))
    await asked.wire.hang()


async def text_id(asked: Asked) -> None:
    """The right id, as a text with a blank."""
    await asked.wire.send(answer(f" {asked.id}", said("wrong")))
    await asked.wire.hang()


async def answer_twice(asked: Asked) -> None:
    """Two answers that differ."""
    await asked.wire.send(answer(asked.id, said("did it")))
    await asked.result(said("did something else"))


async def hold(asked: Asked) -> None:
    """Keep the call."""
    asked.state.held[asked.id] = asked
    await asked.wire.hang()


async def release(asked: Asked) -> None:
    """Answer the call that was cancelled."""
    held = asked.state.held.pop(asked.params.get("requestId"), None)
    if held is not None:
        with suppress(ConnectionError):
            await held.wire.send(answer(held.id, said("too late")))
    await asked.wire.answer(None)


async def own_progress(asked: Asked) -> None:
    """Progress without end, and then the answer."""
    token = (asked.params.get("_meta") or {}).get("progressToken", 0)
    for begin in range(0, FLOOD, 500):
        await asked.wire.send(
            *(
                note("notifications/progress", progressToken=token, progress=it, message="m" * 100)
                for it in range(begin, begin + 500)
            )
        )
    await call_tool(asked)


def progress_of(value: Any) -> Reply:
    """Progress of the call with this value."""

    async def reply(asked: Asked) -> None:
        token = (asked.params.get("_meta") or {}).get("progressToken", 0)
        await asked.wire.send(note("notifications/progress", progressToken=token, progress=value))
        await call_tool(asked)

    return reply


async def cancel_ours(asked: Asked) -> None:
    """The server takes the client's part."""
    await asked.wire.send(note("notifications/cancelled", requestId=asked.id))
    await call_tool(asked)


def nested(depth: int) -> Any:
    """A schema of that depth."""
    schema: Any = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


async def next_page(asked: Asked) -> None:
    """A page with one tool, and always one more."""
    await asked.result({"tools": [tool(f"t{asked.count}")], "nextCursor": f"c{asked.count}"})


def redirect(status: int) -> Reply:
    """A redirect that leaves the origin."""
    return lambda asked: asked.wire.whole(b"", status, location=asked.wire.server.elsewhere)


async def login_elsewhere(asked: Asked) -> None:
    """A challenge whose metadata is on another server."""
    place = asked.wire.server.elsewhere
    await asked.wire.whole(b"", 401, www_authenticate=f'Bearer resource_metadata="{place}"')


def with_session(name: str) -> Reply:
    """A greeting with a session."""

    async def reply(asked: Asked) -> None:
        hello = {
            "protocolVersion": LATEST,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "h", "version": "1"},
        }
        body = json.dumps(answer(asked.id, hello)).encode()
        await asked.wire.whole(body, **{"mcp-session-id": name})

    return reply
