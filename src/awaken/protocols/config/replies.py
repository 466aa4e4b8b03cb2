"""The replies of requests about the configuration, and who asks."""

import msgspec

from awaken.contracts.config.publications import hash_object as hash_bytes
from awaken.managed.parts import Author, RequestKey
from awaken.managed.publishing import Published
from awaken.managed.records import RecordView, RecordWrite
from awaken.transport.asgi import Bytes, Header, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

KEY = "idempotency-key"
KEY_CHARS_MAX = 255


def author_of(call: RouteCall) -> Author:
    """Who asks, as the audit shows it."""
    return Author(
        id=call.actor,
        principal=call.principal.id,
        ip=call.client,
        request_id=call.request_id or None,
    )


def write_of(call: RouteCall, namespace: str, record_id: str, message: str = "") -> RecordWrite:
    """The write of one record that a request makes."""
    key = read_key(call)
    return RecordWrite(
        namespace=namespace,
        id=record_id,
        author=author_of(call),
        expected=read_revision(call),
        message=message,
        idempotency_key=key,
        request_hash=hash_request(call) if key else "",
    )


def read_key(call: RouteCall) -> str | None:
    """The idempotency key of a request, bound to its caller.

    Raises:
        HttpError: It is too long, or has other characters than printable ASCII.
    """
    given = call.headers.get(KEY, "").strip()
    if not given:
        return None
    if len(given) > KEY_CHARS_MAX or not (given.isascii() and given.isprintable()):
        message = f"Idempotency-Key has at most {KEY_CHARS_MAX} printable ASCII characters."
        raise HttpError(400, "invalid_header", message)
    return f"{call.principal.id}:{given}"


def request_key(call: RouteCall) -> RequestKey | None:
    """The idempotency key of a request with a hash of what it asks; None without one."""
    key = read_key(call)
    return None if key is None else RequestKey(key=key, hash=hash_request(call))


def hash_request(call: RouteCall) -> str:
    """The hash of what is asked: the same key for something else is refused."""
    asked = [
        call.scope.get("method", ""), dict(call.path), call.headers.get("if-match", ""),
        msgspec.to_builtins(call.query), msgspec.to_builtins(call.body),
    ]  # fmt: skip
    return hash_bytes(msgspec.json.encode(asked, order="sorted"))


def read_revision(call: RouteCall) -> int | None:
    """The revision that `If-Match` names; None if it names none.

    Raises:
        HttpError: It is no revision.
    """
    given = call.headers.get("if-match", "").strip().strip('"')
    if given in ("", "*"):
        return None
    if not (given.isascii() and given.isdecimal() and len(given) < 16):
        raise HttpError(400, "invalid_header", 'If-Match is a revision, such as "3".')
    return int(given)


def require_revision(call: RouteCall) -> None:
    """Refuse a request that does not say which revision it means.

    Raises:
        HttpError: It has no `If-Match`: what another person wrote meanwhile would go unseen.
    """
    if not call.headers.get("if-match", "").strip():
        message = 'Name the revision that you have read in If-Match, or "*" for any.'
        raise HttpError(428, "revision_required", message)


def reply_written(view: RecordView, published: Published, status: int = 200) -> Bytes:
    """A record after a write, with its revision and the publication as headers."""
    return as_json(view.wire, status, written_headers(published, view.meta.revision))


def written_headers(published: Published, revision: int | None = None) -> tuple[Header, ...]:
    """The headers of a reply to a write."""
    number = publication_header(published.publication.no)
    if revision is None:
        return (number,)
    return (number, etag(revision))


def publication_header(no: int | None) -> Header:
    """The publication that is live after a write; 0 before the first one."""
    return b"x-awaken-publication", str(no or 0).encode()


def etag(revision: int) -> Header:
    """The revision of a record or a draft as a header."""
    return b"etag", f'"{revision}"'.encode()
