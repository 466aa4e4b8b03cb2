"""The console and its files. Loading them needs no token; the requests of the page are checked."""

import gzip
import secrets
from functools import cache
from html import escape
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from awaken.transport.asgi import Bytes, Header, Reply
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, ApiRoute, RouteCall

BUILT = Path(__file__).parent / "built"
"""What `make console` writes."""
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_FOREVER: Header = (b"cache-control", b"public, max-age=31536000, immutable")
"""For files whose name has the hash of their content."""
_NEVER: Header = (b"cache-control", b"no-store")
_QUIET: Header = (b"referrer-policy", b"no-referrer")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; media-src data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page may load and call its own server, and nothing else; a style element needs the nonce."""


async def redirect_to_console(call: RouteCall) -> Reply:
    """Lead from the root of the server to the console."""
    place = f"{_quote_root(call)}/console/"
    return Bytes(307, b"", ((b"location", place.encode()), _NEVER))


async def show_console(call: RouteCall) -> Reply:
    """Send a file of the console, or its page for every other path: the page has its own router."""
    path, build = call.path.get("path", ""), _find_build()
    if path not in _names(build) or path == "index.html":
        if path.startswith("assets/"):
            raise HttpError(404, "not_found", "The console has no such file.")
        return _send_page(call, build)
    lasting = _FOREVER if path.startswith("assets/") else _NEVER
    headers = ((b"content-type", _TYPES[PurePosixPath(path).suffix]), lasting, _QUIET)
    try:
        if "gzip" in call.headers.get("accept-encoding", ""):
            packed = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
            return Bytes(200, _packed(path, build), (*headers, *packed))
        return Bytes(200, _content(path, build), headers)
    except FileNotFoundError:
        # A build that is under way has removed it.
        raise HttpError(404, "not_found", "The console has no such file.") from None


def _send_page(call: RouteCall, build: int) -> Reply:
    nonce = secrets.token_urlsafe(16)
    root = escape(_quote_root(call), quote=True)
    page = _content("index.html", build).decode()
    page = page.replace("__CSP_NONCE__", nonce).replace("__ROOT__", root)
    # The page is shown at every path, so that what it loads is named from the root.
    page = page.replace('="./', f'="{root}/console/')
    headers = (
        (b"content-type", _TYPES[".html"]),
        (b"content-security-policy", POLICY.format(nonce=nonce).encode()),
        _NEVER,
        _QUIET,
    )
    return Bytes(200, page.encode(), headers)


def _quote_root(call: RouteCall) -> str:
    """Write where the server is mounted as addresses have it; ASGI gives it decoded."""
    return quote(call.scope.get("root_path", ""))


def _find_build() -> int:
    """Tell builds apart: a server that runs while the console is built anew sends the new one.

    Raises:
        HttpError: A build is under way; the manifest is the last file that it writes.
    """
    try:
        return (BUILT / "manifest.json").stat().st_mtime_ns
    except FileNotFoundError:
        raise HttpError(503, "console_is_built", "The console is being built.") from None


@cache
def _names(_build: int) -> frozenset[str]:
    files = (it.relative_to(BUILT) for it in BUILT.rglob("*") if it.suffix in _TYPES)
    return frozenset(it.as_posix() for it in files)


@cache
def _content(name: str, _build: int) -> bytes:
    return (BUILT / name).read_bytes()


@cache
def _packed(name: str, build: int) -> bytes:
    return gzip.compress(_content(name, build), mtime=0)


def _route(path: str, summary: str) -> ApiRoute:
    return ApiRoute(
        method="GET",
        path=path,
        handle=redirect_to_console if path == "/" else show_console,
        access=Access.OPEN,
        status=307 if path == "/" else 200,
        summary=summary,
        tag="console",
    )


ROUTES = (
    _route("/", "Lead to the console."),
    _route("/console", "Get the page of the console."),
    _route("/console/", "Get the page of the console, at its first address."),
    _route("/console/{path:path}", "Get a file of the console, or its page."),
)
