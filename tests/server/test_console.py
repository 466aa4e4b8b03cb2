"""The console's files belong to their sources; they are served under any mount."""

import asyncio
import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from yarl import URL

from awaken import Access, AgentRuntime, RedactedString
from awaken.demo.agents import demo_agents
from awaken.protocols.console.routes import BUILT
from awaken.server import AdminConfig, ServerConfig, TokenSpec

from .serving import serving, serving_app

SOURCES = Path(__file__).parents[2] / "console"
MANIFEST: dict[str, Any] = json.loads((BUILT / "manifest.json").read_text(encoding="utf-8"))
FILES = {it["name"]: it for it in MANIFEST["files"]}
FIRST_PAGE_GZIP = 300_000
ALL_PAGES_GZIP = 1_010_000
ALL_FILES = 3_500_000
IN_THE_WHEEL = 1_200_000
NAMED_ADDRESSES = re.compile(
    r"https?://(?:www\.w3\.org/|react\.dev/|github\.com/|mantine\.dev/|tanstack\.com/|json-schema\.org/"
    r"|127\.0\.0\.1|localhost|fb\.me/|reactjs\.org/|mths\.be/|feross\.org|redux\.js\.org/|redux-toolkit\.js\.org/|bit\.ly/|rjsf-team\.github\.io)"
)
"""Addresses in texts of libraries and in names of XML and schemas; none is requested."""


def hash_sources() -> str:
    """As `console/scripts/manifest.ts` does it."""
    digest = hashlib.sha256()
    places = [SOURCES / name for name in MANIFEST["sources"]]
    found = [it for place in places for it in ([place] if place.is_file() else place.rglob("*"))]
    names = {it.relative_to(SOURCES).as_posix(): it for it in found if it.is_file()}
    for name in sorted(names):
        if not re.search(r"\.test\.tsx?$", name):
            digest.update(f"{name}\0".encode() + names[name].read_bytes() + b"\0")
    return digest.hexdigest()


def test_the_built_files_belong_to_the_sources() -> None:
    assert hash_sources() == MANIFEST["sha256"], "run `make console`, and commit what it builds"


def test_the_bench_imports_only_what_node_finds_by_itself() -> None:
    todo, seen = [SOURCES / "tests" / "bench_pages.ts"], set[Path]()
    while todo:
        seen.add(module := todo.pop())
        names = re.findall(r'from "(\.[^"]*)"', module.read_text(encoding="utf-8"))
        found = [(module.parent / name).resolve() for name in names]
        # Vite and Playwright add the extension, Node does not.
        missing = [it for it in found if not it.is_file()]
        assert not missing, f"{module.name} imports {missing}"
        todo += [it for it in found if it not in seen]
    assert len(seen) > 1


def test_the_manifest_lists_every_file_as_it_is() -> None:
    built = {it.relative_to(BUILT).as_posix(): it for it in BUILT.rglob("*") if it.is_file()}
    assert set(built) == {*FILES, "manifest.json"}
    assert {name: built[name].stat().st_size for name in FILES} == {
        name: it["bytes"] for name, it in FILES.items()
    }


def loaded_by(name: str, seen: set[str]) -> set[str]:
    """The files that a module loads before it runs, and itself."""
    if name in seen:
        return seen
    seen.add(name)
    text = (BUILT / "assets" / name).read_text(encoding="utf-8")
    for other in re.findall(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""", text):
        loaded_by(other, seen)
    return seen


def test_the_console_is_light() -> None:
    page = (BUILT / "index.html").read_text(encoding="utf-8")
    first = re.findall(r'="\./assets/([\w.-]+)"', page)
    home = next(name for name in FILES if re.match(r"assets/HomePage-.*\.js$", name))
    modules: set[str] = set()
    for name in (*(it for it in first if it.endswith(".js")), Path(home).name):
        loaded_by(name, modules)
    styles = {Path(it).name for it in FILES if it.endswith(".css") and Path(it).name in first}
    weight = sum(FILES[f"assets/{name}"]["gzip"] for name in modules | styles)
    assert weight <= FIRST_PAGE_GZIP
    assert sum(it["gzip"] for it in FILES.values()) <= ALL_PAGES_GZIP
    assert sum(it["bytes"] for it in FILES.values()) <= ALL_FILES


def test_the_console_is_a_small_part_of_the_wheel() -> None:
    packed = [zlib.compress(it.read_bytes()) for it in BUILT.rglob("*") if it.is_file()]
    assert sum(map(len, packed)) <= IN_THE_WHEEL


def test_no_file_asks_another_address() -> None:
    for name in FILES:
        text = (BUILT / name).read_text(encoding="utf-8")
        found = re.findall(r"""https?://[\w.-]+[^\s"'`)\\<]*""", text)
        assert [it for it in found if not NAMED_ADDRESSES.match(it)] == [], name


@pytest.mark.parametrize("place", ["", "/ai", "/x/y z"])
def test_every_address_of_the_console_loads_what_it_needs(place: str) -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(demo_agents({}))
        outer = Starlette(routes=[Mount(place, app=runtime.asgi())])
        async with serving_app(outer) as url, aiohttp.ClientSession() as session:
            for path in ("/", "/console", "/console/", "/console/runs/some.run", "/console/chat"):
                async with session.get(f"{url}{place}{path}") as reply:
                    assert reply.status == 200
                    page = await reply.text()
                assert f'name="awaken-root" content="{quote(place)}"' in page
                for name in re.findall(r'(?:href|src)="([^"]+)"', page):
                    assert " " not in name
                    async with session.get(URL(f"{url}{name}", encoded=True)) as loaded:
                        assert loaded.status == 200, name
            async with session.get(f"{url}{place}/console/assets/none.js") as missing:
                assert missing.status == 404
            async with session.get(f"{url}{place}/console/../pyproject.toml") as outside:
                assert outside.status == 404
        await runtime.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_the_console_is_open_and_its_page_may_call_its_own_server_only() -> None:
    async def scenario() -> None:
        token = TokenSpec(id="a", access=frozenset({Access.READ}), token=RedactedString("secret"))
        runtime = AgentRuntime(demo_agents({}))
        nonces = set()
        async with (
            serving(runtime, ServerConfig(tokens=(token,))) as url,
            aiohttp.ClientSession() as session,
        ):
            async with session.get(f"{url}/v1/agents") as closed:
                assert closed.status == 401
            for _ in range(2):
                async with session.get(f"{url}/console/") as reply:
                    policy, page = reply.headers["content-security-policy"], await reply.text()
                    assert reply.headers["cache-control"] == "no-store"
                (nonce,) = re.findall(r"'nonce-([^']+)'", policy)
                assert f'<meta property="csp-nonce" nonce="{nonce}">' in page
                assert "secret" not in page
                # No placeholder is left; a nonce may have underscores.
                assert "__" not in re.sub(r'nonce="[^"]*"', "", page)
                nonces.add(nonce)
            rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
            assert rules["default-src"] == "'none'"
            assert rules["script-src"] == rules["connect-src"] == "'self'"
            assert not re.search(
                r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|<style|javascript:", page
            )
        assert len(nonces) == 2

    asyncio.run(scenario())


def test_files_are_packed_for_who_can_unpack_them_and_kept_for_ever() -> None:
    async def scenario() -> None:
        name = next(it for it in FILES if it.endswith(".js"))
        async with (
            serving(AgentRuntime(demo_agents({}))) as url,
            aiohttp.ClientSession(auto_decompress=False) as session,
        ):
            for accepted in ("gzip, br", "identity"):
                headers = {"accept-encoding": accepted}
                async with session.get(f"{url}/console/{name}", headers=headers) as reply:
                    body = await reply.read()
                    assert "immutable" in reply.headers["cache-control"]
                    is_packed = reply.headers.get("content-encoding") == "gzip"
                assert is_packed == ("gzip" in accepted)
                assert (gzip.decompress(body) if is_packed else body) == (BUILT / name).read_bytes()

    asyncio.run(scenario())


def test_a_console_that_is_built_anew_is_sent_and_chunks_that_went_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(name: str, at: int) -> None:
        shutil.rmtree(tmp_path / "assets", ignore_errors=True)
        (tmp_path / "assets").mkdir()
        (tmp_path / "assets" / name).write_text(f"// {name}", encoding="utf-8")
        page = f'<script type="module" src="./assets/{name}"></script>'
        (tmp_path / "index.html").write_text(page, encoding="utf-8")
        (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
        os.utime(tmp_path / "manifest.json", (at, at))

    async def scenario() -> None:
        async with (
            serving(AgentRuntime(demo_agents({}))) as url,
            aiohttp.ClientSession() as session,
        ):

            async def get(path: str) -> tuple[int, str]:
                async with session.get(f"{url}/console/{path}") as reply:
                    return reply.status, await reply.text()

            build("old.js", 1)
            assert "old.js" in (await get(""))[1]
            # The build removes a file that the server knows, and has not sent yet.
            (tmp_path / "assets" / "old.js").unlink()
            assert (await get("assets/old.js"))[0] == 404
            (tmp_path / "manifest.json").unlink()
            assert (await get("runs"))[0] == 503
            build("new.js", 2)
            assert "new.js" in (await get("runs"))[1]
            assert (await get("assets/new.js"))[0] == 200
            assert (await get("assets/old.js"))[0] == 404

    monkeypatch.setattr("awaken.protocols.console.routes.BUILT", tmp_path)
    asyncio.run(scenario())


def test_a_server_can_be_without_a_console() -> None:
    async def scenario() -> None:
        config = ServerConfig(admin=AdminConfig(console=False))
        async with (
            serving(AgentRuntime(demo_agents({})), config) as url,
            aiohttp.ClientSession() as session,
        ):
            for path in ("/", "/console/"):
                async with session.get(f"{url}{path}") as reply:
                    assert reply.status == 404

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("access", "tenant", "scopes"),
    [
        ({Access.READ}, None, ["read"]),
        ({Access.ADMIN}, None, ["admin", "config", "eval", "operate", "publish", "read"]),
        ({Access.READ, Access.CONFIG}, "acme", ["read"]),
    ],
)
def test_a_caller_is_told_what_it_may_do(
    access: set[Access], tenant: str | None, scopes: list[str]
) -> None:
    async def scenario() -> None:
        spec = TokenSpec(
            id="ann", access=frozenset(access), token=RedactedString("t" * 20), tenant_id=tenant
        )
        headers = {"authorization": "Bearer " + "t" * 20}
        async with (
            serving(AgentRuntime(demo_agents({})), ServerConfig(tokens=(spec,))) as url,
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{url}/v1/system/caller") as reply,
        ):
            assert await reply.json() == {"id": "ann", "tenant_id": tenant, "scopes": scopes}

    asyncio.run(scenario())
