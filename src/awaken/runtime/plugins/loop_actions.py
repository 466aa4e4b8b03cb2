"""The loop's own plugin: its state keys, and the actions with which hooks change a request."""

import hashlib
from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.context_messages import ContextMessage
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.models.model_specs import RetryPolicy
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import (
    ADD_CONTEXT_MESSAGE,
    CONTEXT_MESSAGES,
    CONTEXT_THROTTLE,
    LOOP_KEYS,
    RUN_LIFECYCLE,
    SET_INFERENCE_OVERRIDE,
    STEP_OVERRIDE,
    TOOL_FILTER,
    Throttled,
    ToolFilter,
    UpsertContext,
)
from awaken.contracts.plugins.plugin import ConfigSection, PhaseContext, Plugin, PluginRegistrar
from awaken.contracts.plugins.screens import ANSWER_STEP, STEP_ANSWER, StepAnswer
from awaken.contracts.state.context_state import CompactionConfig
from awaken.contracts.state.keys import ScheduledActionSpec, StateCommand

# The runtime no longer schedules these (`TOOL_FILTER` hides tools), but stored runs may have them
# pending.
_STORED_EXCLUDE_TOOL = ScheduledActionSpec[str]("runtime.exclude_tool", Phase.BEFORE_INFERENCE, str)
_STORED_INCLUDE_ONLY = ScheduledActionSpec[tuple[str, ...]](
    "runtime.include_only_tools", Phase.BEFORE_INFERENCE, tuple[str, ...]
)


class LoopActions(Plugin):
    """Handles the request-shaping actions; present in every environment, exempt from filters."""

    name = "__loop_actions"

    def config_sections(self) -> Sequence[ConfigSection]:
        """Name the sections that the loop itself reads."""
        return (
            ConfigSection.of("compaction", CompactionConfig),
            ConfigSection.of("retry", RetryPolicy),
        )

    def register(self, registrar: PluginRegistrar) -> None:
        """Declare the loop's keys and actions."""
        for key in LOOP_KEYS:
            registrar.key(key)
        registrar.action(ADD_CONTEXT_MESSAGE, add_context_message)
        registrar.action(SET_INFERENCE_OVERRIDE, set_inference_override)
        registrar.action(_STORED_EXCLUDE_TOOL, exclude_tool)
        registrar.action(_STORED_INCLUDE_ONLY, include_only_tools)
        registrar.action(ANSWER_STEP, answer_step)


async def add_context_message(context: PhaseContext, message: ContextMessage) -> StateCommand:
    """Add a message to the next request unless its cooldown is running."""
    step = context.state(RUN_LIFECYCLE).step_count + 1
    digest = hashlib.blake2b(msgspec.json.encode(message.content), digest_size=16).hexdigest()
    last = context.state(CONTEXT_THROTTLE).get(message.key)
    if (
        message.cooldown_turns
        and last is not None
        and last.content_hash == digest
        and step - last.step < message.cooldown_turns
    ):
        return StateCommand()
    return (
        StateCommand()
        .update(CONTEXT_MESSAGES, UpsertContext(message=message))
        .update(CONTEXT_THROTTLE, (message.key, Throttled(step=step, content_hash=digest)))
    )


async def set_inference_override(
    _context: PhaseContext, override: InferenceOverride
) -> StateCommand:
    """Override inference parameters for this step."""
    return StateCommand().update(STEP_OVERRIDE, override)


async def exclude_tool(_context: PhaseContext, tool_id: str) -> StateCommand:
    """Hide a tool from this step."""
    return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=(tool_id,)))


async def include_only_tools(_context: PhaseContext, tool_ids: tuple[str, ...]) -> StateCommand:
    """Offer only these tools in this step; several lists add up."""
    return StateCommand().update(TOOL_FILTER, ToolFilter(include_only=(tool_ids,)))


async def answer_step(_context: PhaseContext, answer: StepAnswer) -> StateCommand:
    """Use an answer in place of the model's."""
    return StateCommand().update(STEP_ANSWER, answer)
