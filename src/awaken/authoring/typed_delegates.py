"""Agents as tools with arguments of their own, whose answer is a value."""

import string
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import msgspec

from awaken.contracts.backends.errors import ExecutionBackendError
from awaken.contracts.errors import InvalidSpec, UsageError
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tasks import SUB_AGENT, TaskInfo
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation
from awaken.contracts.tools.tool import (
    ToolDescriptor,
    ToolEffect,
    ToolInternalError,
    ToolKind,
)

from .delegates import TIMEOUT_SECONDS, ask_delegate, delegate_tool_id, description_of
from .foreign_calls import call_function
from .functions import approve_always
from .results import to_json_form
from .typed_tools import TypedTool, object_schema


class NamedAgent(Protocol):
    """An agent as it is declared."""

    @property
    def spec(self) -> AgentSpec:
        """The part of it that is data."""
        ...


_IN_BACKGROUND = "It works in the background; you get its answer as a message."


class Delegate(TypedTool):
    """Another agent as a tool with arguments of its own, for `Agent(delegates=[…])`.

    The result is the delegate's answer: a value if it has an `output_type`, else its text.

    Args:
        agent: The agent, or its id.
        arguments: What the model passes: a dataclass, a `msgspec.Struct` or a pydantic model.
            None: a text, `prompt`.
        prompt: What the delegate is asked: a text with `{field}` for fields of the arguments, or a
            function of them, async or not. None: the arguments as JSON.
        id: What the model calls the tool. `agent_run_<agent>` unless given.
        description: What the model reads about it. The agent's own description unless given.
        approval: Whether a person approves every call before it runs.
        background: Whether the delegate runs as a background task: the call returns the task at
            once, and the answer comes as a message.

    Raises:
        InvalidSpec: The arguments are not an object in JSON, or the prompt names no field of them.
    """

    def __init__(  # noqa: PLR0913 - all but the agent are options by name
        self,
        agent: str | NamedAgent,
        *,
        arguments: Any = None,
        prompt: str | Callable[[Any], Any] | None = None,
        id: str | None = None,
        description: str = "",
        approval: bool = False,
        background: bool = False,
    ) -> None:
        spec = None if isinstance(agent, str) else agent.spec
        self.delegates_to = agent if isinstance(agent, str) else agent.spec.id
        self.named_agents = () if isinstance(agent, str) else (agent,)
        what = f"Delegate({self.delegates_to!r})"
        schema = object_schema(_Prompt if arguments is None else arguments, what)
        self._prompt = "{prompt}" if arguments is None and prompt is None else prompt
        self._names = tuple(schema["properties"])
        if isinstance(self._prompt, str):
            _check_template(self._prompt, schema, what)
        tool_id = id or delegate_tool_id(self.delegates_to)
        about = description.strip() or description_of(spec)
        if approval:
            self.approval = approve_always
        about = about or f"Ask the agent '{self.delegates_to}'."
        descriptor = ToolDescriptor(
            id=tool_id,
            name=tool_id,
            description=f"{about}\n\n{_IN_BACKGROUND}" if background else about,
            parameters=schema,
            kind=ToolKind.EXECUTE,
            effect=ToolEffect.IDEMPOTENT,
            timeout_ms=TIMEOUT_SECONDS * 1000,
        )
        handler = self._start_task if background else self._ask_agent
        super().__init__(descriptor, _Prompt if arguments is None else arguments, handler)

    async def _ask_agent(self, arguments: Any, ctx: ToolContext) -> ToolResult:
        fields = to_json_form(arguments)
        prompt = await self._write_prompt(arguments, fields)
        asked = Delegation(agent_id=self.delegates_to, prompt=prompt)
        return await ask_delegate(asked, ctx, fields)

    async def _start_task(self, arguments: Any, ctx: ToolContext) -> Any:
        prompt = await self._write_prompt(arguments, to_json_form(arguments))
        task = TaskInfo(description=ctx.tool_name, task_type=SUB_AGENT)
        try:
            record = await ctx.sub_runs.spawn_agent(self.delegates_to, prompt, task)
        except (ExecutionBackendError, UsageError) as error:
            return ToolResult.error(ctx.tool_name, str(error), code=error.code)
        return {"task_id": record.task_id, "status": record.status}

    async def _write_prompt(self, arguments: Any, fields: dict[str, Any]) -> str:
        if self._prompt is None:
            return msgspec.json.encode(fields).decode()
        if isinstance(self._prompt, str):
            return self._prompt.format(**{it: _show(fields.get(it)) for it in self._names})
        prompt = await call_function(self._prompt, arguments)
        if not isinstance(prompt, str) or not prompt.strip():
            message = f"the prompt of delegate '{self.delegates_to}' is not a text, or blank"
            raise ToolInternalError(message)
        return prompt


class _Prompt(msgspec.Struct, forbid_unknown_fields=True):
    prompt: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\S",
            description="What the agent should do. It sees nothing else of this conversation.",
        ),
    ]


def _check_template(template: str, schema: dict[str, Any], what: str) -> None:
    """Refuse placeholders that are not exactly the name of a field."""
    try:
        found = [it[1:] for it in string.Formatter().parse(template) if it[1] is not None]
    except ValueError as error:
        raise InvalidSpec(what=what, problem=f"its prompt is malformed: {error}") from error
    known = schema["properties"]
    for name, layout, conversion in found:
        if name not in known or layout or conversion:
            names = ", ".join(f"{{{it}}}" for it in known)
            problem = f"its prompt has '{{{name}}}'; the arguments have {names}"
            raise InvalidSpec(what=what, problem=problem)


def _show(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
