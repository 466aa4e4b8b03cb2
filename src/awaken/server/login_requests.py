"""What `ServerConfig.authenticate` is asked: a request without its body."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from awaken.transport.routes import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthRequest:
    """A request whose caller is to be found out; its body was not read."""

    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    method: str
    path: str
    """As the client sent it, with the place where the app is mounted."""
    client: str
    """The address that the caller calls from; blank if it has none."""

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name; of repeated ones the first."""
        found: dict[str, str] = {}
        for pair in self.headers.get("cookie", "").split(";"):
            name, sign, value = pair.partition("=")
            if sign:
                found.setdefault(name.strip(), value.strip().strip('"'))
        return found

    @property
    def bearer(self) -> str | None:
        """The bearer token of the header `Authorization`, if there is one."""
        scheme, _, token = self.headers.get("authorization", "").strip().partition(" ")
        return (token.strip() or None) if scheme.lower() == "bearer" else None


Authenticate = Callable[[AuthRequest], Principal | Awaitable[Principal | None] | None]
"""Returns the caller of a request; None: it is unknown. May be async."""

FindPrincipal = Callable[[str, str | None], Principal | Awaitable[Principal | None] | None]
"""Returns what a caller may do now, by its id and tenant; None: it is gone. May be async."""
