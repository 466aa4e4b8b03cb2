"""Two `awaken serve` processes on one Postgres: a client of one follows a run of the other.

The model streams words and then waits for a file, so that what a client has before the step is
committed came as live frames. Clients are careful: they drop what a reset tells them to drop.
"""

import json
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from .processes import Served, Shop, eventually
from .test_config_processes import call

APP = """
import asyncio
from pathlib import Path

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.events import TextDelta
from awaken.stores import PostgresStore
from awaken.testing import Chunks, ScriptedModel

HERE = Path(__file__).parent
WORDS = [f"word{number} " for number in range(30)]


class Gated(ScriptedModel):
    "Streams half of its words, and the rest when it may go on."

    async def stream(self, request):
        shown = 0
        async for event in super().stream(request):
            yield event
            if isinstance(event, TextDelta):
                shown += 1
                while shown == 15 and not (HERE / "go").exists():
                    await asyncio.sleep(0.01)


runtime = AgentRuntime(
    [Agent("writer", model=Gated([Chunks(WORDS)], cycle=True))],
    store=PostgresStore(URL, schema=SCHEMA),
    mailbox=MailboxConfig(lease_ms=3_000, renew_ms=500, sweep_ms=300),
)
"""
TEXT = "".join(f"word{number} " for number in range(30))


class Follower:
    """A careful client of a run: keeps the text that it was not told to drop."""

    def __init__(self, served: Served, run_id: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.ids: list[int] = []
        self.text = self._kept = ""
        self.deltas = 0
        self._url = f"{served.url}/v1/runs/{run_id}/events/stream"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def kinds(self) -> list[str]:
        return [it["event_type"] for it in self.events]

    def finish(self) -> str:
        """Wait for the end of the stream; returns the text that was kept."""
        self._thread.join(60)
        assert not self._thread.is_alive(), self.kinds
        assert self.ids == sorted({*self.ids}), "an id came twice"
        assert self.kinds[-1] == "run_finish"
        return self.text

    def _read(self) -> None:
        with urllib.request.urlopen(self._url, timeout=60) as reply:
            id_, data = 0, ""
            for raw in reply:
                line = raw.decode().rstrip("\n")
                if line.startswith("id:"):
                    id_ = int(line[3:])
                elif line.startswith("data:"):
                    data = line[5:]
                elif not line and data:
                    self._take(id_, json.loads(data))
                    id_, data = 0, ""

    def _take(self, id_: int, event: dict[str, Any]) -> None:
        match event["event_type"]:
            case "text_delta":
                self.text += event["delta"]
                self.deltas += 1
            case "stream_reset":
                # One of the turn drops the answer, which is all there is in this run.
                self.text = self._kept if event.get("scope") == "step" else ""
        if id_:
            self.ids.append(id_)
            self._kept = self.text
        self.events.append(event)


class Pair:
    """Two nodes; the first executes what it is asked, the second is followed at."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        app = f"URL = {server().url!r}\nSCHEMA = {new_schema()!r}\n{APP}"
        shop.write("app.py", app)
        self.a, self.b = shop.serve("app:runtime"), shop.serve("app:runtime")

    def start(self) -> str:
        """Start a run at the first node; returns its id once it executes."""
        body = {"agent_id": "writer", "messages": [{"role": "user", "content": "go"}]}
        url = f"POST {self.a.url}/v1/runs"
        threading.Thread(target=self._drop, args=(url, body), daemon=True).start()
        listed = f"GET {self.b.url}/v1/runs"
        (run,) = eventually(lambda: call(listed)[1].get("items"))
        return str(run["run_id"])

    def _drop(self, url: str, body: Any) -> None:
        # It is an OSError if the node is killed.
        with suppress(OSError):
            call(url, body)

    def let_go(self) -> None:
        self.shop.write("go", "")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    shop = Shop(tmp_path)
    try:
        yield Pair(shop)
    finally:
        shop.close()


def follow_half(pair: Pair) -> tuple[str, Follower]:
    """Follow a run of the first node at the second, up to where the model waits."""
    run_id = pair.start()
    follower = Follower(pair.b, run_id)
    half = "".join(f"word{number} " for number in range(15))
    eventually(lambda: follower.text == half)
    # Nothing of the step is in the log yet: the text came as frames.
    assert "inference_complete" not in follower.kinds
    return run_id, follower


def read_log(pair: Pair, run_id: str) -> str:
    """The text of a run as the log has it."""
    late = Follower(pair.b, run_id)
    return late.finish()


def test_the_text_of_a_run_is_streamed_at_the_other_node(pair: Pair) -> None:
    run_id, follower = follow_half(pair)
    second = Follower(pair.b, run_id)
    eventually(lambda: second.text == follower.text)
    pair.let_go()
    assert follower.finish() == second.finish() == TEXT
    assert follower.deltas > 2
    assert "stream_reset" not in follower.kinds
    assert read_log(pair, run_id) == TEXT


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_stream_goes_on_when_the_executing_node_is_killed_or_freezes(
    pair: Pair, number: signal.Signals
) -> None:
    run_id, follower = follow_half(pair)
    pair.a.ask(number)
    # The other node takes the run over, and the same connection shows what it says.
    eventually(lambda: "stream_reset" in follower.kinds)
    if number is signal.SIGSTOP:
        pair.a.ask(signal.SIGCONT)
    pair.let_go()
    assert follower.finish() == TEXT
    assert read_log(pair, run_id) == TEXT
