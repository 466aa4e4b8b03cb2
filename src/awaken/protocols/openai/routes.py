"""The routes for OpenAI clients."""

from typing import Any

from awaken.transport.routes import Access, ApiRoute

from . import chat, responses
from .wire import CreateChat, CreateResponse, refusal


def _route(method: str, path: str, handle: Any, access: Access, **more: Any) -> ApiRoute:
    more |= {"tag": "openai", "refuse": refusal}
    summary = handle.__doc__.partition("\n")[0]
    return ApiRoute(method=method, path=path, handle=handle, access=access, summary=summary, **more)


_ONE = "/v1/responses/{response_id}"
_NEW = {"may_stream": True, "headers": ("X-Thread-Id",)}
_FOLLOWED = {"may_stream": True, "headers": ("Last-Event-ID",)}

ROUTES = (
    _route(
        "POST",
        "/v1/responses",
        responses.create_response,
        Access.INVOKE,
        body=CreateResponse,
        **_NEW,
    ),
    _route(
        "GET", _ONE, responses.get_response, Access.READ, query=responses.FollowQuery, **_FOLLOWED
    ),
    _route("DELETE", _ONE, responses.delete_response, Access.ADMIN),
    _route("POST", f"{_ONE}/cancel", responses.cancel_response, Access.INVOKE),
    _route("GET", f"{_ONE}/input_items", responses.list_input_items, Access.READ),
    _route(
        "POST",
        "/v1/chat/completions",
        chat.create_completion,
        Access.INVOKE,
        body=CreateChat,
        **_NEW,
    ),
    _route("GET", "/v1/models", chat.list_models, Access.READ),
    _route("GET", "/v1/models/{model_id}", chat.get_model, Access.READ),
)
