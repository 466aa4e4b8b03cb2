"""HTTP/1.1 that strangers send: `awaken serve` answers each of it as uvicorn's own protocol does.

Each request is followed by a last one, so that both servers close the connection and no time limit
decides what was answered.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from awaken.server.connections import HttpConnections
from awaken.transport.asgi import Receive, Scope, Send

PATIENCE_S = 20
HOST = b"host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
GET = b"GET / HTTP/1.1\r\n" + HOST
NEXT = b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET /last HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n"

CASES: dict[str, bytes] = {
    # Two servers that disagree about where a body ends can be made to see different requests.
    "length and chunks": CHUNKED + b"content-length: 5\r\n\r\n0\r\n\r\n" + NEXT,
    "chunks and length": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "equal lengths": POST + b"content-length: 2\r\ncontent-length: 2\r\n\r\nhi",
    "different lengths": POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi!",
    "list of lengths": POST + b"content-length: 2, 2\r\n\r\nhi",
    "length with sign": POST + b"content-length: +2\r\n\r\nhi",
    "negative length": POST + b"content-length: -2\r\n\r\nhi",
    "hexadecimal length": POST + b"content-length: 0x2\r\n\r\nhi",
    "endless length": POST + b"content-length: 99999999999999999999999\r\n\r\nhi",
    "no length": POST + b"content-length: \r\n\r\nhi",
    "chunks of gzip": POST + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "chunks last of all": POST + b"transfer-encoding: chunked, gzip\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "unknown encoding": POST + b"transfer-encoding: xchunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "encoding after tab": POST + b"transfer-encoding:\tchunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "space before colon": POST + b"transfer-encoding : chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "two encodings": CHUNKED + b"transfer-encoding: identity\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "chunks in 1.0": CHUNKED.replace(b"/1.1", b"/1.0") + b"\r\n2\r\nhi\r\n0\r\n\r\n",
    "chunk extension": CHUNKED + b'\r\n2;a=b;c="d"\r\nhi\r\n0;x\r\n\r\n',
    "chunk extension with LF": CHUNKED + b"\r\n2;a\nhi\r\n0\r\n\r\n",
    "chunks with LF": CHUNKED + b"\r\n2\nhi\n0\n\n",
    "chunk without end": CHUNKED + b"\r\n2\r\nhi0\r\n\r\n",
    "spaces around chunk size": CHUNKED + b"\r\n 2 \r\nhi\r\n0\r\n\r\n",
    "chunk size 0x2": CHUNKED + b"\r\n0x2\r\nhi\r\n0\r\n\r\n",
    "endless chunk": CHUNKED + b"\r\nffffffffffffffffff\r\nhi\r\n0\r\n\r\n",
    "chunk size with zeros": CHUNKED + b"\r\n" + b"0" * 40 + b"2\r\nhi\r\n0\r\n\r\n",
    "length after chunks": CHUNKED + b"\r\n2\r\nhi\r\n0\r\ncontent-length: 9\r\n\r\n",
    "body of GET": GET + b"content-length: 3\r\n\r\nabc",
    # Heads.
    "folded header": GET + b"x: a\r\n b\r\n\r\n",
    "folded first header": b"GET / HTTP/1.1\r\n x: a\r\n\r\n",
    "LF only": b"GET / HTTP/1.1\nhost: a\n\n",
    "LF in head": b"GET / HTTP/1.1\r\nhost: a\n\r\n",
    "CR in header": b"GET / HTTP/1.1\r\nhost: a\rx: b\r\n\r\n",
    "NUL in header": GET + b"x: a\0b\r\n\r\n",
    "NUL in name": b"GET / HTTP/1.1\r\nx\0: a\r\n\r\n",
    "control characters": GET + b"x: a\x01b\x7f\r\n\r\n",
    "no name": GET + b": x\r\n\r\n",
    "no colon": GET + b"abc\r\n\r\n",
    "no value": GET + b"x:\r\ny: \r\n\r\n",
    "spaces around value": GET + b"x:   a  \t\r\n\r\n",
    "UTF-8 value": GET + "x: é\r\n\r\n".encode(),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "blank lines": b"\r\n\r\n" + GET + b"\r\n\r\n\r\n",
    "many headers": GET + b"".join(b"h%d: v\r\n" % number for number in range(500)) + b"\r\n",
    # Targets.
    "NUL in path": b"GET /a\0b HTTP/1.1\r\n\r\n",
    "encoded control characters": b"GET /a%00b%0d%0a HTTP/1.1\r\n\r\n",
    "UTF-8 path": "GET /é HTTP/1.1\r\n\r\n".encode(),
    "Latin-1 path": b"GET /\xe9 HTTP/1.1\r\n\r\n",
    "encoded path": b"GET /%C3%A9%E9%ff?q=%zz HTTP/1.1\r\n\r\n",
    "path encoded badly": b"GET /%zz%1 HTTP/1.1\r\n\r\n",
    "space in path": b"GET /a b HTTP/1.1\r\n\r\n",
    "fragment": b"GET /a#frag?x HTTP/1.1\r\n\r\n",
    "whole URL": b"GET http://other:80/abc?d=1 HTTP/1.1\r\n\r\n",
    "whole URL without path": b"GET http://other HTTP/1.1\r\n\r\n",
    "whole URL with user": b"GET http://u:p@other/ HTTP/1.1\r\n\r\n",
    "whole URL with query only": b"GET http://other?x=1 HTTP/1.1\r\n\r\n",
    "star": b"OPTIONS * HTTP/1.1\r\n\r\n",
    "two slashes": b"GET //evil/x HTTP/1.1\r\n\r\n",
    "dots": b"GET /a/../b/./c HTTP/1.1\r\n\r\n",
    "no path": b"GET ? HTTP/1.1\r\n\r\n",
    "no slash": b"GET abc HTTP/1.1\r\n\r\n",
    # Methods and versions.
    "CONNECT": b"CONNECT other:80 HTTP/1.1\r\n\r\n",
    "PROPFIND": b"PROPFIND / HTTP/1.1\r\n\r\n",
    "unknown method": b"FOO / HTTP/1.1\r\n\r\n",
    "lower-case method": b"get / HTTP/1.1\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "ICE": b"SOURCE / ICE/1.0\r\n\r\n",
    "RTSP": b"DESCRIBE /x RTSP/1.0\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n\r\n",
    "lower-case version": b"GET / http/1.1\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "HTTP/1.0 kept alive": b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    "HTTP/1.0 in chunks": b"GET /chunks HTTP/1.0\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    # Replies.
    "HEAD": b"HEAD / HTTP/1.1\r\n\r\n",
    "HEAD in chunks": b"HEAD /chunks HTTP/1.1\r\n\r\n",
    "no content": b"GET /204 HTTP/1.1\r\n\r\n",
    "expectation": POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\nhi",
    "unknown expectation": POST + b"expect: banana\r\ncontent-length: 2\r\n\r\nhi",
    "expectation of a body that is not read": b"POST /unread HTTP/1.1\r\nexpect: 100-continue\r\n"
    b"content-length: 2\r\n\r\nhi",
    # Connections.
    "close": GET + b"connection: close\r\n\r\n",
    "close in a list": GET + b"connection: x, close\r\n\r\n",
    "nonsense after close": POST + b"connection: close\r\ncontent-length: 2\r\n\r\nhiGARBAGE",
    "upgrade not of the connection": GET + b"upgrade: websocket\r\n\r\n",
    "proxy": GET + b"x-forwarded-for: 7.7.7.7\r\nX-Forwarded-Proto: https\r\n\r\n",
    "two proxies": GET + b"X-FORWARDED-FOR: 7.7.7.7\r\nx-forwarded-for: 8.8.8.8, 127.0.0.1\r\n\r\n",
    "other proxy headers": GET + b"x-forwarded-host: b\r\nforwarded: for=9.9.9.9\r\n\r\n",
    "many requests": b"".join(
        b"POST /%d HTTP/1.1\r\ncontent-length: 3\r\n\r\nab%d" % (number, number)
        for number in range(9)
    ),
    "small chunks": CHUNKED + b"\r\n" + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n",
    "body that is not read": b"POST /unread HTTP/1.1\r\ncontent-length: 40000\r\n\r\n"
    + b"x" * 40000,
}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with all that the web server says of the request."""
    body, path = b"", scope["path"]
    message: Any = {"more_body": path != "/unread"}
    while message["more_body"]:
        message = await receive()
        if message["type"] != "http.request":
            return
        body += message["body"]
    keys = ("method", "path", "raw_path", "query_string", "http_version", "scheme", "headers")
    said = [scope["client"][0], len(body), *(scope[it] for it in keys)]
    reply = json.dumps(said, default=lambda it: it.decode("latin-1")).encode()
    headers = [(b"content-length", b"%d" % len(reply))]
    if path == "/204":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})
        return
    if path == "/chunks":
        headers = []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply, "more_body": True})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def listening(http: Any) -> AsyncIterator[int]:
    options = uvicorn.Config(
        app, http=http, ws="none", lifespan="off", port=0, log_level="critical",
        server_header=False, date_header=False,
    )  # fmt: skip
    server = uvicorn.Server(options)
    serving = asyncio.create_task(server._serve())
    async with asyncio.timeout(PATIENCE_S):
        while not server.started:
            assert not serving.done()
            await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
        assert not server.server_state.tasks
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, PATIENCE_S)


async def talk(port: int, pieces: list[bytes]) -> bytes:
    """Send pieces, and return all that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    read = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            while data := await reader.read(65536):
                read += data
    except ConnectionError:
        # It was closed while more was being sent.
        pass
    finally:
        writer.close()
    return read


def test_requests_are_understood_as_uvicorn_understands_them() -> None:
    async def scenario() -> None:
        async with listening("httptools") as theirs, listening(HttpConnections()) as ours:
            for name, asked in CASES.items():
                data = asked + LAST
                expected, found = await asyncio.gather(talk(theirs, [data]), talk(ours, [data]))
                assert found == expected, name
                assert found.startswith(b"HTTP/1.1 "), name
                # A connection that is closed before all is sent may lose its reply.
                if b"/last" in found and b"/unread" not in data and len(data) < 2000:
                    pieces = [data[start : start + 11] for start in range(0, len(data), 11)]
                    assert await talk(ours, pieces) == expected, name

    asyncio.run(scenario())
