"""The two bindings of the protocol: the same operations over HTTP+JSON, and over JSON-RPC."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from awaken.contracts.backends.errors import RemoteMalformed, RemoteRefused, RemoteUnsupported

from .channel import Channel
from .config import A2AConfig, origin_of
from .failures import failure_of_error, shorten_text
from .outgoing import Payload
from .wire import AgentCard, AgentInterface, parse_json

REST = "HTTP+JSON"
RPC = "JSONRPC"
_PLACES: Mapping[str, tuple[str, str]] = {
    "SendMessage": ("POST", "/message:send"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("GET", "/tasks/{id}:subscribe"),
}


class Binding(Protocol):
    """Sends the operations of the protocol."""

    async def ask(self, operation: str, params: Payload, timeout_s: float | None) -> Any:
        """Send an operation and return its result.

        Raises:
            RemoteError: The operation failed.
        """
        ...

    def stream(self, operation: str, params: Payload) -> AsyncGenerator[Any, None]:
        """The events of an operation.

        Raises:
            RemoteError: The stream breaks off.
        """
        ...


def choose_binding(card: AgentCard | None, channel: Channel) -> Binding:
    """Choose the binding by the agent's card; HTTP+JSON without a card.

    Raises:
        RemoteRefused: The card points to another origin.
        RemoteUnsupported: The agent speaks neither binding of this version.
    """
    interfaces = card.supported_interfaces if card is not None else ()
    if not interfaces:
        return RestBinding(channel)
    usable = [it for it in interfaces if _is_usable(it)]
    if not usable:
        offered = ", ".join(f"{it.protocol_binding} {it.protocol_version}" for it in interfaces)
        raise RemoteUnsupported(problem=f"the agent's card offers only: {shorten_text(offered)}")
    config = channel.config
    here = [it for it in usable if _origin(it) == config.origin]
    if not here:
        problem = f"the card of {config.origin} points to {shorten_text(_origin(usable[0]))}"
        raise RemoteRefused(problem=f"{problem}; set base_url to the intended origin")
    if any(it.protocol_binding == REST for it in here):
        return RestBinding(channel)
    return RpcBinding(channel, _nearest(here, config))


def find_configured_binding(channel: Channel) -> Binding | None:
    """The binding that the options name, if they name one."""
    config = channel.config
    match config.options.binding:
        case "HTTP+JSON":
            return RestBinding(channel)
        case "JSONRPC":
            return RpcBinding(channel, AgentInterface(url=config.base_url))
        case _:
            return None


class RestBinding:
    """HTTP+JSON, at the configured address."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def ask(self, operation: str, params: Payload, timeout_s: float | None) -> Any:
        """The result of an operation."""
        method, url, body = self._request(operation, params)
        return parse_json(await self._channel.call(method, url, body, timeout_s))

    async def stream(self, operation: str, params: Payload) -> AsyncGenerator[Any, None]:
        """The events of an operation; after an error among them the stream ends."""
        async with aclosing(self._channel.stream(*self._request(operation, params))) as found:
            async for data in found:
                yield parse_json(data)

    def _request(self, operation: str, params: Payload) -> tuple[str, str, Payload | None]:
        method, path = _PLACES[operation]
        rest = {name: value for name, value in params.items() if name != "id"}
        url = self._channel.config.url + path.format(id=quote(params.get("id", ""), safe=""))
        if method == "POST":
            return method, url, rest or None
        return method, url + (f"?{urlencode(rest)}" if rest else ""), None


class RpcBinding:
    """JSON-RPC, at the address that the agent's card names."""

    def __init__(self, channel: Channel, interface: AgentInterface) -> None:
        self._channel = channel
        self._url = interface.url
        self._tenant = channel.config.target or interface.tenant
        self._ids = count(1)

    async def ask(self, operation: str, params: Payload, timeout_s: float | None) -> Any:
        """The result of an operation."""
        body = self._request(operation, params)
        return self._result(await self._channel.call("POST", self._url, body, timeout_s), body)

    async def stream(self, operation: str, params: Payload) -> AsyncGenerator[Any, None]:
        """The events of an operation; an error among them is raised."""
        body = self._request(operation, params)
        async with aclosing(self._channel.stream("POST", self._url, body)) as found:
            async for data in found:
                yield self._result(data, body)

    def _request(self, operation: str, params: Payload) -> Payload:
        named = params | ({"tenant": self._tenant} if self._tenant else {})
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": operation, "params": named}

    def _result(self, data: bytes, body: Payload) -> Any:
        reply = parse_json(data)
        if not isinstance(reply, dict):
            raise RemoteMalformed(problem="a JSON-RPC answer that is not an object")
        if reply.get("error") is not None:
            raise self._channel.describe_failure(failure_of_error(reply["error"]))
        if reply.get("id") != body["id"] or "result" not in reply:
            raise RemoteMalformed(problem="a JSON-RPC answer to another request, or to none")
        return reply["result"]


def _is_usable(interface: AgentInterface) -> bool:
    is_current = f"{interface.protocol_version or '1'}.".startswith("1.")
    return is_current and interface.protocol_binding in (REST, RPC)


def _origin(interface: AgentInterface) -> str:
    try:
        return origin_of(interface.url)
    except ValueError:
        return interface.url


def _nearest(interfaces: list[AgentInterface], config: A2AConfig) -> AgentInterface:
    """The interface at the configured address, else the one that the agent prefers."""
    exact = [it for it in interfaces if it.url.rstrip("/") in (config.url, config.base_url)]
    return (exact or interfaces)[0]
