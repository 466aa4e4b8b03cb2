"""The page and its files. Loading them needs no token; the page's API calls are checked."""

from functools import cache, partial
from pathlib import Path

from awaken.transport.asgi import Bytes, Header, Reply
from awaken.transport.routes import Access, ApiRoute, RouteCall

_HERE = Path(__file__).parent
_FILES = {
    "index.html": b"text/html; charset=utf-8",
    "page.css": b"text/css; charset=utf-8",
    "page.js": b"text/javascript; charset=utf-8",
    "turns.js": b"text/javascript; charset=utf-8",
    "questions.js": b"text/javascript; charset=utf-8",
    "snippets.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and call its own server, and nothing else."""

_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


async def _show(name: str, call: RouteCall) -> Reply:
    return Bytes(200, _content(name), ((b"content-type", _FILES[name]), *_HEADERS))


@cache
def _content(name: str) -> bytes:
    return (_HERE / name).read_bytes()


ROUTES = tuple(
    ApiRoute(
        method="GET",
        path="/" if name == "index.html" else f"/welcome/{name}",
        handle=partial(_show, name),
        access=Access.OPEN,
        summary=f"Get {name} of the welcome page.",
        tag="welcome",
    )
    for name in _FILES
)
