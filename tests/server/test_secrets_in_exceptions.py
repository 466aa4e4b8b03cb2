"""What tools raise is looked at before anybody reads it: wires, logs, traces, the store."""

import asyncio
import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.extensions.telemetry_world import Telemetry
from tests.sqlite_dump import dump_sqlite

from awaken import Agent, AgentRuntime, ToolContext, ToolError, tool
from awaken.redaction import describe_error, make_loggable
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolDescriptor, ToolEffect

from .in_process import Request

KEY = "AKIAABCDEFGHIJKLMNOP"
PASSWORD = "hunter2-of-the-database"
TOKEN = "ghp_" + "a1B2" * 9
SECRETS = (KEY, PASSWORD, TOKEN)
TEXT = f"cannot log in with {KEY}, password={PASSWORD} and {TOKEN}"


class Client:
    """Shows its key wherever it is shown."""

    def __repr__(self) -> str:
        return f"<Client {TEXT}>"


class Unshowable(Exception):
    """Fails when it is shown."""

    def __str__(self) -> str:
        raise RuntimeError(TEXT)


def _chained() -> None:
    try:
        try:
            raise OSError(TEXT)
        except OSError as error:
            raise ValueError(TEXT) from error
    except ValueError:
        raise RuntimeError(f"failed: {TEXT}")  # noqa: B904 - the context is what is looked at


def _noted() -> None:
    error = RuntimeError("look below")
    error.add_note(TEXT)
    raise error


def _raising(error: Callable[[], BaseException]) -> Callable[[], None]:
    def act() -> None:
        raise error()

    return act


RAISED: dict[str, Callable[[], None]] = {
    "message": _raising(lambda: ValueError(TEXT)),
    "argument": _raising(lambda: KeyError(TEXT)),
    "repr": _raising(lambda: RuntimeError(Client())),
    "several arguments": _raising(lambda: OSError(13, TEXT, "/x")),
    "chain": _chained,
    "note": _noted,
    "group": _raising(lambda: ExceptionGroup(TEXT, [ValueError(TEXT), TypeError(TEXT)])),
    "exit": _raising(lambda: SystemExit(TEXT)),
    "tool error": _raising(lambda: ToolError(TEXT)),
    "unshowable": _raising(Unshowable),
    "long": _raising(lambda: ValueError("x" * 9_990 + TEXT)),
    "half a character": _raising(lambda: ValueError(f"{TEXT} \ud800")),
    "split lines": _raising(lambda: ValueError(f"first\n{TEXT}\nlast")),
}

WIRES: dict[str, tuple[str, Any]] = {
    "native": ("/v1/runs", {"agentId": "a", "messages": [{"role": "user", "content": "go"}]}),
    "ag-ui": (
        "/v1/ag-ui/agents/a/runs",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "go"}]},
    ),
    "ai-sdk": (
        "/v1/ai-sdk/agents/a/runs",
        {
            "threadId": "t",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}],
        },
    ),
    "responses": ("/v1/responses", {"model": "a", "input": "go", "stream": True}),
    "chat": (
        "/v1/chat/completions",
        {"model": "a", "messages": [{"role": "user", "content": "go"}], "stream": True},
    ),
    "a2a": (
        "/v1/a2a/a/message:stream",
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}},
    ),
}


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, as a handler of somebody else writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def agent_of(act: Callable[[], None], model: ScriptedModel) -> Agent:
    @tool(effect="once")
    async def break_it() -> str:
        """Fail."""
        act()
        return ""

    @tool(effect="none")
    def break_in_thread() -> str:
        """Fail in a thread."""
        act()
        return ""

    @tool(effect="none")
    async def break_later(ctx: ToolContext) -> str:
        """Fail in the background."""

        async def work(_: Any) -> str:
            act()
            return ""

        return (await ctx.spawn(work, name="work")).task_id

    return Agent("a", model=model, tools=[break_it, break_in_thread, break_later])


def hits(sinks: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, it) for name, text in sinks.items() for it in SECRETS if it in text]


PAIRS = [
    *((raised, "native") for raised in RAISED),
    *((raised, wire) for wire in WIRES for raised in ("chain", "tool error") if wire != "native"),
]


@pytest.mark.parametrize(("raised", "wire"), PAIRS)
def test_no_secret_of_an_exception_reaches_any_sink(raised: str, wire: str, tmp_path: Path) -> None:
    telemetry, sinks = Telemetry(), dict[str, str]()

    async def scenario() -> None:
        calls = ToolCalls([("break_it", {}), ("break_in_thread", {}), ("break_later", {})])
        model = ScriptedModel([calls, "oh", "oh", "oh"])
        runtime = AgentRuntime(
            [agent_of(RAISED[raised], model)],
            store=f"sqlite:///{tmp_path}/store.db",
            everywhere=[telemetry.plugin(content="span_and_event")],
        )
        async with runtime:
            app = runtime.asgi()
            path, body = WIRES[wire]
            request = Request(app, "POST", path, body=body)
            await asyncio.wait_for(request.task, 20)
            assert request.answer.status == 200, request.answer.body
            sinks["stream"] = request.answer.body.decode()
            for it in ("/metrics", "/v1/runs", "/v1/system/stats"):
                asked = Request(app, "GET", it)
                await asyncio.wait_for(asked.task, 20)
                sinks[it] = asked.answer.body.decode()
            await app.close()
        sinks["model"] = str(model.requests)

    with logged() as stream:
        asyncio.run(scenario())
    sinks["logs"] = stream.getvalue()
    sinks["traces"] = "".join(it.to_json() for it in telemetry.spans) + str(telemetry.events)
    sinks["store"] = dump_sqlite(tmp_path / "store.db").decode("utf-8", "replace")
    assert "break_it" in sinks["model"]
    assert hits(sinks) == []


def test_the_type_and_the_place_of_an_error_are_still_told() -> None:
    with pytest.raises(RuntimeError) as raised:
        _chained()
    told = describe_error(raised.value)
    assert told.startswith("RuntimeError: failed: cannot log in with [secrets")
    shown = make_loggable(raised.value)
    formatter = logging.Formatter()
    text = formatter.formatException((type(shown), shown, shown.__traceback__))
    assert "in _chained" in text
    assert "OSError: cannot log in with" in text
    assert "direct cause" in text
    assert not any(it in text for it in SECRETS)


def test_a_validator_that_quotes_what_it_refuses_tells_no_secret() -> None:
    class Picky:
        descriptor = ToolDescriptor(id="picky", effect=ToolEffect.NONE)

        def validate(self, arguments: Any) -> Any:
            raise ValueError(TEXT)

        async def execute(self, arguments: Any, context: Any) -> Any:
            raise AssertionError

    async def scenario() -> str:
        model = ScriptedModel([ToolCalls([("picky", {})]), "oh"])
        async with AgentRuntime([Agent("a", model=model, tools=[Picky()])]) as runtime:
            await runtime.run("a", "go")
        return str(model.requests)

    with logged() as stream:
        asked = asyncio.run(scenario())
    assert "Invalid arguments: cannot log in" in asked
    assert hits({"model": asked, "logs": stream.getvalue()}) == []


def test_what_a_plugin_or_a_provider_raises_tells_no_secret() -> None:
    async def scenario() -> str:
        model = ScriptedModel([RuntimeError(TEXT)])
        agent = Agent("a", model=model, config={"retry": {"max_retries": 0}})
        async with AgentRuntime([agent]) as runtime:
            app = runtime.asgi()
            path, body = WIRES["native"]
            request = Request(app, "POST", path, body=body)
            await asyncio.wait_for(request.task, 20)
            return request.answer.body.decode()

    with logged() as stream:
        told = asyncio.run(scenario())
    assert "run_finish" in told
    assert hits({"stream": told, "logs": stream.getvalue()}) == []
