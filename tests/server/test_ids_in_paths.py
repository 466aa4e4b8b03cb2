"""Ids in paths: whatever an id consists of, its percent-encoded form names it, or nothing gets it.

The console has the same corpus: `console/tests/ids.spec.ts`.
"""

import asyncio
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from awaken import Agent, AgentRuntime
from awaken.contracts.identity import RESERVED_IDS
from awaken.errors import InvalidInput, InvalidSpec
from awaken.server import ServerApp
from awaken.server.app import ENCODED_SLASH, RouteTable, mark_slashes
from awaken.testing import ScriptedModel

from .native_client import Client, native, talking

IDS = (
    "a/b",
    "/",
    "a//b/",
    "a/..",
    "../a",
    "./.",
    "...",
    ".well-known",
    "x/messages",
    "%",
    "%2F",
    "a%252Fb",
    "?",
    "a?b=c&d#e",
    "#",
    "a b",
    "+",
    "a:cancel",
    ";a=b,c",
    "back\\slash",
    "'\"<i>",
    "é",
    "e\u0301",
    "日本/語",
    "🙂",
)
REFUSED = tuple(RESERVED_IDS)
MESSAGE = {"id": "m", "role": "user", "content": "hi"}
PARAMETERS = {"thread_id": "thread_id", "run_id": "run_id_hint", "agent_id": "agent_id"}


def encoded(id_: str) -> str:
    return quote(id_, safe="")


async def ask(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Ask as a client does that encodes the id by itself, and nothing else."""
    url = URL(f"{client.url}{path}", encoded=True)
    async with client.session.request(method, url, json=body) as reply:
        return reply.status, await reply.json() if await reply.text() else None


def test_every_id_of_a_thread_and_of_a_run_can_be_addressed_percent_encoded() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), native(talking()) as client:
            for id_ in IDS:
                own, message = encoded(id_), {"id": f"m {id_}", "role": "user", "content": "hi"}
                said = {"threadId": id_, "runId": id_, "messages": [message]}
                url = URL(f"{client.url}/v1/ag-ui/agents/a/runs", encoded=True)
                async with client.session.post(url, json=said) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()
                assert (await ask(client, "GET", f"/v1/threads/{own}"))[1]["id"] == id_
                assert (await ask(client, "GET", f"/v1/runs/{own}"))[1]["run_id"] == id_
                _, page = await ask(client, "GET", f"/v1/threads/{own}/messages")
                assert page["items"][0]["message"]["id"] == f"m {id_}", id_
                _, page = await ask(client, "GET", f"/v1/runs/{own}/events")
                assert page["items"], id_
                assert (await ask(client, "DELETE", f"/v1/threads/{own}"))[0] == 204, id_
                assert (await ask(client, "GET", f"/v1/threads/{own}"))[0] == 404, id_

    asyncio.run(main())


def test_every_id_of_an_agent_can_be_addressed_percent_encoded() -> None:
    async def main() -> None:
        model = ScriptedModel(["Hello."], cycle=True)
        runtime = AgentRuntime([Agent(id_, model=model) for id_ in IDS])
        async with asyncio.timeout(60), native(runtime) as client:
            for id_ in IDS:
                assert (await ask(client, "GET", f"/v1/agents/{encoded(id_)}"))[1]["id"] == id_
                body = {"threadId": f"of {id_}", "messages": [MESSAGE]}
                path = f"/v1/ag-ui/agents/{encoded(id_)}/runs"
                assert (await ask_status(client, path, body)) == 200, id_

    asyncio.run(main())


PIECES = st.sampled_from(
    ["/", ".", "..", "%2F", "%", "\\", "?", "#", ":", "search", " ", "🙂", "a"]
)
ANY_ID = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=300),
    st.lists(PIECES, max_size=6).map("".join),
    st.sampled_from([*RESERVED_IDS, *IDS]),
    st.integers(250, 600).map("x".__mul__),
)


@settings(max_examples=10, deadline=None)
@given(st.lists(ANY_ID, min_size=5, max_size=10, unique=True))
def test_whatever_id_a_thread_has_every_path_opens_it_or_nothing_was_begun(ids: list[str]) -> None:
    """What begins a thread and what opens one agree about every text, over all readers."""

    async def main() -> None:
        runtime = talking()
        app = runtime.asgi()
        assert isinstance(app, ServerApp)
        readers = [
            route.path
            for route in app.routes
            if route.method == "GET"
            and re.findall(r"\{(\w+)\}", route.path) == ["thread_id"]
            and not route.path.endswith(("/stream", "/runs/active"))
        ]
        assert len(readers) >= 9
        begun = []
        async with asyncio.timeout(120), native(runtime) as client:
            for id_ in ids:
                body = {"agentId": "a", "threadId": id_, "messages": [MESSAGE]}
                status = await ask_status(client, "/v1/runs", body)
                assert status in (200, 400, 422), (status, id_)
                begun += [id_] if status == 200 else []
                for reader in readers if status == 200 else ():
                    path = reader.replace("{thread_id}", encoded(id_))
                    assert (await ask(client, "GET", path))[0] == 200, (path, id_)
            listed = await client.get("/v1/threads")
            assert sorted(listed["items"]) == sorted(begun)

    asyncio.run(main())


async def ask_status(client: Client, path: str, body: Any) -> int:
    async with client.session.post(URL(f"{client.url}{path}", encoded=True), json=body) as reply:
        await reply.read()
        return reply.status


@pytest.mark.parametrize("id_", REFUSED)
def test_an_id_that_no_url_can_name_is_refused_where_it_would_begin(id_: str) -> None:
    async def main() -> None:
        kind = RESERVED_IDS[id_]
        message = {"role": "user", "content": "hi"}
        async with asyncio.timeout(30), native(talking()) as client:
            if kind in ("", "thread_id"):
                body = {"agentId": "a", "threadId": id_, "messages": [message]}
                status, refusal = await ask(client, "POST", "/v1/runs", body)
                assert (status, refusal["code"]) == (400, "invalid_input")
                assert "thread_id" in refusal["error"]
                with pytest.raises(InvalidInput, match="choose another id"):
                    await client.runtime.run("a", "hi", thread_id=id_)
                with pytest.raises(InvalidInput, match="choose another id"):
                    await client.runtime.submit("a", "hi", thread_id=id_)
            if kind in ("", "run_id_hint"):
                body = {"threadId": "t", "runId": id_, "messages": [{"id": "1", **message}]}
                assert await ask_status(client, "/v1/ag-ui/agents/a/runs", body) == 400
            if kind in ("", "agent_id"):
                with pytest.raises(InvalidSpec, match="no URL could name it"):
                    AgentRuntime([Agent(id_, model=ScriptedModel(["Hello."]))])
            listed = await client.get("/v1/threads")
            assert listed["items"] == []

    asyncio.run(main())


def test_a_tenant_is_refused_the_same_ids() -> None:
    async def main() -> None:
        runtime = talking()
        with pytest.raises(InvalidInput, match=r"'\.\.' has a meaning"):
            async with runtime:
                await runtime.run("a", "hi", thread_id="..", tenant_id="ann")

    asyncio.run(main())


def test_every_word_of_a_path_that_hides_an_id_is_reserved() -> None:
    app = talking().asgi()
    assert isinstance(app, ServerApp)
    paths = {route.path for route in app.routes}
    hidden = set()
    for path in paths:
        head, _, last = path.rpartition("/")
        if not (name := re.fullmatch(r"\{(\w+)\}", last)) or name[1] not in PARAMETERS:
            continue
        words = {other.rpartition("/")[2] for other in paths if other.rpartition("/")[0] == head}
        hidden |= {(word, PARAMETERS[name[1]]) for word in words if "{" not in word and word}
    assert hidden == {(word, kind) for word, kind in RESERVED_IDS.items() if kind}


def test_the_slash_of_an_id_is_found_below_any_mount() -> None:
    def path(below: str, raw: str) -> str:
        return mark_slashes(below, raw.encode())

    mark = ENCODED_SLASH
    assert path("/v1/threads/a/b", "/v1/threads/a%2Fb") == f"/v1/threads/a{mark}b"
    assert path("/v1/threads/a/b", "/v1/threads/a/b") == "/v1/threads/a/b"
    assert path("/v1/threads/a%2Fb", "/v1/threads/a%252Fb") == "/v1/threads/a%2Fb"
    assert path("/v1/threads/é/b", "/my%20apps/v1/threads/%C3%A9%2fb") == f"/v1/threads/é{mark}b"
    # With a raw path of another address, the decoded path counts.
    assert path("/v1/threads/a/b", "/elsewhere%2F") == "/v1/threads/a/b"
    assert path("/v1/threads/a/b", "%2F") == "/v1/threads/a/b"
    table = RouteTable([("GET", "/v1/threads/{thread_id}", 1), ("GET", "/x/{rest:path}", 2)])
    assert table.find(f"/v1/threads/a{mark}b") == ({"GET": 1}, {"thread_id": "a/b"})
    assert table.find(f"/x/a{mark}b/c") == ({"GET": 2}, {"rest": "a/b/c"})
    assert table.find("/v1/threads/a/b") is None


@pytest.mark.parametrize("is_stripped", [True, False])
def test_an_id_is_addressed_below_a_mount(is_stripped: bool) -> None:
    """Frameworks leave the mount's part in the path, or take it away; the raw path has it."""

    async def main() -> None:
        runtime, sent = talking(), list[Any]()
        await runtime.run("a", "hi", thread_id="a/b")
        path = "/v1/threads/a/b" if is_stripped else "/my apps/v1/threads/a/b"
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": b"/my%20apps/v1/threads/a%2Fb",
            "root_path": "/my apps",
            "query_string": b"",
            "client": ("127.0.0.1", 1),
            "headers": [(b"host", b"localhost")],
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        app = runtime.asgi()
        async with asyncio.timeout(30):
            await app(scope, receive, send)
            await app.close()
        assert sent[0]["status"] == 200, sent
        assert b'"a/b"' in sent[1]["body"]

    asyncio.run(main())
