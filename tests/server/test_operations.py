"""What operators see: whether the server lives, whether it can work, and what it has done."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from awaken import Access, Agent, AgentRuntime, ToolContext, __version__, tool
from awaken.errors import StoreUnavailable
from awaken.server import ServerConfig, ServerLimits
from awaken.server.metrics import SERIES_MAX, Counter, Histogram, exposition
from awaken.stores import MemoryStore
from awaken.testing import FakeClock, ScriptedModel, ToolCalls

from .in_process import Request, ask, bearer, config, token

SAMPLE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})?'
    r" [-+0-9.e]+"
)


class Store(MemoryStore):
    """A store that fails or hangs when it is told to."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(name="sqlserver://user:hunter2@db.internal/agents", clock=clock)
        self.error: Exception | None = None
        self.hangs = False
        self.looks = 0
        self.counts = 0

    async def load_thread(self, thread_id: str) -> Any:
        self.looks += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return await super().load_thread(thread_id)

    async def list_threads(self, query: Any) -> Any:
        self.counts += 1
        return await super().list_threads(query)

    async def list_dispatches(self, query: Any) -> Any:
        self.counts += 1
        return await super().list_dispatches(query)

    async def count_queued(self) -> int:
        self.counts += 1
        return await super().count_queued()


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?", action="confirm")


def agents() -> list[Agent]:
    calls = ToolCalls([("add", {"a": 1, "b": 2})])
    return [
        Agent("adder", model=ScriptedModel([calls, "Three."]), tools=[add]),
        Agent("asker", model=ScriptedModel([ToolCalls([("ask_first", {})])]), tools=[ask_first]),
    ]


def served(
    scenario: Callable[[Any, Store, FakeClock], Coroutine[Any, Any, None]],
    config: ServerConfig | None = None,
) -> None:
    async def run() -> None:
        clock = FakeClock()
        store = Store(clock)
        async with AgentRuntime(agents(), store=store, clock=clock) as runtime:
            await scenario(runtime.asgi(config), store, clock)

    asyncio.run(run())


def test_a_live_process_says_so_and_nothing_else() -> None:
    async def scenario(app: Any, store: Store, _: FakeClock) -> None:
        store.error = StoreUnavailable(store="x", problem="gone")
        answer = await ask(app, "GET", "/health/live")
        assert (answer.status, answer.body) == (200, b"")
        assert store.looks == 0

    served(scenario)


def test_readiness_follows_the_store() -> None:
    async def scenario(app: Any, store: Store, clock: FakeClock) -> None:
        async def health() -> tuple[int, Any]:
            clock.advance(1000)
            answer = await ask(app, "GET", "/health")
            return answer.status, answer.json

        healthy = {"status": "healthy", "components": {"store": "ok", "runtime": "ok"}}
        assert await health() == (200, healthy)
        store.error = StoreUnavailable(store=store.name, problem="no route to db.internal")
        broken = {"status": "unhealthy", "components": {"store": "error", "runtime": "ok"}}
        assert await health() == (503, broken)
        store.error, store.hangs = None, True
        status, told = await health()
        assert (status, told["components"]["store"]) == (503, "timeout")
        store.hangs = False
        assert await health() == (200, healthy)

    served(scenario, ServerConfig(limits=ServerLimits(probe_ms=200)))


def test_however_many_ask_the_store_is_asked_once() -> None:
    async def scenario(app: Any, store: Store, clock: FakeClock) -> None:
        requests = [Request(app, "GET", "/health") for _ in range(50)]
        assert {(await it.leave()).status for it in requests} == {200}
        assert store.looks == 1
        clock.advance(1000)
        assert (await ask(app, "GET", "/health")).status == 200
        assert store.looks == 2
        assert store.counts == 0, "a table is not counted to see whether it is there"

    served(scenario)


def test_however_often_numbers_are_asked_for_the_store_is_counted_once_in_a_while() -> None:
    async def scenario(app: Any, store: Store, clock: FakeClock) -> None:
        requests = [Request(app, "GET", "/metrics") for _ in range(50)]
        assert {(await it.leave()).status for it in requests} == {200}
        once = store.counts
        assert 0 < once <= 3
        clock.advance(9_999)
        await scraped(app)
        assert store.counts == once
        clock.advance(1)
        await scraped(app)
        assert store.counts == 2 * once

    served(scenario)


def test_the_info_names_the_kind_of_store_and_not_where_it_is() -> None:
    async def scenario(app: Any, _: Store, clock: FakeClock) -> None:
        clock.advance(1234)
        answer = await ask(app, "GET", "/v1/system/info")
        info = answer.json
        assert (info["store"], info["agents"], info["uptime_ms"]) == ("sqlserver", 2, 1234)
        assert "native" in info["protocols"]
        assert info["version"] == __version__
        assert b"hunter2" not in answer.body

    served(scenario)


async def scraped(app: Any, **options: Any) -> dict[str, float]:
    answer = await ask(app, "GET", "/metrics", **options)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {}
    for line in answer.body.decode().splitlines():
        if not line.startswith("#"):
            assert SAMPLE.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            assert name not in found
            found[name] = float(value)
    return found


def test_requests_are_counted_by_their_route_and_never_by_an_id() -> None:
    async def scenario(app: Any, _: Store, clock: FakeClock) -> None:
        for path in ("/v1/threads/some-id", "/v1/threads/other-id", "/nowhere/some-id"):
            assert (await ask(app, "GET", path)).status == 404
        await ask(app, "BREW", "/nowhere")
        found = await scraped(app)
        by_route = '{method="GET",route="/v1/threads/{thread_id}",status="404"}'
        assert found[f"awaken_http_requests_total{by_route}"] == 2
        assert found[f"awaken_http_request_duration_seconds_count{by_route}"] == 2
        unmatched = '{method="GET",route="unmatched",status="404"}'
        assert found[f"awaken_http_requests_total{unmatched}"] == 1
        assert 'awaken_http_requests_total{method="other",route="unmatched",status="404"}' in found
        assert found["awaken_http_requests_in_flight"] == 1
        assert not any("some-id" in name or "BREW" in name for name in found)

    served(scenario)


def test_runs_models_and_tools_are_counted() -> None:
    async def scenario(app: Any, _: Store, clock: FakeClock) -> None:
        for agent in ("adder", "asker"):
            body = {"agentId": agent, "messages": [{"role": "user", "content": "go"}]}
            request = Request(app, "POST", "/v1/runs", body=body)
            await asyncio.wait_for(request.task, 10)
            assert request.answer.status == 200
        found = await scraped(app)
        assert found['awaken_runs_total{outcome="natural_end"}'] == 1
        assert found['awaken_runs_total{outcome="suspended"}'] == 1
        assert found['awaken_run_duration_seconds_count{outcome="natural_end"}'] == 1
        assert found['awaken_tool_calls_total{tool="add",status="succeeded"}'] == 1
        turns = [v for k, v in found.items() if k.startswith("awaken_inference_requests_total")]
        assert sum(turns) == 3
        kind = '{action="confirm",resume_mode="pass_decision_to_tool"}'
        assert found[f"awaken_agent_suspensions_total{kind}"] == 1
        assert found["awaken_active_runs"] == 0
        assert found["awaken_mailbox_queue_depth"] == 0
        assert found['awaken_mailbox_dispatch_depth{status="queued"}'] == 0
        assert found["awaken_sse_connections"] == 0

    served(scenario)


def test_a_stream_is_counted_while_it_is_read() -> None:
    async def scenario(app: Any, _: Store, clock: FakeClock) -> None:
        made = await ask(app, "POST", "/v1/threads", body={"title": "x"})
        path = f"/v1/threads/{made.json['id']}/events/stream"
        reading = Request(app, "GET", path)
        assert (await reading.begun()).status == 200, reading.answer
        assert (await scraped(app))["awaken_sse_connections"] == 1
        await reading.leave()
        assert (await scraped(app))["awaken_sse_connections"] == 0

    served(scenario)


def test_numbers_that_the_store_does_not_tell_are_left_out() -> None:
    async def scenario(app: Any, store: Store, _: FakeClock) -> None:
        async def gone() -> int:
            raise StoreUnavailable(store=store.name, problem="gone")

        store.count_queued = gone  # type: ignore[method-assign]
        found = await scraped(app)
        assert "awaken_mailbox_queue_depth" not in found
        assert found["awaken_active_runs"] == 0

    served(scenario)


@pytest.mark.parametrize(
    ("who", "metrics", "info"),
    [("reader", 200, 200), ("admin", 200, 200), ("runner", 403, 403), ("tenant", 403, 200)],
)
def test_numbers_about_everybody_are_for_those_who_may_see_everybody(
    who: str, metrics: int, info: int
) -> None:
    async def scenario(app: Any, _: Store, __: FakeClock) -> None:
        assert (await ask(app, "GET", "/metrics", headers=bearer(who))).status == metrics
        assert (await ask(app, "GET", "/v1/system/info", headers=bearer(who))).status == info
        assert (await ask(app, "GET", "/metrics")).status == 401
        assert (await ask(app, "GET", "/health")).status == 200
        assert (await ask(app, "GET", "/health/live")).status == 200

    served(
        scenario,
        config(
            token("reader", frozenset({Access.READ})),
            token("admin", frozenset({Access.ADMIN})),
            token("runner", frozenset({Access.INVOKE})),
            token("tenant", frozenset({Access.READ}), tenant_id="acme"),
        ),
    )


def test_labels_are_escaped_and_bounded() -> None:
    counter = Counter("c", "About.", "name")
    counter.add(1, 'a"b\\c\nd')
    for number in range(2 * SERIES_MAX):
        counter.add(1, str(number))
    text = exposition([counter]).decode()
    assert 'c{name="a\\"b\\\\c\\nd"} 1' in text
    assert len(counter.series) == SERIES_MAX + 1
    assert counter.series[("other",)] == SERIES_MAX + 1


def test_buckets_add_up() -> None:
    histogram = Histogram("h", "About.")
    for ms in (0, 5, 6, 1000, 10**9):
        histogram.observe(ms)
    lines = exposition([histogram]).decode().splitlines()
    assert 'h_bucket{le="0.005"} 2' in lines
    assert 'h_bucket{le="0.01"} 3' in lines
    assert 'h_bucket{le="1.0"} 4' in lines
    assert 'h_bucket{le="+Inf"} 5' in lines
    assert "h_count 5" in lines
    assert "h_sum 1000001.011" in lines
