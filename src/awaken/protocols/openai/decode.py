"""From OpenAI's requests to ours."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from awaken.contracts import identity, inference, runs, tools
from awaken.contracts.content import ContentBlock, Text, text_of
from awaken.contracts.messages import Message, Role, ToolCall, assistant, tool_answer, user
from awaken.contracts.permissions import remember_of
from awaken.contracts.suspension import DecisionAction, ToolCallResume
from awaken.transport.json_bodies import decoded_text
from awaken.transport.media import inline, linked

from .wire import Asking, Content, Input, Item, Media, Part, Tool, bad_request

_ROLES = {str(it): it for it in (Role.USER, Role.SYSTEM, Role.ASSISTANT)}
_ROLES["developer"] = Role.SYSTEM
_EFFORTS = {str(it): it for it in inference.Effort}
_EFFORTS |= {"minimal": inference.Effort.LOW, "xhigh": inference.Effort.MAX}
_OURS = ("mcp_", "reasoning", "item_reference")
"""Answers to approvals, and items of earlier responses that say nothing when they come back."""


def request_of(
    body: Asking, thread_id: str | None, items: Input, max_tokens: int | None, effort: str | None
) -> runs.RunRequest:
    """What a client wants to be run, with all the messages that it sends.

    Raises:
        Problem: There is something in it that no agent could heed.
    """
    thinking, warmth = _EFFORTS.get(effort or ""), body.temperature
    overrides = inference.InferenceOverride(
        temperature=warmth, top_p=body.top_p, max_tokens=max_tokens, reasoning_effort=thinking
    )
    functions = tuple(map(_frontend_tool, body.tools or ()))
    return runs.RunRequest(
        thread_id=thread_id,
        agent_id=body.model,
        messages=(user(items),) if isinstance(items, str) else tuple(_messages(items)),
        overrides=None if overrides.is_empty else overrides,
        frontend_tools=() if body.tool_choice == "none" else functions,
        adapter=identity.Adapter.OPENAI,
    )


def approvals_of(items: Input) -> Mapping[str, ToolCallResume]:
    """What is approved and what is not, by the ids of the requests."""
    given = [] if isinstance(items, str) else items
    answers = [item for item in given if item.type == "mcp_approval_response"]
    return {item.approval_request_id: _approval(item) for item in answers}


def _approval(item: Item) -> ToolCallResume:
    action = DecisionAction.RESUME if item.approve else DecisionAction.CANCEL
    result = {"approved": item.approve, "reason": item.reason}
    told = ToolCallResume(decision_id="", action=action, result=result, reason=item.reason)
    return msgspec.structs.replace(told, remember=remember_of(item.remember))


def _messages(items: Sequence[Item]) -> Iterator[Message]:
    for item in items:
        match item.type, item.role:
            case "function_call", _:
                yield assistant((), [_call(item.call_id, item.name, item.arguments)])
            case "function_call_output", _:
                yield tool_answer(item.call_id, _only_text(item.output))
            case "message", "tool":
                yield tool_answer(item.tool_call_id, _only_text(item.content))
            case "message", role if role in _ROLES:
                asked = [(it.id, it.function or it) for it in item.tool_calls or ()]
                calls = tuple(_call(id_, it.name, it.arguments) for id_, it in asked)
                content = _blocks(item.content)
                yield Message(role=_ROLES[role], content=content, tool_calls=calls or None)
            case type_, role if not type_.startswith(_OURS):
                raise bad_request(f"Input of type '{type_}' and role '{role}' is not supported.")


def _frontend_tool(tool: Tool) -> tools.ToolDescriptor:
    given = tool.function or tool
    if not given.name:
        raise bad_request("A function needs a name.")
    about, takes = given.description or "", given.parameters or tools.EMPTY_PARAMETERS
    return tools.ToolDescriptor(id=given.name, name=given.name, description=about, parameters=takes)


def _call(call_id: str, name: str, arguments: str) -> ToolCall:
    try:
        decoded = decoded_text(arguments or "{}")
    except msgspec.DecodeError as error:
        raise bad_request(f"The arguments of call '{call_id}' are no JSON: {error}") from error
    return ToolCall(id=call_id, name=name, arguments=decoded)


def _only_text(content: Content) -> str:
    blocks = _blocks(content)
    if not all(isinstance(block, Text) for block in blocks):
        raise bad_request("The output of a function can only be text.")
    return text_of(blocks)


def _blocks(content: Content) -> tuple[ContentBlock, ...]:
    if content is None or isinstance(content, str):
        return (Text(text=content),) if content else ()
    return tuple(_block(part) for part in content)


def _block(part: Part) -> ContentBlock:
    match part.type:
        case "text" | "input_text" | "output_text" | "refusal":
            return Text(text=part.text or part.refusal)
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
    """A file from a web address, a data URI, or bare base64."""
    if not given:
        raise bad_request("Send media as a URL or as data; uploaded files are not known here.")
    return (linked if ":" in given else inline)(given, media_type, title, kind)
