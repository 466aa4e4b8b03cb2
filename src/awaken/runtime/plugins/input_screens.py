"""Screening of all input to a run: messages of every role, decisions, tools, schemas, contexts.

Every input path goes through here. Input that is not a message is passed to the message screens
text by text, as user messages, so that a screen sees it wherever a protocol puts it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import PluginFailed
from awaken.contracts.messages.message import Message, ToolCall, user
from awaken.contracts.plugins.screens import BlockedInput
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tools.tool import ToolDescriptor

from .environment import ExecutionEnv

DEPTH_MAX = 200
TOO_DEEP = "it is nested too deeply to be screened"
BAD_NAME = "a check rejects the name of a tool or a call"
WITHOUT_NAME = "blocked"


class Look:
    """Screens one input; keeps the reason of the first block.

    Raises:
        PluginFailed: A screen failed; the unscreened input must not be kept.
    """

    __slots__ = ("_env", "blocked")

    def __init__(self, env: ExecutionEnv) -> None:
        self._env = env
        self.blocked: str | None = None

    def message(self, message: Message) -> Message:
        """The screened message, including the arguments of its tool calls."""
        for plugin, screen in self._env.message_screens:
            message = self._screen_message(plugin, screen, message)
        if not message.tool_calls:
            return message
        calls = tuple(map(self._call, message.tool_calls))
        return msgspec.structs.replace(message, tool_calls=calls)

    def value(self, value: Any, depth: int = 0) -> Any:
        """The screened JSON value; field names are screened, too."""
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
        """The screened decision: its result, its reason and edited arguments."""
        return msgspec.structs.replace(
            decision,
            result=self.value(decision.result),
            reason=self.value(decision.reason),
            arguments=self.value(decision.arguments),
        )

    def tool(self, tool: ToolDescriptor) -> ToolDescriptor:
        """The screened tool of a client; a tool whose name a screen changes is blocked."""
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
        """Screen a name that is used as a reference: it cannot be changed, only blocked."""
        if self._text(name) == name:
            return name
        self.blocked = self.blocked or BAD_NAME
        return WITHOUT_NAME

    def _text(self, text: str) -> str:
        return self.message(user(text)).text if text else text

    def _screen_message(self, plugin: str, screen: Any, message: Message) -> Message:
        try:
            found = screen(self._env.prepared.get(plugin), message)
        except BaseException as error:
            if is_interruption(error):
                raise
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
    """The screened messages, and why they block the run that receives them."""

    messages: tuple[Message, ...]
    blocked: str | None = None


def look_at_messages(env: ExecutionEnv, messages: Iterable[Message]) -> Seen:
    """Screen messages from outside.

    Raises:
        PluginFailed: A screen failed; the unscreened messages must not be kept.
    """
    if not env.message_screens:
        return Seen(tuple(messages))
    look = Look(env)
    return Seen(tuple(map(look.message, messages)), look.blocked)


def look_at_message(env: ExecutionEnv, message: Message) -> Message:
    """Screen one message from outside, and return the screened message.

    Raises:
        PluginFailed: A screen failed.
    """
    return look_at_messages(env, (message,)).messages[0]


def look_at_decision(
    env: ExecutionEnv, decision: ToolCallResume
) -> tuple[ToolCallResume, str | None]:
    """Screen a decision; returns the screened decision, and why it blocks the run.

    Raises:
        PluginFailed: A screen failed; the unscreened decision must not be kept.
    """
    if not env.message_screens:
        return decision, None
    look = Look(env)
    return look.decision(decision), look.blocked


def look_at_options(env: ExecutionEnv, request: RunRequest) -> RunRequest:
    """Screen the tools, the output schema and the context of a request: models may read them all.

    Raises:
        PluginFailed: A screen failed; the unscreened request must not be kept.
    """
    if not env.message_screens:
        return request
    if not request.frontend_tools and request.output_schema is request.context is None:
        return request
    look = Look(env)
    tools = tuple(map(look.tool, request.frontend_tools))
    schema = look.value(request.output_schema)
    return msgspec.structs.replace(
        request,
        frontend_tools=tools,
        output_schema=schema,
        context=look.value(request.context),
        blocked=request.blocked or look.blocked,
    )
