"""Building a request: instructions, context messages, history, tools and overrides.

The log keeps a digest of each request; equal digests mean the same question. Its first half covers
instructions, tools, parameters and output schema, the second the messages: all of them if a plugin
or a window has changed them, else the end of the transcript and its length. The model is not part
of it: the same question may be put to another one.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError, InvalidInput, PluginFailed
from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.context_messages import ContextMessage, ContextTarget
from awaken.contracts.messages.message import Message, MessageMetadata, Role
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, ModelTool
from awaken.contracts.plugins.loop_state import (
    CONTEXT_MESSAGES,
    PRIVATE_CONTEXT,
    STEP_OVERRIDE,
    TOOL_FILTER,
    ContextEmitted,
    ToolFilter,
)
from awaken.contracts.state.keys import EMPTY_COMMAND
from awaken.redaction import describe_error
from awaken.runtime.context.digests import DIGEST_BYTES, MessageDigest
from awaken.runtime.context.window import ContextWindow, Frame, clamp_policy
from awaken.runtime.phases.commands import commit_command
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.run import Run
from awaken.runtime.switches import NO_SWITCHES

from .compaction import ask_for_summary, take_summary

_encode = msgspec.json.Encoder(order="sorted").encode


def build_request(run: Run) -> InferenceRequest:
    """Build this step's request and consume the state that hooks wrote for it.

    The transcript itself is used without a copy when no messages surround it, so that a long
    history costs nothing. With a context policy only what fits into the window is sent, counted
    after the transforms of plugins.
    """
    agent, values = run.agent, run.state.values
    system, tools, override = agent.system, agent.model_tools, agent.overrides
    before: list[Message] = []
    after: list[Message] = []
    contexts: Mapping[str, ContextMessage] = {}
    if CONTEXT_MESSAGES.name in values:
        contexts = values[CONTEXT_MESSAGES.name]
    if PRIVATE_CONTEXT.name in values:
        contexts = {**contexts, **values[PRIVATE_CONTEXT.name]}
    if contexts:
        texts, before, after = _place_contexts(contexts)
        system = (*system, *texts)
    has_filter, has_override = TOOL_FILTER.name in values, STEP_OVERRIDE.name in values
    if run.services.switches.current is not NO_SWITCHES:
        tools = _hide_disabled(run, tools)
    if has_filter:
        tools = _filter_tools(tools, values[TOOL_FILTER.name])
    if override is not None or has_override or run.request.overrides is not None:
        override = _merge_overrides(run)
    policy = agent.spec.context_policy
    if policy is None and not (contexts or agent.env.transforms):
        run.window = None
        messages: Sequence[Message] = run.messages
    else:
        messages = _fit_messages(run, Frame(system, before, after, tools))
    if contexts or has_filter or has_override:
        _use_up(run)
    model = agent.upstream_model
    if override is not None and override.upstream_model is not None:
        model, override = _model_override(override)
    return InferenceRequest(
        upstream_model=model,
        messages=messages,
        system=system,
        tools=tools,
        overrides=override,
        enable_prompt_cache=policy is None or policy.enable_prompt_cache,
        output_schema=agent.output.schema if agent.output is not None else None,
        tool_choice=_tool_choice(run, tools) if run.request.tool_choice is not None else None,
    )


def smaller_request(run: Run, request: InferenceRequest) -> InferenceRequest | None:
    """Return the latest request with less history, after a provider rejected it as too long.

    None when nothing may be left out: without a context policy, or with nothing left to cut.
    """
    window = run.window
    if window is None or not window.shrink():
        return None
    return msgspec.structs.replace(request, messages=window.get_messages())


def _fit_messages(run: Run, frame: Frame) -> Sequence[Message]:
    """Return the request's messages: rewritten by the agent's plugins, then cut to fit."""
    agent, window = run.agent, _window(run)
    run.window = window
    if window is None:
        messages = frame.around(run.messages)
        return (
            _transform_messages(agent, frame.tools, messages) if agent.env.transforms else messages
        )
    has_summaries = window.policy.autocompact_threshold is not None
    window.catch_up(frame)
    if has_summaries:
        take_summary(run, window)
    if agent.env.transforms:
        window.rewrite(partial(_transform_messages, agent, frame.tools))
    if has_summaries:
        ask_for_summary(run, window)
    return window.fit_messages()


def _window(run: Run) -> ContextWindow | None:
    """Return the run's window; a new one if the agent's policy has changed."""
    agent, window = run.agent, run.window
    policy = agent.spec.context_policy
    if policy is None:
        return None
    wanted = clamp_policy(policy, (route.spec for route in agent.models))
    if window is not None and window.policy == wanted:
        return window
    return ContextWindow(wanted, run.messages, run.state)


def _transform_messages(
    agent: ResolvedAgent, tools: tuple[ModelTool, ...], messages: Sequence[Message]
) -> Sequence[Message]:
    for plugin, transform in agent.env.transforms:
        try:
            messages = transform(list(messages), tools)
        except AwakenError:
            raise
        except BaseException as error:
            if is_interruption(error):
                raise
            problem = f"raised {describe_error(error)}"
            raise PluginFailed(
                what="A request transform", plugin=plugin, problem=problem
            ) from error
        if not isinstance(messages, list):
            problem = f"returned {type(messages).__name__}; return the list of messages to send"
            raise PluginFailed(what="A request transform", plugin=plugin, problem=problem)
    return messages


def _merge_overrides(run: Run) -> InferenceOverride | None:
    """Combine the overrides; the agent's come first, then the run's, then this step's."""
    step = run.state.get(STEP_OVERRIDE) if run.state.has(STEP_OVERRIDE) else None
    merged: InferenceOverride | None = None
    for source in (run.agent.overrides, run.request.overrides, step):
        if source is not None:
            merged = source if merged is None else merged.merge(source)
    return None if merged is None or merged.is_empty else merged


def _model_override(override: InferenceOverride) -> tuple[str, InferenceOverride | None]:
    model = (override.upstream_model or "").strip()
    if not model:
        raise InvalidInput(what="The model override", problem="it is blank")
    rest = msgspec.structs.replace(override, upstream_model=None)
    return model, None if rest.is_empty else rest


def _tool_choice(run: Run, tools: tuple[ModelTool, ...]) -> str | None:
    """Return the tool choice of the first answer; later answers are free, or no run would end."""
    wanted = run.request.tool_choice
    is_offered = wanted in ("none", "required") or any(tool.id == wanted for tool in tools)
    is_first = run.messages[-1].role not in (Role.ASSISTANT, Role.TOOL) if run.messages else True
    return wanted if tools and is_offered and is_first else None


def _use_up(run: Run) -> None:
    command = EMPTY_COMMAND
    contexts = run.state.get(CONTEXT_MESSAGES).values()
    if any(not it.persistent or it.consume_after_emit for it in contexts):
        command = command.update(CONTEXT_MESSAGES, ContextEmitted())
    if run.state.has(TOOL_FILTER):
        command = command.clear(TOOL_FILTER)
    if run.state.has(STEP_OVERRIDE):
        command = command.clear(STEP_OVERRIDE)
    if not command.is_empty:
        commit_command(run, command)


def _filter_tools(tools: tuple[ModelTool, ...], filtered: ToolFilter) -> tuple[ModelTool, ...]:
    if filtered.include_only:
        wanted = {tool_id for group in filtered.include_only for tool_id in group}
        tools = tuple(tool for tool in tools if tool.id in wanted)
    if filtered.excluded:
        hidden = frozenset(filtered.excluded)
        tools = tuple(tool for tool in tools if tool.id not in hidden)
    if filtered.last:
        behind = frozenset(filtered.last)
        tools = tuple(sorted(tools, key=lambda tool: tool.id in behind))
    return tools


def _hide_disabled(run: Run, tools: tuple[ModelTool, ...]) -> tuple[ModelTool, ...]:
    """Return the tools that an operator has not disabled."""
    switched, own = run.services.switches.current, run.agent.tools
    if not (switched.tools or switched.servers):
        return tools

    def is_disabled(tool_id: str) -> bool:
        descriptor = own[tool_id].descriptor if tool_id in own else None
        return switched.why_tool_disabled(tool_id, descriptor) is not None

    return tuple(tool for tool in tools if not is_disabled(tool.id))


def _place_contexts(
    contexts: Mapping[str, ContextMessage],
) -> tuple[list[str], list[Message], list[Message]]:
    """Return the instructions, and the messages before and after the history."""
    texts: list[str] = []
    before: list[Message] = []
    after: list[Message] = []
    for context in sorted(contexts.values(), key=lambda each: each.order):
        if context.target is ContextTarget.SYSTEM and context.role is Role.SYSTEM:
            texts.append(text_of(context.content))
        elif context.target is ContextTarget.SUFFIX_SYSTEM:
            after.append(_message(context))
        else:
            before.append(_message(context))
    return texts, before, after


def _message(context: ContextMessage) -> Message:
    return Message(
        role=context.role,
        content=context.content,
        visibility=context.visibility,
        metadata=MessageMetadata(provenance=context.provenance),
    )


def digest_request(run: Run, request: InferenceRequest) -> str | None:
    """Return the digest of a request of the run; None if a plugin's message has no JSON form."""
    agent = run.agent
    is_usual = (
        request.system is agent.system
        and request.tools is agent.model_tools
        and request.overrides is agent.overrides
        and request.tool_choice is None
    )
    try:
        frame = agent.frame_digest if is_usual else ""
        if not frame:
            frame = digest_frame(request)
            if is_usual:
                agent.keep_frame_digest(frame)
        if request.messages is not run.messages:
            return frame + MessageDigest().add(request.messages)
        if run.digest is None:
            run.digest = MessageDigest()
        return frame + run.digest.follow(run.messages)
    except (TypeError, ValueError, RecursionError):
        return None


def digest_frame(request: InferenceRequest) -> str:
    """Return the digest of a request without its messages."""
    parts = (
        request.system,
        request.tools,
        request.overrides,
        request.output_schema,
        request.tool_choice,
    )
    return blake2b(_encode(parts), digest_size=DIGEST_BYTES).hexdigest()
