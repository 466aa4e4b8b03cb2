"""Screening texts before they are kept, shown or sent.

Fails closed: a text is not kept if a screen fails on it.
"""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.authoring.results import to_json_form
from awaken.contracts.errors import AwakenError, PluginFailed
from awaken.contracts.events import ActivityDelta, ActivitySnapshot, AgentEvent, ToolCallStreamDelta
from awaken.contracts.messages.content import Text
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.loop_state import STEP_ANSWER
from awaken.contracts.plugins.plugin import AfterInferenceContext
from awaken.contracts.plugins.screens import HELD_BACK, BlockedValue, Screened, TextStream
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tool_results import ToolResult
from awaken.runtime.phases.commands import commit_command
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)

UNSCREENED = "The result could not be screened and was dropped."


def screen_answer(run: Run, answer: StreamResult) -> StreamResult:
    """Return a model's answer as its screens leave it.

    Raises:
        PluginFailed: A screen raised, or returned something else than an answer.
    """
    for plugin, screen in run.agent.env.answer_screens:
        context = phase_context(run, AfterInferenceContext, response=answer)
        context.own, context.prepared = run.own.get(plugin), run.agent.env.prepared.get(plugin)
        try:
            screened = screen(context, answer)
        except AwakenError:
            raise
        except BaseException as error:
            if is_interruption(error):
                raise
            problem = f"raised {type(error).__name__}"
            raise PluginFailed(what="An answer screen", plugin=plugin, problem=problem) from error
        if not isinstance(screened, Screened):
            problem = f"returned {type(screened).__name__}; return Screened(answer=…)"
            raise PluginFailed(what="An answer screen", plugin=plugin, problem=problem)
        answer = screened.answer
        if screened.command.effects:
            problem = "wants effects; a screen is pure"
            raise PluginFailed(what="An answer screen", plugin=plugin, problem=problem)
        if not screened.command.is_empty:
            commit_command(run, screened.command)
    return answer


def answer_streams(run: Run) -> list[TextStream] | None:
    """Begin to screen one text of an answer while it streams; None: wait until it is complete."""
    streams: list[TextStream] = []
    for plugin, begin in run.agent.env.stream_screens:
        try:
            begun = None if begin is None else begin(run.agent.env.prepared.get(plugin))
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("Plugin '%s' cannot screen an answer that comes.", plugin)
            return None
        if begun is None:
            return None
        streams.extend(begun)
    return streams


def screen_result(run: Run, result: ToolResult) -> ToolResult:
    """Return a tool's result as its screens leave it; an error result when one of them failed."""
    screens = run.agent.env.result_screens
    if not screens:
        return result
    try:
        fields = _plain(result)
        reason = None
        for plugin, screen in screens:
            prepared = run.agent.env.prepared.get(plugin)
            for name, value in fields.items():
                found = screen(prepared, value)
                if isinstance(found, BlockedValue):
                    reason, found = reason or found.reason, found.value
                fields[name] = found
        return _mark_held(_with(result, fields), reason)
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.exception("A screen failed on a result of %r.", result.tool_name)
        return ToolResult.error(result.tool_name, UNSCREENED, code="screen_failed")


def _mark_held(result: ToolResult, reason: str | None) -> ToolResult:
    """Say in the metadata of a result why it was blocked; a tool cannot say so itself."""
    metadata = result.metadata
    if isinstance(metadata, dict):
        metadata = {name: it for name, it in metadata.items() if name != HELD_BACK}
    else:
        # The metadata were blocked as well.
        metadata = {}
    if reason is not None:
        metadata[HELD_BACK] = reason
    return msgspec.structs.replace(result, metadata=metadata)


def _plain(result: ToolResult) -> dict[str, Any]:
    """Return everything in a result that people or models read, as plain JSON."""
    fields: dict[str, Any] = {"message": result.message, "metadata": result.metadata}
    if (asked := result.suspension) is not None:
        fields["question"] = [
            asked.suspension.message,
            asked.suspension.parameters,
            asked.suspension.response_schema,
            asked.pending.arguments,
        ]
    return {"data": to_json_form(result.data), **to_json_form(fields)}


def _with(result: ToolResult, fields: dict[str, Any]) -> ToolResult:
    question = fields.pop("question", None)
    asked = result.suspension
    if asked is not None and question is not None:
        message, parameters, schema, arguments = question
        suspension = msgspec.structs.replace(
            asked.suspension, message=message, parameters=parameters, response_schema=schema
        )
        pending = msgspec.structs.replace(asked.pending, arguments=arguments)
        asked = msgspec.structs.replace(asked, suspension=suspension, pending=pending)
    return msgspec.structs.replace(result, suspension=asked, **fields)


def screen_event(run: Run, event: AgentEvent) -> AgentEvent | None:
    """Return a tool's live event as its screens leave it; None when one of them failed.

    Pieces of output are not shown at all: a match may span several pieces.
    """
    if isinstance(event, ToolCallStreamDelta):
        return None
    name = _SHOWN.get(type(event))
    if name is None:
        return event
    value: Any = getattr(event, name)
    try:
        for plugin, screen in run.agent.env.result_screens:
            value = screen(run.agent.env.prepared.get(plugin), value)
            value = value.value if isinstance(value, BlockedValue) else value
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.exception("A screen failed on what a tool shows.")
        return None
    return msgspec.structs.replace(event, **{name: value})


def take_given_answer(run: Run) -> StreamResult | None:
    """Return and consume the answer that a plugin gives in place of the model's."""
    if not run.state.has(STEP_ANSWER):
        return None
    given = run.state.get(STEP_ANSWER)
    commit_command(run, StateCommand().clear(STEP_ANSWER))
    if given is None:
        return None
    content = (Text(text=given.text),) if given.text else ()
    return StreamResult(content=content, tool_calls=given.tool_calls)


_SHOWN: Mapping[type, str] = {
    ActivitySnapshot: "content",
    ActivityDelta: "patch",
}
