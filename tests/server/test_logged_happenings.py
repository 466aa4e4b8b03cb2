"""What a server tells its operator: runs that fail, refusals, requests, keys that are missing."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime, Failed, ProviderSpec
from awaken.bootstrap.providers import list_missing_keys
from awaken.cli.logs import ACCESS, RUNS, log_requests, with_logs
from awaken.errors import StoreUnavailable
from awaken.runtime.journal.run_log import log_failure, log_recovery, log_takeover
from awaken.server import RateLimit, ServerLimits
from awaken.server.refusal_log import CLASSES_MAX, WINDOW_MS, RefusalLog
from awaken.stores import MemoryStore, RunRecord
from awaken.testing import FakeClock, ScriptedModel
from awaken.transport.problems import HttpError

from .in_process import Request, ask, bearer, config, token

INFO = "/v1/system/info"
ENDPOINT = "awaken.server.endpoint"
RECORD = RunRecord(run_id="r", thread_id="t", agent_id="a", steps=2)


def served(scenario: Callable[[Any, FakeClock], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def run() -> None:
        clock = FakeClock()
        model = ScriptedModel([RuntimeError("no\n2026-01-01 ERROR forged")], cycle=True)
        agent = Agent("a", model=model, config={"retry": {"max_retries": 0}})
        async with AgentRuntime([agent], clock=clock) as runtime:
            await scenario(runtime.asgi(config(token("one"), **options)), clock)

    asyncio.run(run())


def lines_of(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [it.getMessage() for it in caplog.records if it.name == name]


def test_a_run_that_fails_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        body = {"agentId": "a", "messages": [{"role": "user", "content": "hi"}]}
        request = Request(app, "POST", "/v1/runs", body=body, headers=bearer("one"))
        await asyncio.wait_for(request.task, 20)

    with caplog.at_level(logging.WARNING):
        served(scenario)
    (line,) = lines_of(caplog, "awaken.runs")
    assert "of agent 'a' on thread" in line
    assert "failed: " in line
    assert "\n" not in line
    (record,) = [it for it in caplog.records if it.name == "awaken.runs"]
    assert vars(record)["event"] == "run_failed"
    assert vars(record)["agent_id"] == "a"


def test_recovered_and_taken_over_runs_have_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_recovery(RECORD)
        log_takeover(RECORD, "its lease\nran out")
        log_failure(RECORD, Failed(message="x" * 10_000, code="c"))
    lines = lines_of(caplog, "awaken.runs")
    assert [line.split(" on thread 't' ")[1].split(":")[0] for line in lines] == [
        "goes on here after step 2",
        "was taken over by another process",
        "failed",
    ]
    assert all("\n" not in line and len(line) < 700 for line in lines)


def test_a_flood_of_refusals_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(app: Any, clock: FakeClock) -> None:
        for number in range(300):
            await ask(app, "GET", INFO, headers=bearer(f"bad-{number}"))
            await ask(app, "GET", f"/nowhere/{number}")
            await ask(app, "GET", f"/v1/runs/none-{number}", headers=bearer("one"))
        early = lines_of(caplog, "awaken.refusals")
        assert len(early) == 4
        assert any(f"Refused 1 request to {INFO} with 401 unauthorized" in it for it in early)
        clock.advance(WINDOW_MS)
        await ask(app, "GET", "/nowhere")
        late = lines_of(caplog, "awaken.refusals")[4:]
        assert late[0].startswith("Refused 300 requests to unmatched with 404 not_found")
        await app.close()

    with caplog.at_level(logging.WARNING):
        served(scenario, limits=ServerLimits(login_failures=RateLimit(per_s=0.001, burst=3)))
    closing = lines_of(caplog, "awaken.refusals")[5:]
    assert any("Refused 299 requests to /v1/runs/{run_id} with 404" in it for it in closing)
    assert not any("bad-" in it for it in lines_of(caplog, "awaken.refusals"))


def test_an_outage_of_the_store_is_a_few_lines_without_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(MemoryStore):
        async def load_run(self, run_id: str) -> Any:
            raise StoreUnavailable(store="db", problem="Connection refused")

    async def run() -> None:
        clock = FakeClock()
        async with AgentRuntime([], store=Away(), clock=clock) as runtime:
            app = runtime.asgi(config(token("one")))
            for number in range(300):
                for path in ("/v1/runs/{}", "/v1/runs/{}/events/stream"):
                    answer = await ask(app, "GET", path.format(number), headers=bearer("one"))
                    assert answer.status == 503

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    told = [it for it in caplog.records if it.name in ("awaken.refusals", ENDPOINT)]
    # The class and the reason for each route, and at the end how many there were.
    assert len(told) == 6
    assert all(it.exc_info is None for it in told)
    reasons = [it for it in lines_of(caplog, ENDPOINT) if "Connection refused" in it]
    assert len(reasons) == 2


def test_classes_of_refusals_are_bounded_and_cannot_forge(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = RefusalLog(FakeClock())
    with caplog.at_level(logging.WARNING):
        for number in range(5_000):
            problem = HttpError(400, f"code_{number}", "bad\r\nERROR forged \u2028 x" * 100)
            log.note(problem, "/x", "127.0.0.1")
    lines = lines_of(caplog, "awaken.refusals")
    assert len(lines) == CLASSES_MAX + 1
    assert all(line.isprintable() and len(line) < 3_000 for line in lines)


def test_requests_are_logged_for_whoever_asks_without_their_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(app: Any, _: FakeClock) -> None:
        await ask(app, "GET", f"{INFO}?key=hidden", headers=bearer("one"))

    logger = logging.getLogger(ACCESS)
    before = logger.level
    try:
        logger.setLevel(logging.WARNING)
        served(scenario)
        assert lines_of(caplog, ACCESS) == []
        log_requests()
        served(scenario)
    finally:
        logger.setLevel(before)
    (line,) = lines_of(caplog, ACCESS)
    assert line.startswith(f"GET {INFO} 200 in ")
    assert "hidden" not in line


def test_a_missing_key_is_named_with_its_provider_and_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "MINE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    own = ProviderSpec(id="mine", adapter="openai_chat")
    agents = [
        Agent("a", model="openai:gpt-5"),
        Agent("b", model="openai:gpt-5-mini"),
        Agent("c", model="mine:x"),
        Agent("d", model=ScriptedModel(["x"])),
    ]
    runtime = AgentRuntime(agents, providers={"mine": own})
    first, second = list_missing_keys(runtime.registry.snapshot())
    assert "Agent 'a' cannot ask its model" in first
    assert "provider 'openai' has no key: set OPENAI_API_KEY" in first
    assert "MINE_API_KEY" in second
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("MINE_API_KEY", "sk-y")
    assert list_missing_keys(runtime.registry.snapshot()) == []


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        ((), ["WARNING"]),
        (("--log-level", "debug"), ["DEBUG", "WARNING"]),
        (("--log-level", "error"), []),
        (("--access-log",), ["INFO", "WARNING"]),
    ],
)
def test_options_say_what_is_logged_and_how(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], levels: list[str]
) -> None:
    app, stream = typer.Typer(), io.StringIO()

    @app.command()
    @with_logs(has_requests=True)
    def act() -> None:
        logging.getLogger("awaken.act").debug("quiet")
        logging.getLogger(ACCESS).info("asked")
        logging.getLogger("awaken.act").warning("loud\nforged")

    root, access, runs = map(logging.getLogger, ("", ACCESS, RUNS))
    before = (root.level, root.handlers[:], access.level, runs.level)
    monkeypatch.setattr("sys.stderr", stream)
    root.handlers.clear()
    try:
        result = CliRunner().invoke(app, [*arguments, "--log-format", "json"])
        handlers = root.handlers[:]
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        access.setLevel(before[2])
        runs.setLevel(before[3])
    assert result.exit_code == 0, result.output
    assert len(handlers) == 1
    found = [json.loads(line) for line in result.stderr.splitlines()]
    assert [it["level"] for it in found] == levels
