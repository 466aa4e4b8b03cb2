"""The welcome page: served to everybody, from this server alone, wherever it is mounted."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from awaken import Access, AgentRuntime, RedactedString
from awaken.demo.agents import demo_agents
from awaken.protocols import welcome
from awaken.protocols.welcome.routes import POLICY, ROUTES
from awaken.server import ServerConfig, TokenSpec

from .serving import serving, serving_app

FILES = sorted(Path(welcome.__file__).parent.glob("*.*[!y]"))
PAGE = (Path(welcome.__file__).parent / "index.html").read_text(encoding="utf-8")
SCRIPT = (Path(welcome.__file__).parent / "page.js").read_text(encoding="utf-8")
LINES_MAX = 650


@pytest.mark.parametrize("place", ["", "/ai"])
def test_everything_that_the_page_loads_is_there_below_its_own_address(place: str) -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(demo_agents({}))
        outer = Starlette(routes=[Mount(place, app=runtime.asgi())])
        async with serving_app(outer) as url, aiohttp.ClientSession() as session:
            for name in ("", *re.findall(r'(?:href|src)="([^"]+)"', PAGE)):
                async with session.get(f"{url}{place}/{name}") as reply:
                    assert reply.status == 200, name
        await runtime.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_the_page_is_open_and_may_call_nobody_but_its_server() -> None:
    async def scenario() -> None:
        token = TokenSpec(id="a", access=frozenset({Access.READ}), token=RedactedString("secret"))
        runtime = AgentRuntime(demo_agents({}))
        async with (
            serving(runtime, ServerConfig(tokens=(token,))) as url,
            aiohttp.ClientSession() as session,
        ):
            async with session.get(f"{url}/v1/agents") as closed:
                assert closed.status == 401
            for route in ROUTES:
                async with session.get(f"{url}{route.path}") as reply:
                    assert reply.status == 200
                    assert reply.headers["content-security-policy"] == POLICY
                    assert reply.headers["x-content-type-options"] == "nosniff"
                    assert "secret" not in await reply.text()
            async with session.get(f"{url}/") as page:
                assert page.headers["content-type"] == "text/html; charset=utf-8"

    asyncio.run(scenario())


def test_after_a_reload_the_page_asks_for_the_newest_messages() -> None:
    async def scenario() -> None:
        (query,) = re.findall(r"/messages(\?[^`]*)`", SCRIPT)
        async with (
            serving(AgentRuntime(demo_agents({}))) as url,
            aiohttp.ClientSession() as session,
        ):
            texts = [{"role": "user", "content": f"n{place}"} for place in range(210)]
            body = {"agentId": "default", "threadId": "t", "messages": texts}
            async with session.post(f"{url}/v1/runs", json=body) as run:
                await run.read()
            async with session.get(f"{url}/v1/threads/t/messages{query}") as reply:
                newest = (await reply.json())["items"][0]["message"]
                assert newest["role"] == "assistant"

    asyncio.run(scenario())


def test_the_policy_allows_no_inline_code_and_nothing_from_elsewhere() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert set(rules.values()) == {"'self'", "'none'"}
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|<style|javascript:", PAGE)


def test_no_file_names_another_address() -> None:
    assert len(FILES) >= len(ROUTES)
    for file in FILES:
        addresses = re.findall(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`]*""", file.read_text())
        assert [it for it in addresses if "www.w3.org/2000/svg" not in it] == [], file


def test_the_page_is_small_and_says_what_each_field_is() -> None:
    assert sum(len(file.read_text().splitlines()) for file in FILES) <= LINES_MAX
    assert '<html lang="en">' in PAGE
    fields = re.findall(r'<(?:input|textarea) id="(\w+)"', PAGE)
    assert fields
    assert all(f'<label for="{field}"' in PAGE for field in fields)
