"""Two server processes of one store, of which one has less code, and what reaches the other."""

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken.contracts.clock import SystemClock

from .processes import Served, Shop, eventually

APP = """
import asyncio
from pathlib import Path

from awaken import Agent, AgentRuntime, ModelSpec, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.stores import PostgresStore, SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

HERE = Path(__file__).parent


@tool
def wipe() -> str:
    "Wipe everything."
    return "WIPED"


@tool(effect="none")
def extra() -> str:
    "Only the newer code has it."
    return "extra"


@tool(effect="idempotent")
async def slow() -> str:
    "Take a while."
    (HERE / "begun").write_text("x")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.01)
    return "at last"


def answer(request):
    results = [message for message in request.messages if message.role == "tool"]
    names = [it.id for it in request.tools]
    if results or not names:
        return f"prompt={''.join(request.system)} results={results}"
    return ToolCalls([(names[0], {})])


newer = [Agent("expert", model=ScriptedModel(["I know."], cycle=True))]
runtime = AgentRuntime(
    newer if IS_NEW else [],
    tools=[wipe, slow, *([extra] if IS_NEW else [])],
    plugins=[PermissionPlugin()],
    providers={"own": ScriptedModel([answer], cycle=True)},
    models=[ModelSpec(id="fast", provider_id="own", upstream_model="fast-1")],
    store=STORE,
    managed=True,
)
"""
SEEN_S = {"sqlite": 2.5, "postgres": 1.0}
"""How soon another process has a publication."""
SPARE_S = 5.0
"""What a busy machine may add; the time is printed."""
KEYS = {"AWAKEN_SECRET_KEYS": "a:" + "A" * 43 + "="}
ids = count(1)
CLOCK = SystemClock()


def call(operation: str, body: Any = None, **more: str) -> tuple[int, Any]:
    """Send a request; returns the status and the JSON, or the lines of a stream.

    Further keywords are headers, with `_` for `-`.

    An answer that ends before its end is an OSError, like a connection that was never made.
    """
    method, url = operation.split()
    data = None if body is None else json.dumps(body).encode()
    headers = {
        "content-type": "application/json",
        **{name.replace("_", "-"): it for name, it in more.items()},
    }
    asked = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=20) as reply:
            status, text = reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    except http.client.HTTPException as error:
        # A server that is killed between the headers and the body of an answer.
        raise ConnectionError(f"{method} {url}: {error!r}") from error
    return status, json.loads(text) if text[:1] in ("{", "[") else text


class Vendor(ThreadingHTTPServer):
    """A provider that refuses every call, and notes the key that it was called with."""

    def __init__(self) -> None:
        keys: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                keys.append(self.headers["authorization"])
                self.rfile.read(int(self.headers.get("content-length", 0)))
                text = b'{"error": {"message": "no"}}'
                self.send_response(400)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_args: Any) -> None:
                """Tests need no log."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = keys
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


def agent(**fields: Any) -> dict[str, Any]:
    return {"model_id": "fast", "allowed_tools": [], **fields}


def list_records(vendor: Vendor) -> dict[str, dict[str, Any]]:
    """What is published before the tests, by its path."""
    section = {"permission": {"include": ["shared"]}}
    guarded = {"allowed_tools": ["wipe"], "plugin_ids": ["permission"], "sections": section}
    provider = {"adapter": "openai_chat", "base_url": vendor.url, "api_key": "first-key"}
    return {
        "rulesets/shared": {"rules": [{"tool": "wipe", "behavior": "allow"}]},
        "agents/guarded": agent(**guarded),
        "agents/slow": agent(allowed_tools=["slow"]),
        "providers/vendor": provider,
        "models/far": {"provider_id": "vendor", "upstream_model": "m"},
        "agents/far": agent(model_id="far"),
    }


class Pair:
    """A process with the newer code, one with the older, and the folder of both."""

    def __init__(self, shop: Shop, store: str, place: str, vendor: "Vendor") -> None:
        self.shop, self.store, self.vendor = shop, store, vendor
        for name, is_new in (("new.py", True), ("old.py", False)):
            code = APP.replace("IS_NEW", str(is_new)).replace("STORE", place)
            shop.write(name, code)
        with ThreadPoolExecutor() as threads:
            later = threads.submit(shop.serve, "old.py", env=KEYS)
            self.new = shop.serve("new.py", env=KEYS)
            for path, body in list_records(vendor).items():
                put(self.new, "PUT", path, body)
            self.old = later.result()
        self.until_same()

    def wait(self, look: Callable[[], Any]) -> float:
        """Wait until the other process shows something; returns the seconds, and prints them."""
        began = CLOCK.monotonic_ms()
        eventually(look)
        took = (CLOCK.monotonic_ms() - began) / 1000
        print(f"{self.store}: seen by the other process after {took:.2f} s")
        assert took < SEEN_S[self.store] + SPARE_S
        return took

    def until_same(self) -> None:
        """Wait until the older process has the head."""
        revision = put(self.new, "GET", "head")["revision"]
        self.wait(lambda: put(self.old, "GET", "head")["this_process"]["revision"] >= revision)


def put(served: Served, method: str, path: str, body: Any = None) -> Any:
    """Do something with the configuration that works."""
    status, reply = call(f"{method} {served.url}/v1/config/{path}", body)
    assert status < 300, (path, status, reply)
    return reply


def run(served: Served, agent_id: str) -> str:
    """Run an agent in one process; returns its stream, or its refusal, as text."""
    message = {"role": "user", "content": "go"}
    body = {"agent_id": agent_id, "thread_id": f"t{next(ids)}", "messages": [message]}
    status, reply = call(f"POST {served.url}/v1/runs", body)
    return reply if status == 200 else json.dumps({"status": status, **reply})


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    place = f"SqliteStore({str(folder / 'store.db')!r})"
    if request.param == "postgres":
        place = f"PostgresStore({server().url!r}, schema={new_schema()!r})"
    shop = Shop(folder)
    with Vendor() as vendor:
        threading.Thread(target=vendor.serve_forever, daemon=True).start()
        try:
            yield Pair(shop, request.param, place, vendor)
        finally:
            shop.close()
            vendor.shutdown()


def test_a_publication_of_one_process_is_seen_by_the_other(pair: Pair) -> None:
    for served, other in ((pair.new, pair.old), (pair.old, pair.new)):
        name = f"seen{next(ids)}"
        put(served, "PUT", f"agents/{name}", agent(system_prompt=name))

        def is_seen(name: str = name, other: Served = other) -> bool:
            return f"prompt={name}" in run(other, name)

        pair.wait(is_seen)


def test_older_code_loses_only_what_it_cannot_compile_and_never_misses_a_denial(
    pair: Pair,
) -> None:
    assert "WIPED" in run(pair.old, "guarded")
    put(pair.new, "PUT", "agents/needs_tool", agent(allowed_tools=["extra"]))
    put(pair.new, "PUT", "agents/needs_agent", agent(delegates=["expert"]))
    put(pair.new, "PUT", "rulesets/shared", {"rules": [{"tool": "wipe", "behavior": "deny"}]})
    pair.until_same()
    assert "WIPED" not in run(pair.old, "guarded")
    here = put(pair.old, "GET", "head")["this_process"]
    assert here["publication"] == put(pair.new, "GET", "head")["publication"]
    assert here["problem"] is None
    # Without its tool an agent can still be used; that the pattern matches nothing is told.
    assert list(here["unusable"]) == ["needs_agent"]
    told = put(pair.old, "GET", "diagnostics")["diagnostics"]
    assert "pattern_matches_nothing" in [
        it["code"] for it in told if it["path"] == "agents/needs_tool"
    ]
    assert call(f"GET {pair.old.url}/health")[1]["components"]["config"] == "partial"
    assert call(f"GET {pair.new.url}/health")[1]["components"]["config"] == "ok"
    refused = json.loads(run(pair.old, "needs_agent"))
    assert (refused["status"], refused["code"]) == (503, "agent_unusable")


def test_a_publication_that_all_must_compile_is_refused_by_older_code(pair: Pair) -> None:
    before = put(pair.new, "GET", "head")["publication"]
    name = f"strict{next(ids)}"

    def publish(spec: dict[str, Any]) -> tuple[int, Any]:
        draft = put(pair.new, "POST", "drafts", {"title": "try"})["id"]
        put(pair.new, "PUT", f"drafts/{draft}/agents/{name}", {"spec": spec})
        url = f"{pair.new.url}/v1/config/drafts/{draft}/publish"
        return call(f"POST {url}", {"require": "all"}, if_match="*")

    status, reply = publish(agent(delegates=["expert"]))
    assert (status, reply["code"]) == (409, "refused_by"), reply
    assert "expert" in json.dumps(reply)
    assert put(pair.new, "GET", "head")["publication"] == before
    assert json.loads(run(pair.new, name))["status"] == 404
    status, reply = publish(agent(system_prompt="for all"))
    assert status == 201, reply
    pair.until_same()
    assert "prompt=for all" in run(pair.old, name)


def test_a_switch_that_one_process_sets_stops_a_run_in_the_other(pair: Pair) -> None:
    name = "slow"
    streams: list[str] = []
    running = threading.Thread(target=lambda: streams.append(run(pair.old, name)))
    running.start()
    eventually(pair.shop.has_begun)
    stop = {"state": "paused", "reason": "it is too slow"}
    put(pair.new, "PUT", f"switches/agent/{name}", stop)
    pair.until_same()
    (pair.shop.folder / "go").touch()
    running.join(20)
    assert "prompt=" not in streams[0]
    (paused,) = call(f"GET {pair.new.url}/v1/runs?agent_id={name}")[1]["items"]
    assert (paused["status"], paused["waiting"]["reason"]) == ("waiting", "manual_pause")
    put(pair.new, "DELETE", f"switches/agent/{name}")

    def is_done() -> bool:
        found = call(f"GET {pair.new.url}/v1/runs?agent_id={name}")[1]["items"]
        return [it["status"] for it in found] == ["done"]

    pair.wait(is_done)
    ended = call(f"GET {pair.new.url}/v1/runs/{paused['run_id']}")[1]
    assert ended["termination_reason"] == "natural"
    assert "at last" in ended["final_output"]


def test_a_rotated_secret_is_used_by_the_other_process_without_a_publication(
    pair: Pair,
) -> None:
    vendor = pair.vendor
    run(pair.old, "far")
    assert set(vendor.keys) == {"Bearer first-key"}
    before = put(pair.new, "GET", "head")["publication"]
    put(pair.new, "PUT", "secrets/providers/vendor/api_key", {"value": "second-key"})
    pair.until_same()
    vendor.keys.clear()
    run(pair.old, "far")
    assert set(vendor.keys) == {"Bearer second-key"}
    assert put(pair.old, "GET", "head")["publication"] == before


@pytest.mark.parametrize("pair", ["sqlite"], indirect=True)
def test_a_publisher_that_is_killed_leaves_a_whole_head_and_an_intact_chain(pair: Pair) -> None:
    doomed = pair.shop.serve("new.py", env=KEYS)
    written: list[int] = []

    def publish(lane: int) -> None:
        for no in range(1, 10_000):
            body = agent(system_prompt=f"{no}")
            try:
                status, _ = call(f"PUT {doomed.url}/v1/config/agents/lane{lane}", body)
            except OSError:
                return
            assert status == 200
            written.append(no)

    lanes = [threading.Thread(target=publish, args=(lane,)) for lane in range(3)]
    for thread in lanes:
        thread.start()
    eventually(lambda: len(written) >= 20)
    doomed.process.kill()
    for thread in lanes:
        thread.join(20)
    pair.until_same()
    head = put(pair.old, "GET", "head")
    newest = put(pair.old, "GET", f"publications/{head['publication']}")
    assert newest["manifest"].keys() >= {"agents", "rulesets"}
    acknowledged = len(written)
    shown = [put(pair.old, "GET", f"agents/lane{lane}") for lane in range(3)]
    total = sum(int(it["system_prompt"]) for it in shown)
    # What was acknowledged is there; of each lane one more may be, whose answer was lost.
    assert acknowledged <= total <= acknowledged + 3
    proof = call(f"GET {pair.old.url}/v1/audit-log/verify")[1]
    assert (proof["is_intact"], proof["checked"] >= acknowledged) == (True, True)
    for lane, it in enumerate(shown):
        assert f"prompt={it['system_prompt']} " in run(pair.old, f"lane{lane}")
    put(pair.new, "PUT", "agents/lane0", agent(system_prompt="after"))
    assert put(pair.new, "GET", "head")["publication"] == head["publication"] + 1
