"""`awaken serve` as a process: ready, clear refusals, signals, several on one store, reloading."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime
from awaken.cli.main import app
from awaken.demo.agents import demo_agents
from awaken.events import LIVE_EVENTS
from awaken.testing import ScriptedModel

from .processes import Served, Shop, eventually
from .serving import Frame, frames_of, post_stream, serving_app

OWN_RUNTIME = """
from awaken import Agent, AgentRuntime
from awaken.contracts.secrets import RedactedString
from awaken.server.config import ServerConfig, TokenSpec
from awaken.testing import ScriptedModel

one = Agent("one", model=ScriptedModel(["1"], cycle=True))
two = Agent("two", model=ScriptedModel(["2"], cycle=True))
runtime = AgentRuntime([one])
other = AgentRuntime([two])
ann = TokenSpec(id="ann", access=frozenset({"read"}), token=RedactedString("secret"))
config = ServerConfig(tokens=(ann,))


def stored():
    return AgentRuntime(store="sqlite:///own.db")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def status_of(url: str, token: str | None = None) -> tuple[int, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urlopen(Request(url, headers=headers), timeout=10) as reply:
            return reply.status, json.loads(reply.read() or b"null")
    except HTTPError as error:
        return error.code, json.loads(error.read())


def started(url: str, agent: str, thread: str, text: str = "go") -> "Reading":
    return Reading(Request(
        f"{url}/v1/runs",
        data=json.dumps(
            {"agentId": agent, "threadId": thread, "messages": [{"role": "user", "content": text}]}
        ).encode(),
        headers={"Content-Type": "application/json"},
    ))  # fmt: skip


class Reading:
    """A stream that is being read."""

    def __init__(self, request: Request | str) -> None:
        self._reply = urlopen(request, timeout=20)
        self.run_id = self._reply.headers["x-run-id"]
        self._head = ""

    def until(self, kind: str) -> list[Frame]:
        while f'"event_type":"{kind}"' not in self._head or not self._head.endswith("\n\n"):
            line = self._reply.readline().decode()
            assert line, f"no {kind} came: {self._head}"
            self._head += line
        return list(frames_of(self._head))

    def rest(self) -> list[Frame]:
        with closing(self._reply):
            return list(frames_of(self._head + self._reply.read().decode()))


LIVE = {it.__struct_config__.tag for it in LIVE_EVENTS}


def told(frames: list[Frame]) -> list[str]:
    """What a reader is told for good, however many pieces a text came in."""
    kinds = [it.data["event_type"] for it in frames if it.data["event_type"] not in LIVE]
    return [kind for kind, _ in groupby(kinds)]


def up_to_latest_id(frames: list[Frame]) -> list[Frame]:
    """What is not sent again to a reader that attaches with its latest id."""
    return frames[: max(place for place, frame in enumerate(frames) if frame.id is not None) + 1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_demo_is_served_without_any_setting_and_ends_cleanly(
    shop: Shop, number: signal.Signals
) -> None:
    served = shop.serve()
    assert served.ready["event"] == "ready"
    assert served.ready["pid"] == served.process.pid
    assert served.ready["store"] == "sqlite:///awaken.db"
    assert served.ready["agents"][:2] == ["default", "permission"]
    assert (shop.folder / "awaken.db").exists()
    assert status_of(f"{served.url}/health")[0] == 200
    frames = started(served.url, "default", "t", "Hello").rest()
    assert frames[-1].data["result"]["response"] == "Scripted response to: Hello"
    assert served.ended(number) == (0, "")


def test_the_environment_says_where_to_listen_and_to_keep_everything(shop: Shop) -> None:
    # Below those that the system hands out, so that nobody else gets it meanwhile.
    port = 20_000 + os.getpid() % 10_000
    environment = {"AWAKEN_HTTP_ADDR": f"localhost:{port}", "AWAKEN_STORAGE_DIR": "kept/here"}
    served = shop.serve("--port", str(port), env=environment)
    assert served.url == f"http://localhost:{port}"
    assert (shop.folder / "kept" / "here" / "awaken.db").exists()
    assert status_of(f"http://127.0.0.1:{port}/health")[0] == 200


def refused(*arguments: str, **environment: str) -> tuple[int, str]:
    """A command that must not begin: its exit code and its one line, behind any traceback."""
    unset = dict.fromkeys(("AWAKEN_STORE", "AWAKEN_HTTP_ADDR", "OPENAI_BASE_URL"))
    done = CliRunner().invoke(app, ["serve", *arguments], env={**unset, **environment})
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.stdout == ""
    *trace, line = done.stderr.splitlines()
    assert not trace or "cannot be imported" in line, done.stderr
    return done.exit_code, line


@pytest.mark.parametrize(
    ("arguments", "environment", "problem"),
    [
        (["nothing.py"], {}, "'nothing.py' is not a file"),
        (["broken.py"], {}, "SyntaxError"),
        (["empty.py"], {}, "defines no agent"),
        (["own.py:nobody"], {}, "is no agent"),
        (["own.py"], {}, "several runtimes: runtime, other"),
        (["own.py:stored", "--store", "sqlite:///x.db"], {}, "has its own"),
        (["--host", "no such host"], {}, "Refusing to listen"),
        (["--host", "0.0.0.0"], {}, "Refusing to listen on '0.0.0.0' without authentication"),
        (["--host", "no such host", "--token", "t"], {}, "there is no such host"),
        (["--host", "203.0.113.7", "--token", "t"], {}, "cannot be listened on"),
        (["--token", "two words"], {}, "printable ASCII without spaces"),
        (["--store", "sqlite:///no/such/folder/x.db"], {}, "no/such/folder"),
        (["--store", "redis://x"], {}, "no such store"),
        (["--reload"], {}, "name the APP"),
        ([], {"AWAKEN_HTTP_ADDR": "here"}, "AWAKEN_HTTP_ADDR is invalid: 'here' is no HOST:PORT"),
        ([], {"AWAKEN_HTTP_ADDR": "127.0.0.1:99999"}, "AWAKEN_HTTP_ADDR"),
        ([], {"AWAKEN_STORAGE_DIR": "empty.py/x"}, "AWAKEN_STORAGE_DIR"),
        ([], {"AGENT_MAX_ROUNDS": "many"}, "AGENT_MAX_ROUNDS is invalid: 'many'"),
        ([], {"AGENT_MODEL": "nobody:x"}, "AGENT_MODEL is invalid: there is no provider 'nobody'"),
        ([], {"AGENT_REASONING_EFFORT": "huge"}, "AGENT_REASONING_EFFORT"),
        ([], {"AWAKEN_SEED_PROFILE": "big"}, "AWAKEN_SEED_PROFILE"),
        ([], {"OPENAI_BASE_URL": "nowhere"}, "OPENAI_BASE_URL"),
        ([], {"OPENAI_ADAPTER": "soap"}, "OPENAI_ADAPTER"),
    ],
)
def test_what_cannot_begin_says_so_on_one_line_and_makes_nothing(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    environment: dict[str, str],
    problem: str,
) -> None:
    monkeypatch.chdir(shop.folder)
    shop.write("broken.py", "def broken(")
    shop.write("empty.py", "x = 1")
    shop.write("own.py", OWN_RUNTIME)
    before = sorted(path.name for path in shop.folder.glob("*.db*"))
    code, line = refused("--port", "0", *arguments, **environment)
    assert code in (1, 2)
    assert problem in line
    assert sorted(path.name for path in shop.folder.glob("*.db*")) == before


def test_a_port_that_is_taken_is_named_and_no_store_is_made(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.folder)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        code, line = refused("--port", port)
    assert code == 2
    assert f"127.0.0.1:{port} is invalid: another process listens there" in line
    assert not (shop.folder / "awaken.db").exists()


def test_reloading_without_its_library_names_the_extra(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.folder)
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert "pip install 'awaken[reload]'" in refused("app.py", "--reload")[1]


def test_a_runtime_of_a_file_is_served_as_its_file_says(shop: Shop) -> None:
    shop.write("own.py", OWN_RUNTIME)
    served = shop.serve("own.py:other", "--token", "typed")
    assert (served.ready["agents"], served.ready["store"]) == (["two"], "memory")
    agents = f"{served.url}/v1/agents"
    assert status_of(agents)[0] == 401
    assert status_of(agents, "wrong")[0] == 401
    assert [status_of(agents, token)[0] for token in ("secret", "typed")] == [200, 200]


def test_a_signal_lets_runs_end_and_their_readers_see_it(shop: Shop) -> None:
    served = shop.serve("app.py", "--drain-ms", "30000")
    reading = started(served.url, "slow", "t")
    eventually(shop.has_begun)
    served.ask()
    eventually(lambda: status_of(f"{served.url}/health")[0] == 503)
    assert status_of(f"{served.url}/health")[1]["components"]["runtime"] == "draining"
    with pytest.raises(HTTPError) as refusal:
        started(served.url, "slow", "t2")
    assert refusal.value.code == 503
    assert refusal.value.headers["retry-after"]
    refusal.value.close()
    (shop.folder / "go").touch()
    assert reading.rest()[-1].data["termination"] == {"type": "natural_end"}
    code, logged = served.rest()
    assert code == 0
    (line,) = logged.splitlines()
    assert "Refused 1 request to /v1/runs with 503 server_stopping" in line


def test_what_does_not_end_in_time_is_given_back_and_its_reader_goes_on_elsewhere(
    shop: Shop,
) -> None:
    first = shop.serve("app.py", "--drain-ms", "0")
    reading = started(first.url, "slow", "t")
    eventually(shop.has_begun)
    first.ask()
    seen = reading.rest()
    assert seen[-1].data["code"] == "server_stopping"
    assert first.rest() == (0, "")
    (shop.folder / "go").touch()
    second = shop.serve("app.py")
    prefix = up_to_latest_id(seen)
    run = f"{second.url}/v1/runs/{reading.run_id}/events/stream"
    rest = Reading(f"{run}?cursor={prefix[-1].id}").rest()
    assert rest[-1].data["termination"] == {"type": "natural_end"}
    assert told(prefix) + told(rest) == told(Reading(run).rest())
    code, logged = second.ended()
    assert code == 0
    (line,) = logged.splitlines()
    assert "of agent 'slow' on thread 't' goes on here after step 0" in line


def test_a_runtime_that_drains_leaves_what_is_queued_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, agent = f"sqlite:///{tmp_path}/s.db", Agent("plain", model=ScriptedModel(["Fine."]))
        async with AgentRuntime([agent], store=store) as runtime:
            await runtime.drain(0)
            worker = runtime._node.worker
            assert worker is not None
            assert worker._claiming is not None
            await asyncio.wait_for(asyncio.shield(worker._claiming), 10)
            receipt = await runtime.submit("plain", "Hi")
            assert (await runtime.get_run(receipt.run_id)).status == "created"
        async with AgentRuntime([agent], store=store) as other:
            result = await other.wait(receipt.run_id, timeout_ms=10_000)
            assert result.text == "Fine."

    asyncio.run(scenario())


def test_streams_that_wait_for_nothing_do_not_hold_a_server_up(shop: Shop) -> None:
    served = shop.serve("--drain-ms", "600000")
    started(served.url, "default", "t", "Hello").rest()
    reading = Reading(f"{served.url}/v1/threads/t/events/stream?cursor=0")
    reading.until("run_finish")
    served.ask()
    assert reading.rest()[-1].data["code"] == "server_stopping"
    assert served.rest() == (0, "")


def test_the_second_signal_does_not_wait(shop: Shop) -> None:
    served = shop.serve("app.py", "--drain-ms", "600000")
    reading = started(served.url, "slow", "t")
    eventually(shop.has_begun)

    def asked_again() -> bool:
        # Two signals that come together are one: so it is asked until it has heard both.
        served.ask()
        return served.process.poll() is not None

    eventually(asked_again)
    assert served.process.returncode == 128 + signal.SIGTERM
    reading.until("run_start")


def test_two_processes_on_one_store_show_and_stop_each_others_runs(shop: Shop) -> None:
    one, two = shop.serve("app.py"), shop.serve("app.py")
    reading = started(one.url, "slow", "t")
    eventually(shop.has_begun)
    run = f"{two.url}/v1/runs/{reading.run_id}"
    elsewhere = Reading(f"{run}/events/stream")
    elsewhere.until("run_start")
    with urlopen(Request(f"{run}/cancel", method="POST"), timeout=20) as reply:
        assert reply.status == 202
    seen = reading.rest()
    assert seen[-1].data["termination"]["type"] == "cancelled"
    assert told(elsewhere.rest()) == told(seen)
    assert [one.ended(), two.ended()] == [(0, ""), (0, "")]


def reloaded(shop: Shop, served: Served, text: str) -> Any:
    shop.write("changing.py", text)
    return served.said()


def test_a_changed_file_is_served_anew_at_the_same_port(shop: Shop) -> None:
    text = "from awaken import Agent\nsome = Agent('before', model='scripted')\n"
    shop.write("changing.py", text)
    served = shop.serve("changing.py", "--reload")
    again = reloaded(shop, served, text.replace("before", "after"))
    assert (again["url"], again["pid"]) == (served.url, served.process.pid)
    assert status_of(f"{served.url}/v1/agents")[1]["items"][0]["id"] == "after"
    shop.write("changing.py", "def broken(")
    assert served.process.stderr is not None
    assert "SyntaxError" in json.loads(served.process.stderr.readline())["message"]
    last = reloaded(shop, served, text.replace("before", "mended"))
    assert (last["url"], last["agents"]) == (served.url, ["mended"])
    assert served.ended() == (0, "")


@pytest.mark.parametrize("is_opened_before", [True, False])
def test_a_runtime_is_mounted_below_a_path_and_its_streams_end_with_it(
    *, is_opened_before: bool
) -> None:
    async def scenario() -> None:
        agent = Agent("plain", model=ScriptedModel(["Fine."], cycle=True))
        runtime = AgentRuntime([agent])
        if is_opened_before:
            await runtime.__aenter__()
        outer = Starlette(routes=[Mount("/ai", app=runtime.asgi())])
        async with serving_app(outer) as url, aiohttp.ClientSession() as session:
            body = {"agentId": "plain", "threadId": "t", "messages": [{"content": "Hi"}]}
            frames = await post_stream(session, f"{url}/ai/v1/runs", body)
            assert frames[-1].data["result"]["response"] == "Fine."
            async with session.get(f"{url}/ai/") as page:
                assert page.status == 200
            stream = f"{url}/ai/v1/threads/t/events/stream?cursor=0"
            async with session.get(stream) as reply:
                await reply.content.readuntil(b"\n\n")
                await runtime.__aexit__(None, None, None)
                rest = await asyncio.wait_for(reply.text(), 10)
            assert list(frames_of(rest))[-1].data["code"] == "server_stopping"

    asyncio.run(scenario())


def test_the_environment_shapes_the_first_agent_of_the_demo() -> None:
    usual = demo_agents({})
    assert {agent.model for agent in usual} == {"scripted"}
    environment = {
        "AGENT_ID": "helper",
        "AGENT_MODEL": "some-model",
        "AGENT_MAX_ROUNDS": "3",
        "AGENT_SYSTEM_PROMPT": "Be brief.",
        "AGENT_REASONING_EFFORT": "low",
        "OPENAI_API_KEY": "key",
        "AWAKEN_SEED_PROFILE": "minimal",
    }
    (first,) = demo_agents(environment)
    assert (first.id, first.model, first.max_rounds) == ("helper", "openai:some-model", 3)
    assert (first.instructions, first.spec.reasoning_effort) == ("Be brief.", "low")
    named = demo_agents({"AGENT_MODEL": "anthropic:some"})
    assert named[0].model == "anthropic:some"
    assert [agent.id for agent in demo_agents({"AGENT_ID": "budget"})].count("budget") == 1
