"""The tools that the MCP conformance suite calls, as agents.

The suite calls tools with arguments of their own. Ours take one message, so the app puts the
arguments into the message on their way in; nothing else is changed.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.errors import InvalidRequest
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls

Schema = dict[str, Any]
Question = tuple[str, str, Schema]
"""Its name, what is asked, and the form."""

SLOW_S = 1.5
"""Longer than a server that makes tasks has patience."""


def profile() -> AgentRuntime:
    """A runtime with every agent that the suite asks for."""
    name = ("user_name", "What is your name?", form(name={"type": "string"}))
    agents = [
        saying("test_simple_text", "This is a simple text response for testing."),
        failing("test_error_handling", "This tool intentionally returns an error for testing"),
        busy("test_tool_with_progress"),
        busy("test_tool_with_logging"),
        busy("test_logging_tool"),
        asking("test_streaming_elicitation", [[name]]),
        asking("test_elicitation", [[("", "Please tell", CONTACT)]]),
        asking("test_elicitation_sep1034_defaults", [[("", "Please check", DEFAULTS)]]),
        asking("test_elicitation_sep1330_enums", [[("", "Please choose", ENUMS)]]),
        asking("test_input_required_result_elicitation", [[name]]),
        asking("test_input_required_result_request_state", [[CONFIRM]], "state-ok"),
        asking("test_input_required_result_tampered_state", [[CONFIRM]]),
        asking("test_input_required_result_capabilities", [[name]]),
        asking(
            "test_input_required_result_multi_round",
            [
                [("step1", "Step 1: What is your name?", form(name={"type": "string"}))],
                [("step2", "Step 2: Which color?", form(color={"type": "string"}))],
            ],
        ),
        greeting("greet"),
        slow("slow_compute"),
        failing("failing_job", "no luck", after_s=SLOW_S),
        failing("protocol_error_job", "a bug", RuntimeError, after_s=SLOW_S),
        asking(
            "confirm_delete", [[("", "Sure?", form(confirm={"type": "boolean"}))]], after_s=SLOW_S
        ),
        asking("multi_input", [[both("first"), both("second")]], after_s=SLOW_S),
        asking("test_tool_with_task", [[name]], then_s=SLOW_S),
    ]
    return AgentRuntime(agents)


def form(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields)}


def both(name: str) -> Question:
    return name, f"{name}?", form(name={"type": "string"}, confirm={"type": "boolean"})


CONFIRM: Question = ("confirm", "Please confirm", form(ok={"type": "boolean"}))
SURE = form(confirm={"type": "boolean"})
CONTACT = form(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)
DEFAULTS: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
_TITLED = [{"const": f"value{it}", "title": f"Option {it}"} for it in (1, 2, 3)]
_PLAIN = ["option1", "option2", "option3"]
ENUMS: Schema = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _PLAIN},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
    "required": [],
}


def saying(name: str, text: str) -> Agent:
    return Agent(name, model=ScriptedModel([text], cycle=True))


def failing(
    name: str, text: str, kind: type[BaseException] = InvalidRequest, *, after_s: float = 0
) -> Agent:
    async def fail(_: InferenceRequest) -> BaseException:
        await asyncio.sleep(after_s)
        return kind(text)

    return Agent(name, model=ScriptedModel([fail], cycle=True))


def busy(name: str) -> Agent:
    @tool
    async def work() -> str:
        await asyncio.sleep(0.05)
        return "worked"

    return Agent(
        name, model=ScriptedModel([ToolCalls([("work", {})]), "Done."], cycle=True), tools=[work]
    )


def greeting(name: str) -> Agent:
    def greet(request: InferenceRequest) -> str:
        return f"Hello, {arguments(request)['name']}!"

    return Agent(name, model=ScriptedModel([greet], cycle=True))


def slow(name: str) -> Agent:
    async def compute(request: InferenceRequest) -> str:
        seconds = arguments(request)["seconds"]
        await asyncio.sleep(seconds + SLOW_S if seconds else 0)
        return "Computed."

    return Agent(name, model=ScriptedModel([compute], cycle=True))


def asking(
    name: str,
    rounds: Sequence[Sequence[Question]],
    last: str = "Hello",
    *,
    after_s: float = 0,
    then_s: float = 0,
) -> Agent:
    """An agent that asks, round by round, and then says what it was told."""
    known = {(it[0] or it[1]): it for questions in rounds for it in questions}

    @tool
    async def ask(key: str, ctx: ToolContext) -> Any:
        if ctx.resume is not None:
            return json.dumps(ctx.resume.result)
        own_name, message, schema = known[key]
        return ctx.suspend(message, response_schema=schema, suspension_id=own_name)

    def answer(request: InferenceRequest) -> Any:
        done = sum(message.role == "assistant" for message in request.messages)
        if done < len(rounds):
            return ToolCalls([("ask", {"key": it[0] or it[1]}) for it in rounds[done]])
        told = [message.text for message in request.messages if message.role == "tool"]
        return f"{last}: {' '.join(told)}"

    async def speak(request: InferenceRequest) -> Any:
        is_first = not any(message.role == "assistant" for message in request.messages)
        await asyncio.sleep(after_s if is_first else then_s)
        return answer(request)

    return Agent(name, model=ScriptedModel([speak], cycle=True), tools=[ask])


def arguments(request: InferenceRequest) -> Any:
    """What the suite called the tool with."""
    return json.loads(next(it.text for it in request.messages if it.role == "user"))


def with_messages(app: Callable[..., Any]) -> Callable[..., Any]:
    """An app that takes the suite's arguments."""

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        changed = _with_message(bytes(body))
        headers = [it for it in scope["headers"] if it[0] != b"content-length"]
        headers.append((b"content-length", str(len(changed)).encode()))
        pending = [{"type": "http.request", "body": changed, "more_body": False}]

        async def replayed() -> Any:
            return pending.pop() if pending else await receive()

        await app({**scope, "headers": headers}, replayed, send)

    return wrapped


def _with_message(body: bytes) -> bytes:
    try:
        request = json.loads(body)
        if request["method"] != "tools/call":
            return body
        given = request["params"].get("arguments") or {}
        request["params"]["arguments"] = {"message": json.dumps(given)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return body
    return json.dumps(request).encode()
