"""Encodes errors for both transports: google.rpc details, and JSON-RPC codes."""

from typing import Any

from awaken.transport.asgi import Bytes, as_json
from awaken.transport.problems import HttpError

from .wire import Violations

_RPC = "type.googleapis.com/google.rpc."
_REASONS = {"unknown_run": "TASK_NOT_FOUND", "unsupported_media_type": "CONTENT_TYPE_NOT_SUPPORTED"}
_RPC_CODES = {
    "TASK_NOT_FOUND": -32001, "TASK_NOT_CANCELABLE": -32002, "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005, "VERSION_NOT_SUPPORTED": -32009, "INVALID_BODY": -32600,
    "METHOD_NOT_FOUND": -32601, "MALFORMED_JSON": -32700, "INVALID_JSON": -32700,
}  # fmt: skip
_STATUSES = {
    401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "FAILED_PRECONDITION",
    410: "OUT_OF_RANGE", 429: "RESOURCE_EXHAUSTED", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE",
}  # fmt: skip


def rest_refusal(problem: HttpError) -> Bytes:
    """Encode an error for HTTP+JSON."""
    body = rest_error(problem)
    return as_json(body, body["error"]["code"], problem.headers)


def rest_error(problem: HttpError) -> dict[str, Any]:
    """The body of an error over HTTP+JSON."""
    code = 400 if problem.status == 422 else problem.status
    status = _STATUSES.get(code, "INTERNAL" if code >= 500 else "INVALID_ARGUMENT")
    if problem.code == "VERSION_NOT_SUPPORTED":
        status = "FAILED_PRECONDITION"
    error = {"code": code, "status": status, "message": problem.message}
    return {"error": error | {"details": _details(problem)}}


def rpc_refusal(problem: HttpError) -> Bytes:
    """Encode an error of a JSON-RPC request whose id is not known yet."""
    return as_json(rpc_error(problem, None), problem.status, problem.headers)


def rpc_error(problem: HttpError, request_id: str | int | None) -> dict[str, Any]:
    """The JSON-RPC response for an error."""
    code = _RPC_CODES.get(_reason(problem), -32603 if problem.status >= 500 else -32602)
    error = {"code": code, "message": problem.message, "data": _details(problem)}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def _details(problem: HttpError) -> list[dict[str, Any]]:
    info = {
        "@type": f"{_RPC}ErrorInfo",
        "reason": _reason(problem),
        "domain": "a2a-protocol.org",
        "metadata": {"requestId": problem.request_id} if problem.request_id else {},
    }
    if not isinstance(problem, Violations):
        return [info]
    violations = [{"field": field, "description": text} for field, text in problem.violations]
    return [info, {"@type": f"{_RPC}BadRequest", "fieldViolations": violations}]


def _reason(problem: HttpError) -> str:
    return _REASONS.get(problem.code, problem.code.upper())
