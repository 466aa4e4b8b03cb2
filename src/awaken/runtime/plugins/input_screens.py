"""Screening what enters a run from outside: messages of every role, decisions, tools, schemas.

Every way in goes through here. What is no message is shown to the message screens text by text, as
if the user had said it, so that a screen sees it wherever a protocol puts it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from awaken.contracts.errors import PluginFailed
from awaken.contracts.messages.message import Message, ToolCall, user
from awaken.contracts.plugins.screens import BlockedInput
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tools.tool import ToolDescriptor

from .environment import ExecutionEnv

DEPTH_MAX = 200
TOO_DEEP = "it is nested too deep to be looked at"
BAD_NAME = "a check objects to the name of a tool or a call"
WITHOUT_NAME = "blocked"


class Look:
    """One look at something from outside; remembers why the first thing in it was blocked.

    Raises:
        PluginFailed: A screen failed; what it looked at may not be kept as it was.
    """

    __slots__ = ("_env", "blocked")

    def __init__(self, env: ExecutionEnv) -> None:
        self._env = env
        self.blocked: str | None = None

    def message(self, message: Message) -> Message:
        """A message as its screens leave it, with the arguments of calls that it claims."""
        for plugin, screen in self._env.message_screens:
            message = self._screen_message(plugin, screen, message)
        if not message.tool_calls:
            return message
        calls = tuple(map(self._call, message.tool_calls))
        return msgspec.structs.replace(message, tool_calls=calls)

    def value(self, value: Any, depth: int = 0) -> Any:
        """JSON as the screens leave it; names of fields are looked at, too."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str | int | float):
            shown = str(value)
            return value if (text := self._text(shown)) == shown else text
        if depth >= DEPTH_MAX:
            self.blocked = self.blocked or TOO_DEEP
            return TOO_DEEP
        if isinstance(value, dict):
            return {self._text(str(k)): self.value(it, depth + 1) for k, it in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(it, depth + 1) for it in value]
        return self.value(msgspec.to_builtins(value), depth + 1)

    def decision(self, decision: ToolCallResume) -> ToolCallResume:
        """A decision as the screens leave it: its result, its reason and edited arguments."""
        return msgspec.structs.replace(
            decision,
            result=self.value(decision.result),
            reason=self.value(decision.reason),
            arguments=self.value(decision.arguments),
        )

    def tool(self, tool: ToolDescriptor) -> ToolDescriptor:
        """A client's tool as the screens leave it; one whose name they change is blocked."""
        return msgspec.structs.replace(
            tool,
            id=self._name(tool.id),
            name=self._text(tool.name),
            description=self._text(tool.description),
            parameters=self.value(tool.parameters),
        )

    def _call(self, call: ToolCall) -> ToolCall:
        return msgspec.structs.replace(
            call,
            id=self._name(call.id),
            name=self._name(call.name),
            arguments=self.value(call.arguments),
        )

    def _name(self, name: str) -> str:
        """A name that other things go by: it cannot be changed, only blocked."""
        if self._text(name) == name:
            return name
        self.blocked = self.blocked or BAD_NAME
        return WITHOUT_NAME

    def _text(self, text: str) -> str:
        return self.message(user(text)).text if text else text

    def _screen_message(self, plugin: str, screen: Any, message: Message) -> Message:
        try:
            found = screen(self._env.prepared.get(plugin), message)
        except Exception as error:
            problem = f"raised {type(error).__name__}"
            raise PluginFailed(what="A message screen", plugin=plugin, problem=problem) from error
        if isinstance(found, BlockedInput):
            self.blocked = self.blocked or found.reason
            found = found.message
        if not isinstance(found, Message):
            problem = f"returned {type(found).__name__}; return the message"
            raise PluginFailed(what="A message screen", plugin=plugin, problem=problem)
        return found


class Seen(NamedTuple):
    """Messages as their screens leave them, and why they block the run that takes them in."""

    messages: tuple[Message, ...]
    blocked: str | None = None


def look_at_messages(env: ExecutionEnv, messages: Iterable[Message]) -> Seen:
    """Show messages from outside to the screens.

    Raises:
        PluginFailed: A screen failed; nothing may be kept as it was.
    """
    if not env.message_screens:
        return Seen(tuple(messages))
    look = Look(env)
    return Seen(tuple(map(look.message, messages)), look.blocked)


def look_at_message(env: ExecutionEnv, message: Message) -> Message:
    """Show one message to the screens, and return it as they leave it.

    Raises:
        PluginFailed: A screen failed.
    """
    return look_at_messages(env, (message,)).messages[0]


def look_at_decision(
    env: ExecutionEnv, decision: ToolCallResume
) -> tuple[ToolCallResume, str | None]:
    """Show a decision to the screens; returns it as they leave it, and why it blocks the run.

    Raises:
        PluginFailed: A screen failed; the decision may not be kept as it was.
    """
    if not env.message_screens:
        return decision, None
    look = Look(env)
    return look.decision(decision), look.blocked


def look_at_options(env: ExecutionEnv, request: RunRequest) -> RunRequest:
    """Show the tools and the form of the answer that a client brings: models read both.

    Raises:
        PluginFailed: A screen failed; the request may not be kept as it was.
    """
    if not env.message_screens:
        return request
    if not request.frontend_tools and request.output_schema is None:
        return request
    look = Look(env)
    tools = tuple(map(look.tool, request.frontend_tools))
    schema = look.value(request.output_schema)
    return msgspec.structs.replace(
        request,
        frontend_tools=tools,
        output_schema=schema,
        blocked=request.blocked or look.blocked,
    )
