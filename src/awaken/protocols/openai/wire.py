"""The requests of OpenAI clients, and the errors that they get.

Fields that have no meaning for an agent are left out, and so ignored.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from awaken.contracts.errors import InvalidContext
from awaken.contracts.record import Record, always
from awaken.services.request_limits import HISTORY_MAX, ITEMS_MAX
from awaken.transport.asgi import Bytes, as_json
from awaken.transport.problems import HttpError


class Media(Record, frozen=True, kw_only=True):
    """An image, a file or audio inside a part of a chat message."""

    url: str | None = None
    file_data: str | None = None
    filename: str | None = None
    data: str | None = None
    format: str = "wav"


class OpenAiPart(Media, frozen=True, kw_only=True):
    """A part of a message's content, in either API."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | Media | None = None
    file_url: str | None = None
    file: Media | None = None
    input_audio: Media | None = None


Content = str | tuple[OpenAiPart, ...] | None


class Function(Record, frozen=True, kw_only=True):
    """A function: as a tool it has parameters, as a call it has arguments."""

    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    arguments: str = ""


class OpenAiTool(Function, frozen=True, kw_only=True):
    """A tool of the client, or a call of one; chat puts the function one level deeper."""

    type: Literal["function"] = always("function")
    id: str = ""
    function: Function | None = None


class Item(Record, frozen=True, kw_only=True):
    """One item of a Responses input, or one message of a chat.

    Clients send back items that they received, including null fields.
    """

    type: str = "message"
    id: str | None = None
    role: str | None = "user"
    content: Content = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content = None
    error: Any = None
    approval_request_id: str | None = None
    approve: bool | None = None
    remember: Any = None
    """Whether the approval holds for later calls as well; not part of OpenAI's API."""
    reason: str | None = None
    tool_calls: tuple[OpenAiTool, ...] | None = None
    tool_call_id: str | None = None


Items = Annotated[tuple[Item, ...], Meta(max_length=HISTORY_MAX + ITEMS_MAX)]
Input = str | Items
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Limit = Annotated[int, Meta(ge=1)]


class ReasoningOptions(Record, frozen=True, kw_only=True):
    """The reasoning effort."""

    effort: Effort | None = None


class SchemaFormat(Record, frozen=True, kw_only=True):
    """A JSON Schema for an answer."""

    name: str = "answer"
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class Format(SchemaFormat, frozen=True, kw_only=True):
    """The format of an answer; chat puts the schema one level deeper."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: SchemaFormat | None = None


class TextOptions(Record, frozen=True, kw_only=True):
    """The text options of an answer."""

    format: Format | None = None


class AgentRequest(Record, frozen=True, kw_only=True):
    """The fields that both APIs share."""

    model: str
    tools: Annotated[tuple[OpenAiTool, ...], Meta(max_length=ITEMS_MAX)] | None = None
    tool_choice: Any = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    metadata: Any = None
    context: dict[str, Any] | None = None
    """The context of a new run; an extra field, or JSON in the `context` of the metadata."""


class CreateResponse(AgentRequest, frozen=True, kw_only=True):
    """The body of `POST /v1/responses`."""

    input: Input = ()
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    max_output_tokens: Limit | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    background: bool | None = None


class CreateChat(AgentRequest, frozen=True, kw_only=True):
    """The body of `POST /v1/chat/completions`."""

    messages: Items
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    reasoning_effort: Effort | None = None
    response_format: Format | None = None
    n: Literal[1] | None = None
    stream_options: dict[str, Any] | None = None


def refusal(problem: HttpError) -> Bytes:
    """Encode an error for OpenAI clients."""
    # In this protocol a body that does not fit is a bad request.
    is_body = problem.status == 422 and problem.code != InvalidContext.code
    status = 400 if is_body else problem.status
    type_ = "server_error" if status >= 500 else "invalid_request_error"
    return as_json(error_body(problem.message, problem.code, type_), status, problem.headers)


def error_body(message: str, code: str | None, type_: str = "server_error") -> dict[str, object]:
    """The body of an error."""
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def bad_request(message: str, code: str = "invalid_value") -> HttpError:
    """The error for an invalid request."""
    return HttpError(400, code, message)
