"""The list of operations; the routes of both transports are built from it."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.specs.remote_registries import CARD_PATH
from awaken.outbound.guard import Outbound
from awaken.transport.asgi import JSON, Bytes, Header, Reply, as_json, encode_json
from awaken.transport.json_bodies import decode_body
from awaken.transport.problems import HttpError, hide_problem_namespace, to_http_error
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol
from awaken.transport.sse import EventStreamReply

from . import configs, wire
from . import operations as ops
from .card import PREFIX, PROTOCOL_VERSION, agent_card, get_extended_card
from .delivery import run_deliverer
from .projection import TaskEncoder
from .refusals import rest_error, rest_refusal, rpc_error, rpc_refusal
from .states import Payload

A2A_JSON: Header = (b"content-type", b"application/a2a+json")
_OPAQUE = ("data", "metadata")
_RPC = msgspec.json.Decoder(wire.RpcRequest)
_STREAMS = (ops.stream_message, ops.subscribe)


class Operation(NamedTuple):
    """One operation of the protocol: its JSON-RPC method, and its path over HTTP+JSON."""

    name: str
    method: str
    path: str
    params: type[wire.Request]
    run: Callable[[wire.Ask[Any]], Awaitable[Payload | ops.TaskStream]]

    @property
    def access(self) -> Access:
        """What callers must be allowed to do."""
        return Access.READ if self.method == "GET" else Access.INVOKE


_TASK = "/tasks/{id}"
_SENT, _NAMED, _PUSH = wire.SendMessage, wire.TaskRequest, wire.PushConfigName
_CONFIG, _CONFIGS = "TaskPushNotificationConfig", "/tasks/{task_id}/pushNotificationConfigs"
OPERATIONS = (
    Operation("SendMessage", "POST", "/message:send", _SENT, ops.send_message),
    Operation("SendStreamingMessage", "POST", "/message:stream", _SENT, ops.stream_message),
    Operation("ListTasks", "GET", "/tasks", wire.ListTasks, ops.list_tasks),
    Operation("SubscribeToTask", "GET", f"{_TASK}:subscribe", _NAMED, ops.subscribe),
    Operation("CancelTask", "POST", f"{_TASK}:cancel", _NAMED, ops.cancel_task),
    Operation("GetTask", "GET", _TASK, _NAMED, ops.get_task),
    Operation(f"Create{_CONFIG}", "POST", _CONFIGS, wire.PushConfig, configs.create_config),
    Operation(f"List{_CONFIG}s", "GET", _CONFIGS, _PUSH, configs.list_configs),
    Operation(f"Get{_CONFIG}", "GET", f"{_CONFIGS}/{{id}}", _PUSH, configs.get_config),
    Operation(f"Delete{_CONFIG}", "DELETE", f"{_CONFIGS}/{{id}}", _PUSH, configs.delete_config),
    Operation("GetExtendedAgentCard", "GET", "/extendedAgentCard", wire.Request, get_extended_card),
)
_NAMES = {it.name: it.encode_name for type_ in wire.types() for it in msgspec.structs.fields(type_)}
"""The JSON names of request fields, by their protobuf names."""
METHODS = {operation.name: operation for operation in OPERATIONS}


def a2a_protocol(
    outbound: Outbound, push: configs.PushPolicy | None = None, *, asks_tokens: bool = False
) -> WireProtocol:
    """Build the protocol; push notifications are sent through `outbound`.

    With `asks_tokens` the cards say that callers need a bearer token.
    """
    routes = tuple(_routes(partial(wire.Ask, outbound=outbound, asks_tokens=asks_tokens)))
    lifespan = partial(run_deliverer, outbound=outbound, policy=push or configs.PushPolicy())
    return WireProtocol(name="a2a", routes=routes, lifespan=lifespan)


BuildAsk = Callable[[RouteCall, wire.Request], wire.Ask[wire.Request]]
"""Builds a request to an operation from a call and its parameters."""


def _routes(build_ask: BuildAsk) -> Iterator[ApiRoute]:
    route = partial(ApiRoute, tag="a2a", refuse=rest_refusal)
    # Each method checks the scope that it needs.
    rpc = partial(route, handle=partial(_rpc, build_ask), access=Access.KNOWN, refuse=rpc_refusal)
    card = partial(route, handle=partial(_card, build_ask), access=Access.OPEN)
    for prefix in (PREFIX, f"{PREFIX}/{{tenant}}"):
        for it in OPERATIONS:
            is_subscription = it.run is ops.subscribe
            has_body = it.params in (wire.SendMessage, wire.PushConfig)
            # Clients in the wild use both methods to subscribe.
            for method in (it.method, "POST") if is_subscription else (it.method,):
                yield route(
                    method=method,
                    path=prefix + it.path,
                    handle=partial(_rest, build_ask, it),
                    access=it.access,
                    summary=f"A2A {it.name}.",
                    reply=bytes if it.run in _STREAMS else None,
                    headers=("A2A-Version", *(("Last-Event-ID",) if is_subscription else ())),
                    query=None if has_body else it.params,
                    body=it.params if has_body else None,
                )
        # Some clients end every base URL with a slash.
        for path in (prefix, f"{prefix}/"):
            yield rpc(
                method="POST",
                path=path,
                summary="Every A2A operation.",
                body=bytes,
                may_stream=True,
            )
    for prefix in ("", PREFIX, f"{PREFIX}/{{tenant}}"):
        yield card(method="GET", path=prefix + CARD_PATH, summary="The A2A agent card.")


async def _card(build_ask: BuildAsk, call: RouteCall) -> Reply:
    """The public card of the server, or of one agent."""
    body = encode_json(await agent_card(build_ask(call, wire.Request())))
    tag = (b"etag", f'"{sha256(body).hexdigest()[:32]}"'.encode())
    return Bytes(200, body, [JSON, tag, (b"cache-control", b"public, max-age=60")])


async def _rest(build_ask: BuildAsk, operation: Operation, call: RouteCall) -> Reply:
    """An operation over HTTP+JSON."""
    _check_headers(call)
    path = {name: value for name, value in call.path.items() if name != "tenant"}
    params = msgspec.structs.replace(call.body or call.query, **path)
    answer = await operation.run(build_ask(call, params))
    return _reply(answer, A2A_JSON, lambda payload: payload, rest_error)


async def _rpc(build_ask: BuildAsk, call: RouteCall) -> Reply:
    """An operation over JSON-RPC."""
    request_id = None
    try:
        body: wire.RpcRequest = decode_body(call.body, _RPC)
        request_id = body.id
        _check_headers(call)
        operation, params = _method(body)
        ask = build_ask(call, params)
        ask.call.require(operation.access)
        answer = await operation.run(ask)
    except (HttpError, AwakenError) as error:
        problem = error if isinstance(error, HttpError) else to_http_error(error)
        if problem.status == 500:
            raise
        return as_json(rpc_error(hide_problem_namespace(problem, call.view.tenant_id), request_id))
    envelope = {"jsonrpc": "2.0", "id": request_id}
    refuse = partial(rpc_error, request_id=request_id)
    return _reply(answer, JSON, lambda payload: envelope | {"result": payload}, refuse)


def _reply(
    answer: Payload | ops.TaskStream,
    kind: Header,
    wrap: Callable[[Payload], Payload],
    refuse: Callable[[HttpError], Payload],
) -> Reply:
    if not isinstance(answer, ops.TaskStream):
        return Bytes(200, encode_json(wrap(answer)), [kind])
    encoder = TaskEncoder(answer.projection, wrap, refuse)
    opening = encoder.frame(answer.opening) + b"\n\n"
    return EventStreamReply(answer.stream, encoder, opening=opening)


def _check_headers(call: RouteCall) -> None:
    query = dict(parse_qsl(call.scope["query_string"].decode("latin-1")))
    version = (call.headers.get("a2a-version") or query.get("A2A-Version", "")).strip()
    if version and not f"{version}.".startswith(f"{PROTOCOL_VERSION}."):
        raise HttpError(400, "VERSION_NOT_SUPPORTED", f"This server speaks A2A {PROTOCOL_VERSION}.")
    kind = call.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if call.body is not None and kind not in ("application/json", "application/a2a+json"):
        raise HttpError(415, "CONTENT_TYPE_NOT_SUPPORTED", "Send application/a2a+json.")


def _method(body: wire.RpcRequest) -> tuple[Operation, wire.Request]:
    operation = METHODS.get(body.method) if isinstance(body.method, str) else None
    if operation is None:
        raise HttpError(404, "METHOD_NOT_FOUND", f"The methods are {', '.join(METHODS)}.")
    try:
        return operation, msgspec.convert(_camel(body.params or {}), operation.params)
    except msgspec.ValidationError as error:
        raise wire.Violations(("params", str(error))) from error


def _camel(given: Any) -> Any:
    """Convert field names to camelCase: clients generated from protobuf may use both."""
    if isinstance(given, list):
        return [_camel(item) for item in given]
    if not isinstance(given, dict):
        return given
    return {
        _NAMES.get(name, name): value if name in _OPAQUE else _camel(value)
        for name, value in given.items()
    }
