"""Remote registries: where agents of other servers are found, and the errors of discovery."""

import re
from typing import Any, NoReturn, Protocol, Self

import msgspec

from awaken.contracts.errors import AwakenError, InvalidValue, UnknownAgent
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.secrets import RedactedString

LOCAL_NAME = "local"
"""The default registry name of this process's own agents."""
CARD_PATH = "/.well-known/agent-card.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
# Every parser must read the URL alike: no user, no query, no fragment, no escapes.
_URL = re.compile(
    r"(https?)://([a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
    r"(?:/[!\"$->@-\[\]-~]*)?",
    re.IGNORECASE,
)
_URL_CHARS = 2048
_USUAL_PORTS = {"http": 80, "https": 443}


class RemoteRegistry(StrictRecord, frozen=True, kw_only=True):
    """A server that publishes an agent with its A2A card.

    The agent is registered as `name/agent`. Credentials are sent only to the server's own origin,
    whatever the card says.
    """

    name: str
    base_url: str
    auth: dict[str, Any] | None = None
    """`{"type": "bearer", "token": …}`; the token is never shown."""
    refresh_ms: int = 300_000
    """How often the card is read again."""
    timeout_ms: int = 5_000
    """The time limit of reading the card; a runtime waits this long for it at its start."""
    origins: tuple[str, ...] = ()
    """Other origins where the agent may be called, without credentials."""

    def __post_init__(self) -> None:
        texts: tuple[Any, ...] = (self.name, self.base_url, *self.origins)
        others: Any = (self.refresh_ms, self.timeout_ms, self.auth or {})
        kinds = (*(str for _ in texts), int, int, dict)
        if not all(map(isinstance, (*texts, *others), kinds)):
            self._refuse("addresses are texts, times are integers, auth is a mapping")
        if not is_registry_name(self.name):
            self._refuse("a name has lower-case letters, digits, '-' and '_' only")
        if any(origin_of(url) is None for url in (self.base_url, *self.origins)):
            self._refuse(
                "base_url and origins are http:// or https:// addresses without user, "
                "query and fragment; a token belongs into auth"
            )
        if self.auth is not None:
            auth = _read_bearer(self.auth)
            if auth is None:
                self._refuse('write auth={"type": "bearer", "token": …} with a token')
            msgspec.structs.force_setattr(self, "auth", auth)
        if self.refresh_ms <= 0 or self.timeout_ms <= 0:
            self._refuse("refresh_ms and timeout_ms must be positive")

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidValue(what=f"remote registry '{self.name}'", problem=problem)

    @property
    def origin(self) -> str:
        """Scheme, host and port; safe to show."""
        return origin_of(self.base_url) or ""

    @property
    def card_url(self) -> str:
        """Where the card is: at the root of the origin, whatever the path of `base_url` is."""
        return self.origin + CARD_PATH


class CardSource(Protocol):
    """Reads agent cards from other servers."""

    async def fetch_card(self, registry: RemoteRegistry) -> bytes:
        """Fetch the card at `registry.card_url`, with bounded size and the registry's auth.

        Redirects are not followed, because the credentials would be sent along.

        Raises:
            RemoteError: The card cannot be read; the text shows no credentials.
        """
        ...


class RemoteStatus(Record, frozen=True, kw_only=True):
    """The result of the last read of a remote registry."""

    name: str
    origin: str
    agent_id: str | None = None
    """The agent that is registered now, from the last good card."""
    checked_at_ms: int | None = None
    """When the registry was last read."""
    fresh_at_ms: int | None = None
    """When a read last succeeded."""
    failures: int = 0
    """How many reads in a row failed."""
    problem: str | None = None
    """The current problem; None if there is none."""


class DiscoveryError(AwakenError):
    """A remote registry shows no agent that can be used; what was registered before stays."""

    code = "discovery_failed"
    retryable = True
    template = "Remote registry '{source}' ({origin}): {problem}; {remedy}."
    source: str
    origin: str
    problem: str
    remedy: str

    @classmethod
    def of(cls, registry: RemoteRegistry, problem: str, remedy: str) -> Self:
        """The error of one registry: what is wrong, and what to do about it."""
        return cls(source=registry.name, origin=registry.origin, problem=problem, remedy=remedy)


class CardUnavailable(DiscoveryError):
    """The card could not be read."""

    code = "card_unavailable"


class InvalidCard(DiscoveryError):
    """What was read is no card, or one that asks for too much."""

    code = "invalid_card"


class UnsupportedInterface(DiscoveryError):
    """The card names no interface that is spoken here."""

    code = "unsupported_interface"


class AgentRefused(DiscoveryError):
    """The agent was found, and the registry cannot have it."""

    code = "agent_refused"


class AgentNotDiscovered(UnknownAgent):
    """The agent's registry is configured and has not shown the agent, until now."""

    code = "agent_not_discovered"
    retryable = True
    template = (
        "Agent '{agent_id}' is not known: remote registry '{source}' ({origin}) has not shown it; "
        "known agents: {known}. Its status says whether the registry can be read."
    )
    source: str
    origin: str


def is_registry_name(name: str) -> bool:
    """Whether a text can precede the '/' of an agent's id."""
    return _NAME.fullmatch(name) is not None


def origin_of(url: str) -> str | None:
    """The canonical origin of a URL (scheme, host and port), or None if it is not a valid URL."""
    found = _URL.fullmatch(url) if len(url) <= _URL_CHARS else None
    if found is None:
        return None
    scheme, host = found[1].lower(), found[2].lower().rstrip(".")
    port = int(found[3]) if found[3] else _USUAL_PORTS[scheme]
    if not 0 < port <= 65_535:
        return None
    return f"{scheme}://{host}" + ("" if port == _USUAL_PORTS[scheme] else f":{port}")


def _read_bearer(auth: dict[str, Any]) -> dict[str, Any] | None:
    """Read bearer credentials in their stored form; None if they are malformed."""
    token = auth.get("token")
    if isinstance(token, str):
        # A plain string would show up in logs and errors.
        token = RedactedString(token)
    if auth.keys() != {"type", "token"} or auth["type"] != "bearer" or not token:
        return None
    return {"type": "bearer", "token": token}
