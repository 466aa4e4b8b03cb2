"""`/v1/chat/completions` and `/v1/models`."""

from awaken.contracts.storage.dispatch import InputMode
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall
from awaken.transport.sse import EventStreamReply

from .answer import Activation
from .chat_encoder import CANCELLED, ChatEncoder
from .decode import OpenAiOptions, request_of
from .start import begin, check_model, read_thread_header, thread_header
from .wire import CreateChat

NO_RETRY = ((b"x-should-retry", b"false"),)
"""A failed run may have had effects: clients must not retry it automatically."""


async def create_completion(call: RouteCall) -> Reply:
    """Run an agent in a chat."""
    body: CreateChat = call.body
    limit = body.max_completion_tokens or body.max_tokens
    options = OpenAiOptions(limit, body.reasoning_effort, body.response_format)
    asked = request_of(body, read_thread_header(call), body.messages, options)
    begun, after = await begin(call, asked, {}, "", InputMode.INTERRUPT)
    created = call.view.now_ms() // 1000
    frame = {"id": f"chatcmpl-{begun.run_id}", "created": created, "model": body.model}
    has_usage = bool((body.stream_options or {}).get("include_usage"))
    encoder = ChatEncoder(frame, begun.run_id, has_usage=has_usage)
    encoder.is_formed = asked.output_schema is not None
    headers = thread_header(begun.thread_id)
    answer = Activation(begun.stream, is_later=after is not None)
    if body.stream:
        return EventStreamReply(answer, encoder, headers)
    await encoder.read(answer)
    if encoder.failure is not None:
        code = encoder.failure.code or "server_error"
        status = 409 if encoder.failure is CANCELLED else 500
        raise HttpError(status, code, encoder.failure.message, NO_RETRY)
    return as_json(encoder.document(), headers=headers)


async def list_models(call: RouteCall) -> Reply:
    """List the agents as models."""
    return as_json({"object": "list", "data": [_model(id_) for id_ in await call.view.agents()]})


async def get_model(call: RouteCall) -> Reply:
    """Get one agent as a model."""
    model_id = call.path["model_id"]
    await check_model(call, model_id)
    return as_json(_model(model_id))


def _model(agent_id: str) -> dict[str, object]:
    return {"id": agent_id, "object": "model", "created": 0, "owned_by": "awaken"}
