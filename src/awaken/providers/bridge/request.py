"""An inference request as the messages, parameters and settings of pydantic-ai."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Text,
    Thinking,
    Video,
)
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ReasoningEffort,
)

from .answer import ORIGIN, Signature


def settings_of(request: InferenceRequest) -> ModelSettings:
    """Return the settings of a request; provider options are passed to the library unchanged."""
    asked = request.overrides or InferenceOverride()
    settings = {
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "thinking": _encode_effort(asked.reasoning_effort),
        **(asked.provider_options or {}),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    return cast(ModelSettings, given)


def _encode_effort(effort: ReasoningEffort | None) -> str | bool | None:
    if isinstance(effort, EffortBudget):
        message = "the bridge takes no budget of reasoning tokens: name an effort"
        raise InvalidRequest(message)
    return False if effort is Effort.NONE else effort and effort.value


def parameters_of(request: InferenceRequest, profile: ModelProfile) -> ModelRequestParameters:
    """Return the tools and the schema of the answer, enforced if the model can, else prompted."""
    tools = [
        ToolDefinition(
            name=tool.id, description=tool.description, parameters_json_schema=tool.parameters
        )
        for tool in request.tools
    ]
    if request.output_schema is None:
        return ModelRequestParameters(function_tools=tools)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if profile.get("supports_json_schema_output") else "prompted",
        output_object=OutputObjectDefinition(json_schema=request.output_schema, name="answer"),
    )


def messages_of(request: InferenceRequest) -> list[ModelMessage]:
    """Return the conversation; consecutive messages to the model are one request."""
    asked: list[ModelRequestPart] = [SystemPromptPart(text) for text in request.system if text]
    names = {
        call.id: call.name for message in request.messages for call in message.tool_calls or ()
    }
    conversation: list[ModelMessage] = []
    for message in request.messages:
        if message.role is not Role.ASSISTANT:
            asked.extend(_encode_input(message, names))
            continue
        if asked:
            conversation.append(ModelRequest(asked))
            asked = []
        conversation.append(_encode_answer(message))
    return [*conversation, ModelRequest(asked)] if asked else conversation


def _encode_input(message: Message, names: dict[str, str]) -> Iterator[ModelRequestPart]:
    match message.role:
        case Role.SYSTEM:
            yield SystemPromptPart(message.text)
        case Role.TOOL:
            call_id, content = message.tool_call_id or "", [*_contents(message)]
            result: Any = (
                message.text if all(isinstance(part, str) for part in content) else content
            )
            yield ToolReturnPart(names.get(call_id, "unknown"), result, call_id)
        case _:
            yield UserPromptPart([*_contents(message)])


def _contents(message: Message) -> Iterator[UserContent]:
    for block in message.content:
        match block:
            case Text(text=text):
                yield text
            case Image() | Document() | Audio() | Video():
                yield _media(block)


def _media(block: Image | Document | Audio | Video) -> UserContent:
    source = block.source
    if not isinstance(source, Base64Source):
        return _address(block, source.url)
    try:
        return BinaryContent(b64decode(source.data, validate=True), media_type=source.media_type)
    except ValueError as error:
        message = f"the data of a block of type '{source.media_type}' is not base64"
        raise InvalidRequest(message) from error


def _address(block: Image | Document | Audio | Video, url: str) -> UserContent:
    match block:
        case Image():
            return ImageUrl(url)
        case Document():
            return DocumentUrl(url)
        case Audio():
            return AudioUrl(url)
        case Video():
            return VideoUrl(url)


def _encode_answer(message: Message) -> ModelResponse:
    parts = [part for block in message.content if (part := _encode_block(block)) is not None]
    calls = [
        ToolCallPart(call.name, _arguments(call.arguments), call.id)
        for call in message.tool_calls or ()
    ]
    names = (part.provider_name for part in parts if isinstance(part, ThinkingPart))
    return ModelResponse([*parts, *calls], provider_name=next(names, None))


def _arguments(given: Any) -> str | dict[str, Any] | None:
    return (
        given if given is None or isinstance(given, dict) else msgspec.json.encode(given).decode()
    )


def _encode_block(block: ContentBlock) -> ModelResponsePart | None:
    match block:
        case Text(text=text) if text:
            return TextPart(text)
        case Thinking(thinking=thought, signature=wanted, origin=origin) if origin == ORIGIN:
            known = msgspec.json.decode(wanted, type=Signature) if wanted else Signature()
            return ThinkingPart(thought, **msgspec.structs.asdict(known))
    return None
