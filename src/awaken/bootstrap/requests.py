"""Builds a run's request from a caller's arguments, and refuses malformed ones."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from awaken.authoring.pydantic_models import encode_claim, is_made_by_pydantic
from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import Adapter, RunMode, RunOrigin
from awaken.contracts.messages.content import ContentBlock, Text
from awaken.contracts.messages.message import Input, Message, Role, user
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.runs.records import OnBusy, RunRequest
from awaken.contracts.storage.dispatch import DeliveryOptions
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.contracts.tracing import TraceContext, trace_of

from .arguments import check_list, check_members, check_names, check_text, convert_argument
from .decisions import check_decision

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent


class RunRequestOptions(TypedDict, total=False):
    """The options of a run; see `RunRequest` for what each one means."""

    overrides: InferenceOverride | Mapping[str, Any]
    frontend_tools: Sequence[ToolDescriptor]
    origin: RunOrigin | str
    run_mode: RunMode | str
    adapter: Adapter | str
    parent_run_id: str
    parent_thread_id: str
    continue_run_id: str
    run_id_hint: str
    dispatch_id: str
    session_id: str
    transport_request_id: str
    tenant_id: str
    user_id: str
    trace: TraceContext
    budgets: Sequence[Budget]
    context: Any
    """The context of a new run: a mapping, or a value of the agent's context type."""
    messages: Sequence[Message]
    """A history that the new thread begins with, answers included; it becomes `history`."""


class RunOptions(RunRequestOptions, total=False):
    """The options of a run that is started now."""

    on_busy: OnBusy | str
    """What happens while another run of the thread executes; the default is `queue`."""


class SubmitOptions(RunRequestOptions, DeliveryOptions, total=False):
    """The options of submitted input: of its run and of its delivery."""


_OPTIONS = tuple(RunOptions.__annotations__)
_SUBMITTED = tuple(RunRequestOptions.__annotations__)
_DELIVERY = tuple(DeliveryOptions.__annotations__)
_ENUMS: tuple[tuple[str, type], ...] = (
    ("origin", RunOrigin),
    ("run_mode", RunMode),
    ("adapter", Adapter),
    ("on_busy", OnBusy),
)
_IDS = (
    "agent_id",
    "thread_id",
    "parent_run_id",
    "parent_thread_id",
    "continue_run_id",
    "run_id_hint",
    "dispatch_id_hint",
    "dispatch_id",
    "session_id",
    "transport_request_id",
    "tenant_id",
    "user_id",
)
_DESCRIPTORS = "pass ToolDescriptor(id=…, parameters=…); the agent's own tools go into Agent(tools)"
_MESSAGES = "make them with awaken.messages: user(text), assistant(text), tool_answer(id, text)"
_USER = Role.USER


def run_request(
    agent_id: "str | Agent | None", input: Input, thread_id: str | None, options: RunOptions
) -> RunRequest:
    """Build a request.

    Raises:
        InvalidInput: The input or an option is malformed, or there is no such option.
    """
    named: Any = agent_id
    if type(agent_id) is not str and agent_id is not None:
        named = _name_agent(agent_id)
    if not options:  # The plain path: two ids and what `messages_of` has checked.
        request = RunRequest(agent_id=named, thread_id=thread_id, messages=messages_of(input))
        is_fine = type(named) is str and (thread_id is None or type(thread_id) is str)
        return request if is_fine else validate_request(request)
    check_names("run option", options, _OPTIONS)
    fields: dict[str, Any] = dict(options)
    if "messages" in fields:
        fields["history"] = fields.pop("messages")
    return validate_request(
        RunRequest(agent_id=named, thread_id=thread_id, messages=messages_of(input), **fields)
    )


def _name_agent(agent: Any) -> Any:
    """Return the id of an agent that is passed itself; anything else is returned unchanged."""
    # A caller that passes an agent has loaded its module; a program of ids alone does not need it.
    from awaken.authoring.agents import Agent  # noqa: PLC0415

    return agent.id if isinstance(agent, Agent) else agent


def submission(
    agent_id: "str | Agent | None", input: Input, thread_id: str | None, options: SubmitOptions
) -> tuple[RunRequest, DeliveryOptions]:
    """Build a request that is to be queued, and its delivery options.

    Raises:
        InvalidInput: The input or an option is malformed, or there is no such option.
    """
    check_names("option", options, (*_SUBMITTED, *_DELIVERY))
    given: dict[str, Any] = dict(options)
    delivery = {name: given.pop(name) for name in _DELIVERY if name in given}
    for name in ("priority", "delay_ms"):
        if type(delivery.get(name, 0)) is not int:
            raise InvalidInput(what=name, problem="pass a whole number")
    if (key := delivery.get("dedupe_key")) is not None:
        check_text("dedupe_key", key)
    request = validate_request(run_request(agent_id, input, thread_id, cast(RunOptions, given)))
    return request, cast(DeliveryOptions, delivery)


def validate_request(request: RunRequest) -> RunRequest:
    """Check the type of every field of a request: records do not check their arguments.

    Raises:
        InvalidInput: A field is malformed.
    """
    for name in _IDS:
        if (value := getattr(request, name)) is not None:
            _check_id(name, value)
    changes: dict[str, Any] = {
        name: convert_argument(name, value, kind)
        for name, kind in _ENUMS
        if not isinstance(value := getattr(request, name), kind)
    }
    if request.history != ():
        changes["history"] = tuple(check_list("messages", request.history, "user('…')"))
        check_members("messages", changes["history"], Message, _MESSAGES)
    if request.context is not None:
        changes["context"] = _context(request.context)
    if request.overrides is not None:
        changes["overrides"] = _overrides(request.overrides)
    if request.frontend_tools != ():
        changes["frontend_tools"] = _frontend_tools(request.frontend_tools)
    if request.trace is not None:
        changes["trace"] = _trace(convert_argument("trace", request.trace, TraceContext))
    if request.budgets != ():
        changes["budgets"] = check_budgets(request.budgets)
    changes["messages"] = tuple(check_list("messages", request.messages, "user('…')"))
    check_members("messages", changes["messages"], Message, _MESSAGES)
    if request.decisions != ():
        changes["decisions"] = _decisions(request.decisions)
    return msgspec.structs.replace(request, **changes)


def start_request(
    agent_id: "str | Agent | RunRequest | None",
    input: Input,
    thread_id: str | None,
    options: RunOptions,
) -> RunRequest:
    """Build a request, or check a complete `RunRequest`.

    Raises:
        InvalidInput: An argument is malformed, or was passed besides a `RunRequest`.
    """
    if not isinstance(agent_id, RunRequest):
        return run_request(agent_id, input, thread_id, options)
    given = {"input": None if input == () else input, "thread_id": thread_id, **options}
    if extras := [name for name, value in given.items() if value is not None]:
        problem = "a RunRequest already says everything; put them into it"
        raise InvalidInput(what=f"start(RunRequest) with {', '.join(extras)}", problem=problem)
    return validate_request(agent_id)


def messages_of(input: Input) -> tuple[Message, ...]:
    """Convert input to messages; consecutive blocks make one message.

    Raises:
        InvalidInput: The input is neither text, blocks nor messages.
    """
    if type(input) is str:
        return (Message(role=_USER, content=(Text(text=input),)),)
    if isinstance(input, Message):
        return (input,)
    if isinstance(input, str | ContentBlock):
        return (user(input),)
    if isinstance(input, Mapping):
        return (user(_encode_arguments(dict(input))),)
    if not isinstance(input, Sequence):
        raise InvalidInput(what="The input", problem="pass text, content blocks or messages")
    messages: list[Message] = []
    blocks: list[ContentBlock] = []
    for part in input:
        if isinstance(part, str | ContentBlock):
            blocks.extend(user(part).content)
            continue
        if not isinstance(part, Message):
            problem = f"pass text, content blocks or messages; {_MESSAGES}"
            raise InvalidInput(what="The input", problem=problem)
        if blocks:
            messages.append(user(blocks))
            blocks = []
        messages.append(part)
    return (*messages, user(blocks)) if blocks else tuple(messages)


def _encode_arguments(given: dict[str, Any]) -> str:
    """Return the arguments of a workflow as the JSON text that carries them on every wire."""
    # Only those who start workflows have arguments.
    from awaken.authoring.workflows import encode_input  # noqa: PLC0415

    try:
        return encode_input(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="The input", problem=str(error)) from error


def _check_id(name: str, value: object) -> None:
    if isinstance(value, RunRequest):
        problem = "pass an id; a whole RunRequest goes to start(request)"
        raise InvalidInput(what=name, problem=problem)
    check_text(name, value)


def _context(context: object) -> dict[str, Any]:
    """Convert a context to the JSON object that is stored with the run."""
    try:
        # msgspec would take a dataclass of pydantic for a plain one, and ignore its aliases.
        is_foreign = is_made_by_pydantic(type(context))
        claim = encode_claim(context) if is_foreign else context
        data = msgspec.to_builtins(claim, enc_hook=encode_claim, str_keys=True)
        _check_finite(data)
        data = msgspec.json.decode(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="context", problem=str(error)) from error
    if not isinstance(data, dict):
        problem = "pass a mapping, or a value of the agent's context type"
        raise InvalidInput(what="context", problem=problem)
    return data


def _check_finite(value: Any, place: str = "$") -> None:
    """Refuse numbers that JSON does not have: they would become null."""
    if isinstance(value, float) and not math.isfinite(value):
        message = f"a number is not finite - at `{place}`"
        raise ValueError(message)
    if isinstance(value, dict):
        for name, it in value.items():
            _check_finite(it, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for at, it in enumerate(value):
            _check_finite(it, f"{place}[{at}]")


def _overrides(overrides: object) -> InferenceOverride:
    # Nested fields are checked too: they are stored, and must be readable when the run resumes.
    data = msgspec.to_builtins(overrides) if isinstance(overrides, msgspec.Struct) else overrides
    checked: InferenceOverride = convert_argument("overrides", data, InferenceOverride)
    return checked


def _frontend_tools(tools: object) -> tuple[ToolDescriptor, ...]:
    members = check_list("frontend_tools", tools, "ToolDescriptor(…)")
    check_members("frontend_tools", members, ToolDescriptor, _DESCRIPTORS)
    return tuple(members)


def check_budgets(budgets: object) -> tuple[Budget, ...]:
    """Check budgets, and return them as records.

    Raises:
        InvalidInput: It is not a list of budgets, or one of them is malformed.
    """
    members = check_list("budgets", budgets, "Budget(tokens=…)")
    check_members("budgets", members, Budget, "pass Budget(tokens=…, cost_usd=…, time_ms=…)")
    return tuple(convert_argument("budgets", msgspec.to_builtins(it), Budget) for it in members)


def _decisions(decisions: object) -> tuple[tuple[str, Any], ...]:
    pairs = check_list("decisions", decisions, "(ticket_id, ToolCallResume(…))")
    found = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            problem = "pass pairs of an id and a ToolCallResume"
            raise InvalidInput(what="decisions", problem=problem)
        check_text("ticket_id", pair[0])
        found.append((pair[0], check_decision(pair[1])))
    return tuple(found)


def _trace(trace: TraceContext) -> TraceContext:
    found = trace_of(trace.traceparent, trace.tracestate)
    if found != trace:
        problem = "it is no W3C trace context: '00-<32 hex digits>-<16 hex digits>-01'"
        raise InvalidInput(what="trace", problem=problem)
    return trace
