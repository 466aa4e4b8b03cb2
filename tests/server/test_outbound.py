"""The way out: addresses that somebody else named reach the public internet only."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from awaken import InvalidInput
from awaken.outbound.guard import Outbound, Undelivered

REFUSED = (Path(__file__).parent / "unsafe_urls.txt").read_text("utf-8").splitlines()

ALLOWED = (
    "http://example.com/",
    "https://example.com/hook?a=b#c",
    "https://EXAMPLE.com./hook",
    "https://example.com:443/",
    "http://example.com:80/",
    "https://sub-domain.example.co.uk/",
    "https://xn--mnchen-3ya.example.com/",
    "https://münchen.example.com/",
    "http://8.8.8.8/",
    "https://1.1.1.1/dns",
    "http://[2606:4700:4700::1111]/",
    "http://[2001:4860:4860::8888]/",
    "http://[64:ff9b::808:808]/",
    "http://[2002:808:808::1]/",
    "https://_acme.example.com/",
)


def test_unsafe_urls_are_refused() -> None:
    assert len(REFUSED) >= 100
    outbound = Outbound(resolving=Names(**{"example.com": ["93.184.215.14"]}))
    for url in [*REFUSED, "http://example.com/" + "x" * 3000, "http://example.com/\x00", ""]:
        assert _problem(outbound, url), url
        assert "secret" not in _problem(outbound, url)


def _problem(outbound: Outbound, url: str) -> str:
    """Why a URL is refused; blank when it is not."""
    try:
        outbound.check(url)
    except InvalidInput as error:
        return str(error)
    return ""


def test_public_urls_are_let_through() -> None:
    outbound = Outbound()
    for url in ALLOWED:
        outbound.check(url)


@pytest.mark.parametrize("entry", ["intranet", "INTRANET.", "10.1.2.3", "[fd00::1]"])
def test_trusted_hosts_are_let_through_at_any_port(entry: str) -> None:
    outbound = Outbound([entry])
    trusted = entry.lower().rstrip(".")
    outbound.check(f"http://{trusted}:9000/hook")
    for url in (
        f"http://x@{trusted}/",
        f"ftp://{trusted}/",
        f"http://a.{trusted.strip('[]')}:9000/",
    ):
        with pytest.raises(InvalidInput):
            outbound.check(url)


def test_ports_are_those_of_the_config() -> None:
    Outbound(ports=[8443]).check("https://example.com:8443/")
    with pytest.raises(InvalidInput):
        Outbound(ports=[8443]).check("https://example.com/")


@pytest.mark.parametrize(
    ("addresses", "is_safe"),
    [
        (["93.184.215.14"], True),
        (["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"], True),
        (["127.0.0.1"], False),
        (["93.184.215.14", "10.0.0.1"], False),
        (["::ffff:127.0.0.1"], False),
        (["fe80::1%eth0"], False),
        ([], False),
    ],
)
def test_every_address_of_a_name_must_be_public(addresses: list[str], is_safe: bool) -> None:
    async def scenario() -> None:
        outbound = Outbound(resolving=Names(**{"hook.example.com": addresses}))
        if is_safe:
            await outbound.check_resolved("https://hook.example.com/")
            return
        with pytest.raises(InvalidInput):
            await outbound.check_resolved("https://hook.example.com/")

    asyncio.run(scenario())


def test_a_name_that_changes_its_mind_is_not_connected_to() -> None:
    async def scenario() -> None:
        async with _Listening() as target:
            names = Names(**{"hook.example.com": ["93.184.215.14"]})
            outbound = Outbound(ports=[target.port], resolving=names)
            url = f"http://hook.example.com:{target.port}/"
            await outbound.check_resolved(url)
            names.addresses["hook.example.com"] = ["127.0.0.1"]
            async with outbound.session(5) as session:
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.post(outbound.check(url))
            assert target.heard == []

    asyncio.run(scenario())


def test_a_trusted_name_is_connected_to_and_its_redirects_are_not_followed() -> None:
    async def scenario() -> None:
        async with _Listening() as target:
            names = Names(intranet=["127.0.0.1"])
            outbound = Outbound(["intranet"], resolving=names)
            url = outbound.check(f"http://intranet:{target.port}/moved")
            async with (
                outbound.session(5) as session,
                session.post(url, allow_redirects=False) as reply,
            ):
                assert reply.status == 302
            assert target.heard == ["/moved"]

    asyncio.run(scenario())


def test_a_post_that_is_redirected_has_failed_and_names_nobody() -> None:
    async def scenario() -> None:
        async with _Listening() as target:
            outbound = Outbound(["intranet"], resolving=Names(intranet=["127.0.0.1"]))
            async with outbound.session(5) as session:
                url = f"http://intranet:{target.port}/secret"
                with pytest.raises(Undelivered, match="302") as moved:
                    await outbound.post(session, url, b"{}", {})
                assert target.heard == ["/secret"]
                with pytest.raises(Undelivered) as refused:
                    await outbound.post(session, "http://10.0.0.1/secret", b"{}", {})
            for error in (moved.value, refused.value):
                assert "secret" not in str(error)
                assert error.__cause__ is None

    asyncio.run(scenario())


class Names(AbstractResolver):
    """Names and their addresses; makes itself when a resolver is asked for."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = addresses

    def __call__(self) -> "Names":
        return self

    async def resolve(
        self, host: str, port: int = 0, family: Any = socket.AF_INET
    ) -> list[ResolveResult]:
        found = self.addresses.get(host)
        if found is None:
            raise OSError("unknown")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass


class _Listening:
    """A target on this machine that says where else to look."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.port = 0

    async def __aenter__(self) -> "_Listening":
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._hear)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _hear(self, request: web.Request) -> web.Response:
        self.heard.append(request.path)
        raise web.HTTPFound("/elsewhere")


def test_a_host_that_the_operator_named_may_be_private_and_no_other_one() -> None:
    guard = Outbound().with_trusted_host("10.0.0.7")
    assert guard.check("http://10.0.0.7:8080/a").port == 8080
    with pytest.raises(InvalidInput):
        guard.check("http://10.0.0.8:8080/a")
    with pytest.raises(InvalidInput):
        Outbound().check("http://10.0.0.7/a")
