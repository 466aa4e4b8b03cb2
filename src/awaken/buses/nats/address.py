"""What the URL of a NATS bus says: servers, who connects, TLS and the namespace."""

import base64
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord

SCHEMES = ("nats", "tls")
DEFAULT_PORT = 4222
DEFAULT_NAMESPACE = "awaken"

_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\s+(\S+)\s+------END NATS USER JWT------")
_SEED = re.compile(
    r"-----BEGIN USER NKEY SEED-----\s+(S[A-Z2-7]+)\s+------END USER NKEY SEED------"
)
_SEED_BYTES = slice(2, 34)
"""Where the key is in a decoded seed: behind the kind, before the checksum."""
_WHAT = "the URL of the NATS bus"


class NatsOptions(StrictRecord, frozen=True, kw_only=True):
    """The options behind the `?` of the URL; files are paths on this machine."""

    namespace: str = DEFAULT_NAMESPACE
    """Installations with different namespaces on one server do not hear each other."""
    credentials: str = ""
    """A file with a user's JWT and its seed, as `nsc` writes it."""
    ca: str = ""
    """The certificate of the authority that signed the server's; blank: those of the system."""
    cert: str = ""
    """The certificate of this client, if the server asks for one."""
    key: str = ""
    """The key of that certificate; blank: it is in the same file."""
    handshake: str = "after"
    """When TLS begins: `after` the server's greeting, or `first` if it is set to wait for that."""


class NatsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a bus connects, and as whom."""

    name: str
    """The servers, without the user and the options: for messages."""
    servers: tuple[str, ...]
    user: str | None
    password: str | None
    is_tls: bool
    options: NatsOptions

    def login(self) -> dict[str, Any]:
        """Build the arguments of a connection; reads the files that the options name.

        Raises:
            InvalidInput: A file cannot be read, or has something else.
        """
        found: dict[str, Any] = {}
        if self.user is not None:
            found = {"token": self.user} if self.password is None else {
                "user": self.user, "password": self.password,
            }  # fmt: skip
        if self.options.credentials:
            found |= _read_credentials(self.options.credentials)
        if self.is_tls or self.options.ca or self.options.cert:
            found["tls"] = self._tls_context()
            found["tls_handshake_first"] = self.options.handshake == "first"
        return found

    def _tls_context(self) -> ssl.SSLContext:
        options = self.options
        try:
            context = ssl.create_default_context(cafile=options.ca or None)
            if options.cert:
                context.load_cert_chain(options.cert, options.key or None)
        except (OSError, ssl.SSLError) as error:
            problem = f"{error}; check ca=, cert= and key="
            raise InvalidInput(what=_WHAT, problem=problem) from error
        return context


def parse_address(url: str) -> NatsAddress:
    """Read a URL: `nats://user:password@one:4222,two:4222/?namespace=blue`.

    All servers have the scheme and the user of the first. With `tls://` a connection without TLS
    is refused; with `nats://` the server decides.

    Raises:
        InvalidInput: Something in it cannot be used. No error contains a part of the password.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in SCHEMES or not separator:
        problem = "it must begin with nats:// or tls://"
        raise InvalidInput(what=_WHAT, problem=problem)
    place, _, query = rest.partition("?")
    options = _read_options(query)
    parts = [_split_server(scheme, it) for it in place.rstrip("/").split(",")]
    for other in parts[1:]:
        if other.username is not None and other.username != parts[0].username:
            raise InvalidInput(what=_WHAT, problem="its servers name different users")
    servers = tuple(_name_server(it) for it in parts)
    user, password = parts[0].username, parts[0].password
    if options.credentials and user is not None:
        raise InvalidInput(what=_WHAT, problem="it has a user and credentials=; keep one of them")
    return NatsAddress(
        name=",".join(servers),
        servers=servers,
        user=None if user is None else unquote(user),
        password=None if password is None else unquote(password),
        is_tls=scheme == "tls",
        options=options,
    )


def _split_server(scheme: str, server: str) -> SplitResult:
    server = server.removeprefix(f"{scheme}://")
    try:
        parts = urlsplit(f"{scheme}://{server}")
        is_good = bool(parts.hostname) and not parts.path and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        # Not chained and not quoted: its text may be a piece of the password.
        problem = "a server in it cannot be read; encode special characters"
        raise InvalidInput(what=_WHAT, problem=problem) from None
    return parts


def _name_server(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORT}"


def _read_options(query: str) -> NatsOptions:
    try:
        options = msgspec.convert(dict(parse_qsl(query, keep_blank_values=True)), NatsOptions)
    except msgspec.ValidationError:
        known = ", ".join(f"{it}=" for it in NatsOptions.__struct_fields__)
        problem = f"it has an unknown option; known: {known}"
        raise InvalidInput(what=_WHAT, problem=problem) from None
    if not _NAMESPACE.fullmatch(options.namespace):
        problem = "namespace= must have 1 to 64 letters, digits, - or _"
        raise InvalidInput(what=_WHAT, problem=problem)
    if options.handshake not in ("first", "after"):
        raise InvalidInput(what=_WHAT, problem="handshake= must be first or after")
    return options


def _read_credentials(path: str) -> dict[str, Callable[..., bytes]]:
    """Read a file of credentials; the seed signs what the server asks, and is never sent."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(what=f"credentials '{path}'", problem=str(error)) from None
    token, seed = _JWT.search(text), _SEED.search(text)
    if token is None or seed is None:
        problem = "it has no user JWT and seed, as `nsc generate creds` writes them"
        raise InvalidInput(what=f"credentials '{path}'", problem=problem)
    try:
        # Imported on demand: most users have a password or a certificate.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )
    except ModuleNotFoundError as error:
        problem = "signing needs cryptography: pip install 'awaken[nats,secrets]'"
        raise InvalidInput(what=f"credentials '{path}'", problem=problem) from error
    written = seed[1]
    raw = base64.b32decode(written + "=" * (-len(written) % 8))
    if len(raw) != 36:
        raise InvalidInput(what=f"credentials '{path}'", problem="its seed is damaged") from None
    key = Ed25519PrivateKey.from_private_bytes(raw[_SEED_BYTES])
    jwt = token[1].encode()
    return {
        "user_jwt_cb": lambda: jwt,
        "signature_cb": lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    }
