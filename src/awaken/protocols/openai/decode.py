"""Decodes OpenAI requests into run requests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from awaken.contracts import identity
from awaken.contracts.messages.content import ContentBlock, Text, text_of
from awaken.contracts.messages.message import Message, Role, ToolCall, assistant, tool_answer, user
from awaken.contracts.models import inference
from awaken.contracts.runs import records as runs
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.contracts.tools import tool as tools
from awaken.transport.json_bodies import decode_text
from awaken.transport.media import content_from_base64, content_from_url

from .answer import as_text
from .wire import (
    AgentRequest,
    Content,
    Format,
    Input,
    Item,
    Media,
    OpenAiPart,
    OpenAiTool,
    bad_request,
)

_ROLES = {str(it): it for it in (Role.USER, Role.SYSTEM, Role.ASSISTANT)}
_ROLES["developer"] = Role.SYSTEM
_EFFORTS = {str(it): it for it in inference.Effort}
_EFFORTS |= {"minimal": inference.Effort.LOW, "xhigh": inference.Effort.MAX}
_OURS = ("mcp_", "reasoning", "item_reference")
"""Answers to approvals, and items of earlier responses that add nothing when sent back."""
_ANY_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}


class OpenAiOptions(NamedTuple):
    """The options that the two APIs name differently."""

    max_tokens: int | None
    effort: str | None
    format: Format | None


def request_of(
    body: AgentRequest, thread_id: str | None, items: Input, options: OpenAiOptions
) -> runs.RunRequest:
    """Build the run request of a client, with all the messages that it sends.

    Raises:
        HttpError: It has a field or an item that is not supported.
    """
    overrides = inference.InferenceOverride(
        temperature=body.temperature,
        top_p=body.top_p,
        max_tokens=options.max_tokens,
        reasoning_effort=_EFFORTS.get(options.effort or ""),
    )
    functions = tuple(map(_frontend_tool, body.tools or ()))
    return runs.RunRequest(
        thread_id=thread_id,
        agent_id=body.model,
        messages=(user(items),) if isinstance(items, str) else tuple(_messages(items)),
        overrides=None if overrides.is_empty else overrides,
        frontend_tools=() if body.tool_choice == "none" else functions,
        output_schema=_output_schema(options.format),
        tool_choice=_tool_choice(body.tool_choice),
        context=_context(body),
        adapter=identity.Adapter.OPENAI,
    )


def _context(body: AgentRequest) -> Any:
    """The context of a run: a field of its own, else the JSON in `context` of the metadata."""
    given = runs.context_in(body.metadata)
    if body.context is not None or not isinstance(given, str):
        return body.context or given
    try:
        return decode_text(given)
    except msgspec.DecodeError as error:
        raise bad_request(f"The `context` of the metadata is no JSON: {error}") from error


def _output_schema(wanted: Format | None) -> dict[str, Any] | None:
    """The schema that the answer must fit; `json_object` accepts any object."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return _ANY_OBJECT
    schema = (wanted.json_schema or wanted).schema
    if schema is None:
        raise bad_request("The format 'json_schema' needs a schema.")
    return schema


def _tool_choice(given: Any) -> str | None:
    """The tool choice of the first answer: the name of a function, `required` or `none`."""
    if given in (None, "auto"):
        return None
    if given in ("none", "required"):
        return str(given)
    named = given if isinstance(given, dict) and given.get("type") == "function" else {}
    inner = named.get("function")
    name = inner.get("name") if isinstance(inner, dict) else named.get("name")
    if not isinstance(name, str) or not name:
        raise bad_request("tool_choice is 'auto', 'none', 'required' or a function.")
    return name


def approvals_of(items: Input) -> Mapping[str, ToolCallResume]:
    """Read the answers to approvals, by the ids of their requests.

    Raises:
        HttpError: An answer neither approves nor declines, or contradicts another one.
    """
    given = [] if isinstance(items, str) else items
    answers = [item for item in given if item.type == "mcp_approval_response"]
    found: dict[str, ToolCallResume] = {}
    for item in answers:
        name, answer = item.approval_request_id or "", _approval(item)
        if found.setdefault(name, answer) != answer:
            raise bad_request(f"There are two answers to approval '{name}', which differ.")
    return found


def _approval(item: Item) -> ToolCallResume:
    if item.approve is None:
        raise bad_request(f"Approval '{item.approval_request_id}': `approve` must be a boolean.")
    action = DecisionAction.RESUME if item.approve else DecisionAction.CANCEL
    result = {"approved": bool(item.approve), "reason": item.reason}
    decision = ToolCallResume(decision_id="", action=action, result=result, reason=item.reason)
    return msgspec.structs.replace(decision, remember=remember_of(item.remember))


def _messages(items: Sequence[Item]) -> Iterator[Message]:
    for item in items:
        match item.type, item.role:
            case "function_call", _:
                yield assistant((), [_call(item.call_id, item.name, item.arguments)])
            case "mcp_approval_request", _:
                # It marks the messages before it as history; its answer is not a message.
                yield assistant((), [_call(item.id, item.name, item.arguments)])
            case "function_call_output", _:
                yield tool_answer(item.call_id or "", _only_text(item.output))
            case "mcp_call", _ if item.id:
                # The results of the agent's own tools belong to the history.
                error = "" if item.error is None else as_text(item.error)
                text = _only_text(item.output) or error
                yield assistant((), [_call(item.id, item.name, item.arguments)])
                yield tool_answer(item.id, text)
            case "message", "tool":
                yield tool_answer(item.tool_call_id or "", _only_text(item.content))
            case "message", role if role in _ROLES:
                asked = [(it.id, it.function or it) for it in item.tool_calls or ()]
                calls = tuple(_call(id_, it.name, it.arguments) for id_, it in asked)
                content = _blocks(item.content)
                yield Message(role=_ROLES[role], content=content, tool_calls=calls or None)
            case type_, role if not type_.startswith(_OURS):
                raise bad_request(f"Input of type '{type_}' and role '{role}' is not supported.")


def _frontend_tool(tool: OpenAiTool) -> tools.ToolDescriptor:
    given = tool.function or tool
    if not given.name:
        raise bad_request("A function needs a name.")
    about, takes = given.description or "", given.parameters or tools.EMPTY_PARAMETERS
    return tools.ToolDescriptor(id=given.name, name=given.name, description=about, parameters=takes)


def is_own_call(call_id: str | None) -> bool:
    """Whether a call in a client's history is of one of the agent's own tools."""
    return (call_id or "").startswith("mcp_")


def _call(call_id: str | None, name: str | None, arguments: str | None) -> ToolCall:
    try:
        decoded = decode_text(arguments or "{}")
    except msgspec.DecodeError as error:
        raise bad_request(f"The arguments of call '{call_id}' are no JSON: {error}") from error
    return ToolCall(id=call_id or "", name=name or "", arguments=decoded)


def _only_text(content: Content) -> str:
    blocks = _blocks(content)
    if not all(isinstance(block, Text) for block in blocks):
        raise bad_request("The output of a function can only be text.")
    return text_of(blocks)


def _blocks(content: Content) -> tuple[ContentBlock, ...]:
    if content is None or isinstance(content, str):
        return (Text(text=content),) if content else ()
    return tuple(_block(part) for part in content)


def _block(part: OpenAiPart) -> ContentBlock:
    match part.type:
        case "text" | "input_text" | "output_text" | "refusal":
            return Text(text=part.text or part.refusal or "")
        case "image_url" | "input_image":
            shown = part.image_url
            return _file(shown.url if isinstance(shown, Media) else shown, "image/png", "image")
        case "file" | "input_file":
            file = part.file or part
            given = part.file_url or file.file_data
            return _file(given, "application/pdf", "document", file.filename)
        case "input_audio":
            sound = part.input_audio or Media()
            return _file(sound.data, f"audio/{sound.format}", "audio")
        case other:
            raise bad_request(f"Content of type '{other}' is not supported.")


def _file(given: str | None, media_type: str, kind: str, title: str | None = None) -> ContentBlock:
    """Build content from a web address, a data URI, or plain base64."""
    if not given:
        raise bad_request("Send media as a URL or as data; uploaded files are not known here.")
    return (content_from_url if ":" in given else content_from_base64)(
        given, media_type, title, kind
    )
