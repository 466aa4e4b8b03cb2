"""Builds the OpenAPI document of a server from its routes; their types are the only source."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from awaken.transport.asgi import JSON, Bytes, Reply, encode_json
from awaken.transport.problems import native_refusal
from awaken.transport.routes import Access, ApiRoute, RouteCall

PATH = "/openapi.json"

_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_WORD = re.compile(r"\w+|(?<=.)/$")
_REFERENCE = "#/components/schemas/{name}"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused: a text for people, and a stable code."""

    error: str
    code: str
    request_id: str = ""


def with_document(routes: Sequence[ApiRoute], version: str) -> tuple[ApiRoute, ...]:
    """Add a route that serves the document of all routes."""

    async def get_document(call: RouteCall) -> Reply:
        return Bytes(200, body(), (JSON,))

    @cache
    def body() -> bytes:
        return encode_json(document(every, version))

    route = ApiRoute(
        method="GET",
        path=PATH,
        handle=get_document,
        access=Access.OPEN,
        summary="This document.",
        reply=dict[str, Any],
        tag="server",
    )
    every = (*routes, route)
    return every


def document(routes: Sequence[ApiRoute], version: str) -> dict[str, Any]:
    """Describe every route, as OpenAPI 3.1."""
    types = list(dict.fromkeys((Refusal, *(type_ for route in routes for type_ in _types(route)))))
    found, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(types, found, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "awaken", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                "Refusal": _content("The request was refused.", schemas[Refusal]),
                "OtherRefusal": {"description": "Refused, as its protocol says it."},
            },
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: ApiRoute, schemas: dict[Any, Any]) -> dict[str, Any]:
    name = "Refusal" if route.refuse is native_refusal else "OtherRefusal"
    refusal = {"$ref": f"#/components/responses/{name}"}
    scopes = [str(it) for it in (route.access, *route.also) if it is not Access.KNOWN]
    operation: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *_WORD.findall(route.path)]),
        "summary": route.summary,
        "tags": [route.tag] if route.tag else [],
        "parameters": list(_parameters(route, schemas)),
        "responses": {**dict(_replies(route, schemas)), "4XX": refusal, "5XX": refusal},
        "security": [] if route.access is Access.OPEN else [{"bearer": scopes}],
    }
    if route.body is not None:
        kind = "*/*" if route.body is bytes else "application/json"
        schema = {} if route.body is bytes else schemas[route.body]
        content = {kind: {"schema": schema}}
        operation["requestBody"] = {"required": not route.is_body_optional, "content": content}
    return operation


def _parameters(route: ApiRoute, schemas: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(route.path):
        schema = {"type": "string", "minLength": 1, "maxLength": 256}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for field in _fields(route.query):
        schema = schemas[field.type]
        yield {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "schema": schema,
        }
    for name in route.headers:
        yield {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}


def _replies(route: ApiRoute, schemas: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for status, reply in [(route.status, route.reply), *route.statuses.items()]:
        found = _reply(reply, schemas, route.media_type)
        if status == route.status and route.document is not None:
            found["content"] |= _content("", schemas[route.document])["content"]
        yield str(status), found


def _reply(reply: Any, schemas: dict[Any, Any], kind: str) -> dict[str, Any]:
    if reply is None:
        return {"description": "Done."}
    if reply is bytes:
        return _content("A stream of events.", {"type": "string"}, "text/event-stream")
    return _content("Done.", schemas[reply], kind)


def _content(text: str, schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema}}}


def _types(route: ApiRoute) -> Iterator[Any]:
    every = (route.body, route.reply, route.document, *route.statuses.values())
    yield from (type_ for type_ in every if type_ not in (None, bytes))
    yield from (field.type for field in _fields(route.query))


def _fields(query: type | None) -> tuple[msgspec.structs.FieldInfo, ...]:
    return () if query is None else msgspec.structs.fields(query)
