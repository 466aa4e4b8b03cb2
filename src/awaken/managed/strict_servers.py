"""Strict writes of MCP servers: they must be connected before they become live."""

from collections.abc import Mapping
from typing import Any

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.connections import ConfigConnections
from awaken.contracts.config.drafts import PutRecord
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.secret_fields import STORE, decode_stored_spec
from awaken.contracts.secrets import RedactedString

from .parts import ConfigParts
from .records import ConfigRecords, RecordWrite

SERVERS = "mcp-servers"


async def check_connects(
    parts: ConfigParts,
    records: ConfigRecords,
    connections: ConfigConnections,
    write: RecordWrite,
    body: Mapping[str, Any],
) -> None:
    """Connect to the server of a record once, with the secrets that come with it.

    Raises:
        InvalidConfig: It is malformed, no MCP server, or not connected within its `connect_ms`.
    """
    path = f"{write.namespace}/{write.id}"
    if write.namespace != SERVERS:
        message = "Only MCP servers can be written strictly."
        raise _refuse(path, "unsupported", message)
    stored = await records.store_put(write, body)
    assert isinstance(stored.change, PutRecord)
    brought = {f"{STORE}{it.ref}": it for it in stored.secrets}

    def bind(ref: str) -> RedactedString:
        sealed = brought.get(ref)
        return (
            parts.resolver.bind(ref) if sealed is None else RedactedString(parts.box.open(sealed))
        )

    kind = parts.kinds[SERVERS]
    server: Any = decode_stored_spec(stored.change.body, kind.spec, kind.secrets, bind)
    if (problem := await connections.try_server(server)) is not None:
        raise _refuse(path, "not_connected", problem)


def _refuse(path: str, code: str, message: str) -> InvalidConfig:
    return InvalidConfig(problems=(ConfigProblem(path=path, code=code, message=message),))
