"""The tools that a workflow calls: found by name, or made of a function that it passes."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from awaken.authoring.delegates import AgentTool, ask_delegate
from awaken.authoring.functions import FunctionTool, as_tool
from awaken.authoring.signatures import read_hints, source_of
from awaken.authoring.workflows import Workflow, decode_as, encode_input, to_exact_form
from awaken.contracts.backends.errors import ExecutionBackendError
from awaken.contracts.errors import InvalidSpec, UsageError
from awaken.contracts.tasks import SUB_AGENT, TaskError, TaskFate, TaskInfo
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolInternalError, ToolOutput
from awaken.contracts.workflows.context import check_text
from awaken.contracts.workflows.errors import ValueTooLarge, WorkflowMisuse
from awaken.contracts.workflows.steps import RESULT_BYTES

T = TypeVar("T")
_MADE: "WeakKeyDictionary[Any, Tool]" = WeakKeyDictionary()
"""The tools of plain functions, made once for each."""
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
_TYPES: "WeakKeyDictionary[Any, Callable[[Any], Any]]" = WeakKeyDictionary()


class AskTool(AgentTool):
    """A tool whose result is the answer of an agent alone."""

    def __init__(self, agent_id: str, output_schema: dict[str, Any] | None) -> None:
        self._output_schema = output_schema
        super().__init__(agent_id, f"Ask the agent '{agent_id}'.")

    async def _ask_agent(self, prompt: str, ctx: ToolContext) -> ToolResult:
        """Ask the agent.

        Args:
            prompt: What the agent should do.
            ctx: The call.
        """
        asked = Delegation(agent_id=self.agent_id, prompt=prompt, output_schema=self._output_schema)
        return await ask_delegate(asked, ctx, {"prompt": prompt})


class StartTool(AskTool):
    """A tool that starts an agent and does not wait for it."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(agent_id, None)

    async def _ask_agent(self, prompt: str, ctx: ToolContext) -> ToolResult:
        """Start the agent; a call that is run again finds what it has started.

        Args:
            prompt: What the agent should do.
            ctx: The call.
        """
        detached = TaskInfo(fate=TaskFate.DETACH, task_type=SUB_AGENT)
        try:
            started = await ctx.sub_runs.spawn_agent(self.agent_id, prompt, detached)
        except (ExecutionBackendError, UsageError, TaskError) as error:
            return ToolResult.error(ctx.tool_name, str(error), code=error.code)
        return ToolResult(tool_name=ctx.tool_name, data=started.task_id)


def name_agent(agent: Any) -> str:
    """Return the id of an agent that is given as itself or by its id.

    Raises:
        WorkflowMisuse: It is neither.
    """
    agent_id = agent if isinstance(agent, str) else getattr(agent, "id", None)
    if not isinstance(agent_id, str):
        problem = "ctx.ask and ctx.start take an agent, a workflow or the id of one."
        raise WorkflowMisuse(problem=problem)
    check_text("ctx.ask and ctx.start: the agent's id", agent_id)
    return agent_id


def encode_prompt(agent_id: str, prompt: Any) -> str:
    """Return the text that an agent is given: a prompt, or arguments as JSON.

    Raises:
        WorkflowMisuse: It has no JSON form, or is a text that no store can keep.
        ValueTooLarge: It is larger than a journal keeps.
    """
    if isinstance(prompt, str):
        check_text(f"what is given to '{agent_id}'", prompt)
    try:
        return check_size(f"What '{agent_id}' is given", encode_input(prompt))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"what is given to '{agent_id}' has no JSON form: {error}."
        raise WorkflowMisuse(problem=problem) from error


class NamedTool(msgspec.Struct, frozen=True):
    """The name of a tool that the workflow does not declare: the runtime finds it when called."""

    descriptor: ToolDescriptor


WantedTool = Tool | NamedTool
"""What a step calls."""


def to_workflow_tool(workflow: Workflow, tool: Any) -> WantedTool:
    """Return the tool that a workflow means: a tool, a function, or an id.

    Raises:
        WorkflowMisuse: It is none of them.
    """
    if isinstance(tool, str):
        check_text("ctx.call: the tool's id", tool)
        return workflow.own_tools.get(tool) or NamedTool(ToolDescriptor(id=tool))
    # The class of nearly all first: a protocol is compared attribute by attribute.
    if isinstance(tool, FunctionTool) or isinstance(tool, Tool):  # noqa: SIM101
        return tool
    made = _MADE.get(tool) if callable(tool) else None
    if made is None:
        try:
            made = as_tool(tool)
        except InvalidSpec as error:
            raise WorkflowMisuse(problem=f"ctx.call: {error}") from error
        _MADE[tool] = made
    return made


def bind_arguments(
    tool: WantedTool, args: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, as JSON.

    Raises:
        WorkflowMisuse: There are too many of them, one is given twice, or has no JSON form.
        ValueTooLarge: They are larger than a journal keeps.
    """
    names = [*tool.descriptor.parameters.get("properties", {})]
    given = dict(zip(names, args, strict=False))
    name = tool.descriptor.id
    if args and isinstance(tool, NamedTool):
        problem = f"tool '{name}' is not one of the workflow's tools: give its arguments by name."
        raise WorkflowMisuse(problem=problem)
    if len(args) > len(names):
        problem = f"tool '{name}' takes {len(names)} arguments, not {len(args)}."
        raise WorkflowMisuse(problem=problem)
    if twice := sorted(given.keys() & named.keys()):
        raise WorkflowMisuse(problem=f"tool '{name}': {', '.join(twice)} is given twice.")
    return check_size(
        f"What tool '{name}' is given",
        {
            key: to_step_form(f"argument '{key}' of tool '{name}'", value)
            for key, value in (given | named).items()
        },
    )


def to_step_form(what: str, value: Any) -> Any:
    """Return the JSON form of what a step is given; the same in every process.

    Raises:
        WorkflowMisuse: It has none.
    """
    try:
        return to_exact_form(value)
    except ToolInternalError as error:
        raise WorkflowMisuse(problem=f"{what} has no JSON form: {error.message}.") from error


def check_size(what: str, data: T, limit: int = RESULT_BYTES) -> T:
    """Return JSON data that a journal can keep.

    Raises:
        ValueTooLarge: It has more bytes than the limit.
    """
    # A text is stored as it is, anything else as JSON.
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    if (size := len(text.encode(errors="replace"))) > limit:
        raise ValueTooLarge(what=what, size=size, limit=limit)
    return data


def copy_result(result: ToolResult) -> ToolResult:
    """Return a result whose data the code may change: the journal's own must stay as it is."""
    data = result.data
    if not isinstance(data, dict | list):
        return result
    return msgspec.structs.replace(result, data=_decode(_encode(data)))


def find_result_type(tool: WantedTool) -> Callable[[Any], Any]:
    """Return what makes a value of a tool's JSON result: its function's return type, if it has one.

    A result that does not fit, such as one of a plugin, stays plain JSON.
    """
    known = _TYPES.get(tool) if isinstance(tool, FunctionTool) else None
    if known is not None:
        return known
    wanted: Any = None
    if isinstance(tool, FunctionTool) and not isinstance(tool, AgentTool):
        wanted = read_hints(source_of(inspect.unwrap(tool.__wrapped__))).get("return")
    if wanted in (None, Any, ToolResult, ToolOutput, type(None)):
        wanted = None

    def decode(data: Any) -> Any:
        try:
            return decode_as(wanted, data)
        except (msgspec.ValidationError, TypeError):
            return data

    if isinstance(tool, FunctionTool):
        _TYPES[tool] = decode
    return decode
