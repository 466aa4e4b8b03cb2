"""The three tools: one renders A2UI messages, two have a delegate write the other formats."""

from typing import Any

import msgspec

from awaken.authoring.delegates import TIMEOUT_SECONDS
from awaken.authoring.functions import tool
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    InvalidArguments,
    ToolDescriptor,
    ToolEffect,
    ToolKind,
    ToolOutput,
)

from .a2ui_arguments import MESSAGES_MAX, messages_of
from .a2ui_language import language_of
from .a2ui_surfaces import Rendering
from .config import check_offered
from .interface_writer import Writing, write_interface
from .json_render import SpecReader
from .openui import ProgramReader
from .prompts import json_render_rules, openui_rules
from .readers import Interface
from .state import SURFACES, forget_old_surfaces

A2UI_ACTIVITY = "a2ui-surface"
A2UI_OPERATIONS = "a2ui_operations"
"""The activity type and the field of its messages, as AG-UI clients expect them."""
JSON_ACTIVITY = "generative-ui.json-render"
OPENUI_ACTIVITY = "generative-ui.openui-lang"

PROBLEMS_MAX = 8
PROBLEM_CHARACTERS = 600

_MESSAGES = (
    "surfaceUpdate", "dataModelUpdate", "beginRendering",
    "createSurface", "updateComponents", "updateDataModel", "deleteSurface",
)  # fmt: skip
_MESSAGE: dict[str, Any] = {"type": "object"}


class RenderA2uiTool:
    """Checks A2UI messages and shows them; a refused call changes nothing."""

    descriptor = ToolDescriptor(
        id="render_a2ui",
        name="render_a2ui",
        description=(
            "Show or update a user interface with A2UI messages: give either `messages` or one "
            "message by its name."
        ),
        parameters={
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": _MESSAGE, "minItems": 1},
                **dict.fromkeys(_MESSAGES, _MESSAGE),
            },
        },
        effect=ToolEffect.IDEMPOTENT,
        kind=ToolKind.OTHER,
    )

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments unchanged: what is valid depends on the agent's config.

        Raises:
            InvalidArguments: They are not an object, or empty.
        """
        if not isinstance(arguments, dict) or not arguments:
            raise InvalidArguments("give `messages`, or one message by its name")
        return arguments

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Check the messages, store the surfaces, and show them to clients.

        Raises:
            InvalidArguments: Names the place of each mistake, and its correction.
            ToolDenied: The agent may not show A2UI.
        """
        config = check_offered("render_a2ui", context.agent)
        language = language_of(config.version)
        messages, path = messages_of(language, arguments)
        if not 1 <= len(messages) <= MESSAGES_MAX:
            raise InvalidArguments(f"$.messages: give 1 to {MESSAGES_MAX} messages")
        if "messages" in arguments and len(arguments) > 1:
            raise InvalidArguments("$: give either `messages` or one message by its name")
        rendering = Rendering(language, context.state.get(SURFACES), config.catalog_id)
        for index, message in enumerate(messages):
            rendering.apply_message(message, path.format(index))
        rendering.finish()
        _check_problems(rendering.problems)
        context.state.set(SURFACES, forget_old_surfaces(rendering.surfaces))
        context.report_activity(A2UI_ACTIVITY, {A2UI_OPERATIONS: messages})
        data = {"rendered": True, "count": len(messages)}
        result = ToolResult.success(context.tool_name, data)
        return ToolOutput(result=result, command=context.command)


def _check_problems(problems: list[str]) -> None:
    if not problems:
        return
    shown = [it[:PROBLEM_CHARACTERS] for it in problems[:PROBLEMS_MAX]]
    more = len(problems) - len(shown)
    rest = [f"and {more} more"] if more else []
    raise InvalidArguments("\n".join([*shown, *rest]))


async def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        message = "'prompt' must not be empty"
        raise ValueError(message)


@tool(effect="idempotent", kind="other", check=_check_prompt, timeout=TIMEOUT_SECONDS)
async def render_json_ui(prompt: str, ctx: ToolContext) -> Any:
    """Have an interface written and shown to the user; you are given what was shown.

    Args:
        prompt: What to show, with all data that it needs: the agent that writes it
            knows nothing else of this conversation.
        ctx: The call.
    """
    config = check_offered("render_json_ui", ctx.agent).json_render
    assert config is not None
    writing = Writing(
        agent_id=config.agent,
        prompt=prompt,
        rules=json_render_rules(config.components),
        activity_type=JSON_ACTIVITY,
        new_reader=lambda: SpecReader(config.components),
    )
    interface, result = await write_interface(writing, ctx)
    return (
        result if interface is None else _complete_result(result, interface, spec=interface.content)
    )


@tool(effect="idempotent", kind="other", check=_check_prompt, timeout=TIMEOUT_SECONDS)
async def render_openui(prompt: str, ctx: ToolContext) -> Any:
    """Have an interface written in OpenUI Lang and shown to the user; you are given the program.

    Args:
        prompt: What to show, with all data that it needs: the agent that writes it
            knows nothing else of this conversation.
        ctx: The call.
    """
    config = check_offered("render_openui", ctx.agent).openui
    assert config is not None
    writing = Writing(
        agent_id=config.agent,
        prompt=prompt,
        rules=openui_rules(config),
        activity_type=OPENUI_ACTIVITY,
        new_reader=lambda: ProgramReader(config),
    )
    interface, result = await write_interface(writing, ctx)
    if interface is None:
        return result
    return _complete_result(result, interface, program="\n".join(interface.content["statements"]))


def _complete_result(result: ToolResult, interface: Interface, **data: Any) -> ToolResult:
    warnings = {"warnings": list(interface.warnings)} if interface.warnings else {}
    return msgspec.structs.replace(result, data={"rendered": True, **data, **warnings})
