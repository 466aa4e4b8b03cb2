"""Turns the A2A card of an agent on another server into a spec that runs it.

A card is a claim by the operator of the other server. It names an agent and says where to call it;
it can neither send credentials elsewhere nor cause calls to an address that is not allowed here.
"""

import re
from typing import Annotated

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
from awaken.contracts.specs.remote_registries import (
    InvalidCard,
    RemoteRegistry,
    UnsupportedInterface,
    origin_of,
)
from awaken.wire.a2a import CARD_BYTES_MAX

SLUG_CHARS_MAX = 64
DESCRIPTION_CHARS_MAX = 500
"""How much of a card's description is kept."""
_Line = Annotated[str, msgspec.Meta(max_length=256)]
_Url = Annotated[str, msgspec.Meta(max_length=2048)]
# It becomes a part of addresses and of an agent's id.
_Tenant = Annotated[
    str, msgspec.Meta(max_length=SLUG_CHARS_MAX, pattern=r"\A([A-Za-z0-9][A-Za-z0-9._-]*)?\Z")
]


class _Interface(Record, frozen=True, kw_only=True, rename="camel"):
    url: _Url
    protocol_binding: _Line
    protocol_version: _Line = ""
    tenant: _Tenant = ""

    @property
    def rank(self) -> int | None:
        """The preference, lowest first: HTTP+JSON, of our version before any other."""
        binding, version = self.protocol_binding.upper(), self.protocol_version.strip()
        if binding == "HTTP+JSON":
            return 0 if version == "1.0" else 1
        return 2 if binding == "JSONRPC" and f"{version}.".startswith("1.") else None


class _Card(Record, frozen=True, kw_only=True, rename="camel"):
    """The fields of a card that are read; all others are skipped."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    description: Annotated[str, msgspec.Meta(max_length=8192)] = ""
    supported_interfaces: Annotated[tuple[_Interface, ...], msgspec.Meta(max_length=32)] = ()


def agent_of_card(data: bytes, registry: RemoteRegistry) -> AgentSpec:
    """Make the spec of the agent that a card describes; its id is `registry/agent`.

    The second part of the id is the tenant that the interface names, else the slug of the card's
    name. The registry's credentials are sent only to an agent at the registry's own origin.

    Raises:
        InvalidCard: It is not a card, is too large, or names an address that is not allowed.
        UnsupportedInterface: It names no interface that this runtime supports.
    """
    card = _decode_card(data, registry)
    interface = _choose_interface(card, registry)
    origin = origin_of(interface.url)
    if origin is None or origin not in {registry.origin, *map(origin_of, registry.origins)}:
        where = "an address that is not http:// or https://" if origin is None else origin
        problem = f"its card says that the agent is called at {where}"
        remedy = f"list the origin in `origins` of RemoteRegistry '{registry.name}' to allow it"
        raise InvalidCard.of(registry, problem, remedy)
    return AgentSpec(
        id=f"{registry.name}/{interface.tenant or slug(card.name)}",
        description=_quote_description(card.description, origin),
        endpoint=RemoteEndpoint(
            base_url=interface.url,
            auth=registry.auth if origin == registry.origin else None,
            target=interface.tenant or None,
            options={"binding": interface.protocol_binding.upper()},
        ),
        registry=registry.name,
    )


def slug(name: str) -> str:
    """Keep lower-case ASCII letters and digits, with single dashes for the rest; never empty."""
    dashed = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return dashed[:SLUG_CHARS_MAX].rstrip("-") or "agent"


def _quote_description(text: str, origin: str) -> str:
    """Quote a card's description on one line, marked as foreign text: models read it."""
    line = "".join(it for it in " ".join(text.split()) if it.isprintable())
    quote = line[:DESCRIPTION_CHARS_MAX].strip()
    return f"An agent at {origin}, which says of itself: {quote}" if quote else ""


def _decode_card(data: bytes, registry: RemoteRegistry) -> _Card:
    remedy = "ask its operator for an A2A 1.0 agent card"
    if len(data) > CARD_BYTES_MAX:
        problem = f"its card has {len(data)} bytes, the limit is {CARD_BYTES_MAX}"
        raise InvalidCard.of(registry, problem, remedy)
    try:
        return msgspec.json.decode(data, type=_Card)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # The error says what was expected where, and repeats nothing of the card.
        problem = f"its card is malformed ({error})"
        raise InvalidCard.of(registry, problem, remedy) from error


def _choose_interface(card: _Card, registry: RemoteRegistry) -> _Interface:
    spoken = [it for it in card.supported_interfaces if it.rank is not None]
    if spoken:
        return min(spoken, key=lambda it: it.rank or 0)
    offered = (f"{it.protocol_binding} {it.protocol_version}" for it in card.supported_interfaces)
    found = ", ".join(offered)[:200] or "none"
    problem = f"its card has no HTTP+JSON interface, and no JSONRPC one of A2A 1 (it has: {found})"
    raise UnsupportedInterface.of(registry, problem, "have it serve A2A 1.0 over HTTP+JSON")
