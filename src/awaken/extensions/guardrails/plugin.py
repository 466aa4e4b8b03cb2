"""The plugin: where in a run each check is applied."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.lifecycle import Blocked
from awaken.contracts.messages.content import Text, Thinking, text_of
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import RUN_LIFECYCLE, TOOL_FILTER, End, ToolFilter
from awaken.contracts.plugins.plugin import (
    AfterInferenceContext,
    AfterToolExecuteContext,
    BeforeInferenceContext,
    ConfigSection,
    GateDecision,
    Plugin,
    PluginRegistrar,
    RunEndContext,
    SetResult,
    Suspend,
    ToolGateContext,
)
from awaken.contracts.plugins.screens import (
    ANSWER_STEP,
    GUARDRAIL_HOLDS,
    HELD_BACK,
    BlockedInput,
    BlockedValue,
    Screened,
    StepAnswer,
)
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    PendingToolCall,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor

from .checks import (
    Check,
    CheckFinding,
    Guards,
    compile_rules,
    find_clash,
    strip_bytes,
    text_in_file,
    validate_checks,
)
from .config import SECTION, Action, CheckPlace, GuardrailsConfig
from .reviews import (
    ANSWERED,
    CLEARED,
    CONTEXT_CLEARED,
    REVIEW,
    WITHHELD,
    Withheld,
    guardrail_review,
    review_call,
)

_BLOCKED = "[blocked by guardrail '"
_ASKING = "guardrail:review"
_CONTEXT = "Context of the run: "
_REFUSED = "[guardrail]"
"""The one argument of a call whose own were blocked."""


class GuardrailsPlugin(Plugin):
    """Checks an agent's input, output, arguments and results by the rules of its section.

    Raises:
        InvalidSpec: Two checks have one kind, one has that of a detector, or is not a check.
    """

    name = "guardrails"

    def __init__(self, checks: Iterable[Check] = ()) -> None:
        own = validate_checks(checks)
        if (kind := find_clash(own)) is not None:
            raise InvalidSpec(what=f"The check '{kind}'", problem="another one has its kind")
        self._checks = {check.kind: check for check in own}

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `guardrails`."""
        return (ConfigSection.of(SECTION, GuardrailsConfig, agent_fields=("rules.agent",)),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Guards:
        """Compile the agent's rules."""
        return compile_rules(agent.config(SECTION, GuardrailsConfig), self._checks, agent.id)

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the checks of messages, results, answers and calls."""
        registrar.key(WITHHELD)
        registrar.key(CLEARED)
        registrar.key(CONTEXT_CLEARED)
        registrar.key(ANSWERED)
        registrar.key(GUARDRAIL_HOLDS)
        registrar.tool(guardrail_review)
        registrar.screen_messages(_screen_message)
        registrar.screen_results(_screen_result)
        registrar.screen_answers(_screen_answer, lambda guards: guards.streams(CheckPlace.OUTPUT))
        registrar.gate(_gate)
        registrar.hook(Phase.BEFORE_INFERENCE, _before_inference)
        registrar.hook(Phase.AFTER_INFERENCE, _after_inference)
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, _after_call)
        registrar.hook(Phase.RUN_END, _note_cleared)


def _screen_message(guards: Guards, message: Message) -> Message | BlockedInput:
    """Redact the message; a blocked one is replaced by a mark, and the run ends."""
    if guards.has(CheckPlace.INPUT, Action.BLOCK):
        if message.text.startswith(_BLOCKED):
            # It was blocked before it was stored, as in a queue.
            return BlockedInput(message=message, reason=message.text)
        found = guards.find_objection(CheckPlace.INPUT, _content_text(message), Action.BLOCK)
        if found is not None:
            mark = _mark(found)
            return BlockedInput(message=_replace_content(message, (Text(text=mark),)), reason=mark)
    content = guards.redact_blocks(CheckPlace.INPUT, message.content)
    return message if content is message.content else _replace_content(message, content)


def _replace_content(message: Message, content: tuple[Any, ...]) -> Message:
    return msgspec.structs.replace(message, content=content)


def _screen_result(guards: Guards, value: Any) -> Any:
    if guards.has(CheckPlace.TOOL_RESULTS, Action.BLOCK):
        found = guards.find_objection(CheckPlace.TOOL_RESULTS, _text(value), Action.BLOCK)
        if found is not None:
            mark = _mark(found)
            shown = {"blocked": mark} if isinstance(value, dict) else mark
            return BlockedValue(value=shown, reason=mark)
    return guards.redact_value(CheckPlace.TOOL_RESULTS, value)


def _screen_answer(context: AfterInferenceContext, answer: StreamResult) -> Screened:
    guards: Guards = context.prepared
    # Only this plugin requests reviews: a review that a model calls for is dropped.
    command = StateCommand()
    calls: tuple[ToolCall, ...] = ()
    for call in answer.tool_calls:
        if call.name == REVIEW:
            continue
        refusal = _find_refusal(guards, call)
        if refusal is not None:
            command = command.update(GUARDRAIL_HOLDS, refusal)
            call = ToolCall(id=call.id, name=call.name, arguments={_REFUSED: refusal})
        calls = (*calls, call)
    answer = msgspec.structs.replace(answer, tool_calls=calls)
    found = guards.find_review(CheckPlace.OUTPUT, _answer_text(answer), Action.BLOCK, Action.ASK)
    if found is None:
        content = guards.redact_blocks(CheckPlace.OUTPUT, answer.content)
        return Screened(answer=msgspec.structs.replace(answer, content=content), command=command)
    if found.action is Action.BLOCK:
        mark = _mark(found)
        return Screened(
            answer=msgspec.structs.replace(answer, content=(Text(text=mark),), tool_calls=()),
            command=StateCommand().update(GUARDRAIL_HOLDS, mark),
        )
    asking = review_call(context.run.run_id, context.step, CheckPlace.OUTPUT, found)
    # An approval covers only what was asked about; the rest is redacted all the same.
    text = text_of(guards.redact_blocks(CheckPlace.OUTPUT, answer.content))
    held = Withheld(text=text, tool_calls=answer.tool_calls)
    return Screened(
        answer=msgspec.structs.replace(answer, content=(), tool_calls=(asking,)),
        command=command.update(WITHHELD, (asking.id, held)),
    )


def _find_refusal(guards: Guards, call: ToolCall) -> str | None:
    """Why the arguments of a call are blocked: in the transcript the reason replaces them."""
    found = guards.find_objection(CheckPlace.TOOL_ARGUMENTS, _text(call.arguments), Action.BLOCK)
    return None if found is None else _describe_finding(found)


def _describe_finding(found: CheckFinding) -> str:
    kinds = ", ".join(found.kinds)
    return f"Check '{found.rule}' found {kinds} in the arguments; call it without."


async def _gate(context: ToolGateContext) -> GateDecision | None:
    guards: Guards = context.prepared
    call = context.call
    if isinstance(call.arguments, dict) and _REFUSED in call.arguments:
        reason = str(call.arguments[_REFUSED])
        return SetResult(result=ToolResult.error(call.name, reason, code="guardrail"))
    text = _text(call.arguments)
    found = guards.find_objection(CheckPlace.TOOL_ARGUMENTS, text, Action.BLOCK, Action.ASK)
    if found is None or call.name == REVIEW:
        return None
    kinds = ", ".join(found.kinds)
    if found.action is Action.BLOCK:
        # A person edited the arguments when deciding on the call.
        reason = _describe_finding(found)
        result = ToolResult.error(call.name, reason, code="guardrail")
        metadata = {**result.metadata, HELD_BACK: reason}
        return SetResult(result=msgspec.structs.replace(result, metadata=metadata))
    message = f"Check '{found.rule}' found {kinds} in the arguments of '{call.name}'."
    suspension = Suspension(action=_ASKING, message=message, parameters=call.arguments)
    pending = PendingToolCall(id=call.id, name=call.name, arguments=call.arguments)
    return Suspend(ticket=SuspendTicket(suspension=suspension, pending=pending))


async def _before_inference(context: BeforeInferenceContext) -> StateCommand:
    """Ask about input, show approved answers, and hide the review tool."""
    command = StateCommand().update(TOOL_FILTER, ToolFilter(excluded=(REVIEW,)))
    for call_id, held in context.state(WITHHELD).items():
        if held.is_released:
            answer = StepAnswer(text=held.text, tool_calls=held.tool_calls)
            return command.schedule(ANSWER_STEP, answer).update(WITHHELD, (call_id, None))
    found = _find_uncleared(context)
    if found is None:
        return command
    upto = len(context.messages)
    asking = review_call(context.run.run_id, context.step, CheckPlace.INPUT, found, upto)
    guards: Guards = context.prepared
    if guards.list_judges(CheckPlace.INPUT):
        text = "\n\n".join(_list_uncleared(context, _encode))
        command = command.update(WITHHELD, (asking.id, Withheld(text=text)))
    return command.schedule(ANSWER_STEP, StepAnswer(tool_calls=(asking,)))


async def _after_inference(context: AfterInferenceContext) -> StateCommand | None:
    """End the run if the answer was blocked."""
    guards: Guards = context.prepared
    answer = context.response
    if not guards.has(CheckPlace.OUTPUT, Action.BLOCK):
        return None
    # A model that writes such a mark itself was not blocked.
    if isinstance(answer, StreamResult) and answer.text in context.state(GUARDRAIL_HOLDS):
        return _end_run(answer.text)
    return None


async def _after_call(context: AfterToolExecuteContext) -> StateCommand | None:
    """End the run if a review was declined or failed; note results that came from outside."""
    call, resume = context.call, context.resume
    if call.name != REVIEW:
        is_answered = resume is not None and (resume.result is not None or resume.reason)
        is_checked = is_answered and _asks_about_input(context.prepared)
        return StateCommand().update(ANSWERED, call.id) if is_checked else None
    is_refused = resume is not None and resume.action is DecisionAction.CANCEL
    if not is_refused and context.result.status is not ToolStatus.ERROR:
        return None
    reason = f"a review of guardrail '{call.arguments.get('check')}' did not let it pass"
    if context.result.metadata.get("code") == "guardrail":
        reason = f"{reason}. {context.result.message}"
    return _end_run(reason).update(WITHHELD, (call.id, None))


async def _note_cleared(context: RunEndContext) -> StateCommand | None:
    """Store how much of the transcript was checked, so that no later run checks it again."""
    guards: Guards = context.prepared
    if not guards.has(CheckPlace.INPUT, Action.ASK) or _find_uncleared(context) is not None:
        return None
    command = StateCommand().update(CLEARED, len(context.messages))
    return command.update(ANSWERED, None) if context.state(ANSWERED) else command


def _find_uncleared(context: BeforeInferenceContext | RunEndContext) -> CheckFinding | None:
    """The first objection that needs a review, in the input that is not cleared yet."""
    guards: Guards = context.prepared
    if not _asks_about_input(guards):
        return None
    judged = None
    for text in _list_uncleared(context, _text):
        found = guards.find_review(CheckPlace.INPUT, text, Action.ASK)
        if found is not None and found.kinds:
            return found
        judged = judged or found
    return judged


def _asks_about_input(guards: Guards) -> bool:
    return guards.has(CheckPlace.INPUT, Action.ASK) or bool(guards.list_judges(CheckPlace.INPUT))


def _list_uncleared(
    context: BeforeInferenceContext | RunEndContext, write: Callable[[Any], str]
) -> list[str]:
    """The texts from outside that are not cleared yet; the context of the run is the first."""
    messages, answered = context.messages[context.state(CLEARED) :], context.state(ANSWERED)
    # Without metadata no run has written it: a client has brought it with its history.
    texts = [
        _content_text(it)
        for it in messages
        if it.role in (Role.USER, Role.SYSTEM) or it.metadata is None or it.tool_call_id in answered
    ]
    if context.context and not context.state(CONTEXT_CLEARED):
        texts.insert(0, f"{_CONTEXT}{write(dict(context.context))}")
    return texts


def _end_run(reason: str) -> StateCommand:
    return StateCommand().update(RUN_LIFECYCLE, End(termination=Blocked(reason=reason)))


def _mark(found: CheckFinding) -> str:
    return f"{_BLOCKED}{found.rule}': {', '.join(found.kinds)}]"


def _content_text(message: Message) -> str:
    """All text of a message: its text blocks, and every field of the other blocks."""
    if all(isinstance(it, Text) for it in message.content):
        return message.text
    rest = [it for it in message.content if not isinstance(it, Text)]
    files = [text for it in rest if (text := text_in_file(it)) is not None]
    fields = _texts(msgspec.to_builtins(list(map(strip_bytes, rest))))
    return "\n".join((message.text, *files, *fields))


def _answer_text(answer: StreamResult) -> str:
    thought = (it.thinking for it in answer.content if isinstance(it, Thinking))
    return "\n".join((answer.text, *thought))


def _text(value: Any) -> str:
    """All text of a JSON value: as encoded, and each string unescaped."""
    if isinstance(value, str):
        return value
    return "\n".join((_encode(value), *_texts(value)))


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, it in value.items():
            yield from (key, *_texts(it))
    elif isinstance(value, list | tuple):
        for it in value:
            yield from _texts(it)
