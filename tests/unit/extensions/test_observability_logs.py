"""Logs as JSON: one line for each record, with its run, and nothing in it that could break out."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.extensions.telemetry_world import Telemetry, said

from awaken import Agent, AgentRuntime, tool
from awaken.cli import logs as cli_logs
from awaken.contracts.tracing import trace_of
from awaken.extensions.observability import JsonLogFormatter, Redactor
from awaken.extensions.observability.logs import FIELD_CHARS, json_handler
from awaken.testing import ScriptedModel, ToolCalls

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Written:
    """A logger whose lines are kept."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.logger = logging.getLogger("awaken.test_json_logs")
        self.logger.propagate = False
        self.logger.setLevel(logging.DEBUG)
        self.handler = json_handler(logging.StreamHandler(self.stream))
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def written() -> Iterator[Written]:
    found = Written()
    yield found
    found.logger.removeHandler(found.handler)


HOSTILE = (
    'two\r\nlines {"level": "ERROR"}',
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "null \x00 bell \x07 delete \x7f next \x85 line \u2028 end",
    "right to left \u202e evil \u2066",
    "lone \ud800 surrogate",
)


def test_no_text_breaks_out_of_its_field(written: Written) -> None:
    for text in HOSTILE:
        written.logger.warning("It said: %s", text, extra={"given": text, text: text})
    raw = written.stream.getvalue()
    assert raw.isascii()
    assert not any(ord(mark) < 32 and mark != "\n" for mark in raw)
    assert "\x7f" not in raw
    assert len(raw.splitlines()) == len(HOSTILE) == len(written.lines)
    assert written.lines[0]["message"] == f"It said: {HOSTILE[0]}"
    assert [it["level"] for it in written.lines] == ["WARNING"] * len(HOSTILE)


def test_no_field_takes_the_place_of_what_the_record_says(written: Written) -> None:
    written.logger.warning("true", extra={"level": "DEBUG", "time": "never", "logger": "forged"})
    (line,) = written.lines
    assert (line["level"], line["logger"]) == ("WARNING", written.logger.name)
    assert line["time"].endswith("Z")


def test_a_megabyte_in_a_field_is_cut(written: Written) -> None:
    written.logger.info("%s", "m" * 1_000_000, extra={"field": "f" * 1_000_000})
    (line,) = written.lines
    assert len(written.stream.getvalue()) < 3 * FIELD_CHARS
    assert line["message"].endswith("…[cut]")
    assert line["field"].startswith("fff")


def test_secrets_are_taken_out_of_messages_fields_and_stacks(written: Written) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwx12"
    try:
        raise ValueError(f"refused {key}")
    except ValueError:
        written.logger.exception("used %s", key, extra={"password": "hunter2", "key": key})
    (line,) = written.lines
    assert key not in written.stream.getvalue()
    assert "hunter2" not in written.stream.getvalue()
    assert (line["error"], line["password"]) == ("ValueError", "[redacted]")
    assert "Traceback" in line["stack"]
    assert line["message"].startswith("used [")


def test_every_line_names_the_run_and_the_span_it_belongs_to(written: Written) -> None:
    seen = Telemetry()

    @tool(effect="none")
    async def say(number: int) -> int:
        """Log something."""
        await asyncio.sleep(0)
        written.logger.info("number %d", number)
        return number

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        return "Done." if last.tool_call_id else ToolCalls([("say", {"number": int(last.text)})])

    async def scenario() -> dict[int, str]:
        agent = Agent("a", model=ScriptedModel([answer], cycle=True), tools=[say])
        async with AgentRuntime([agent], everywhere=[seen.plugin()]) as runtime:
            runs = (runtime.run("a", str(it), tenant_id=f"tenant{it}") for it in range(20))
            results = await asyncio.gather(*runs)
        return {number: it.run_id for number, it in enumerate(results)}

    ids = asyncio.run(asyncio.wait_for(scenario(), 30))
    written.logger.info("outside")
    *inside, outside = written.lines
    spans = {said(it)["awaken.run.id"]: it for it in seen.named("execute_tool")}
    assert len(inside) == 20
    for line in inside:
        number = int(line["message"].removeprefix("number "))
        assert (line["run_id"], line["tenant_id"]) == (ids[number], f"tenant{number}")
        span = spans[line["run_id"]].context
        assert (line["trace_id"], line["span_id"]) == (
            f"{span.trace_id:032x}", f"{span.span_id:016x}",
        )  # fmt: skip
        assert line["agent_id"] == "a"
        assert line["thread_id"]
    assert "run_id" not in outside
    assert "trace_id" not in outside


def test_without_a_plugin_lines_name_the_trace_that_the_run_was_given(written: Written) -> None:
    def answer(_: Any) -> str:
        written.logger.info("asked")
        return "Hi."

    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel([answer]))]) as runtime:
            await runtime.run("a", "go", trace=trace_of(GIVEN))

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert written.lines[0]["trace_id"] == GIVEN[3:35]


def test_the_environment_switches_commands_to_json(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[logging.Handler] = []
    monkeypatch.setattr(logging, "basicConfig", lambda *, level, handlers: made.extend(handlers))
    for value in ("json", " JSON ", "text", ""):
        monkeypatch.setenv(cli_logs.FORMAT_VARIABLE, value)
        cli_logs.log_to_stderr(logging.WARNING)
    kinds = [isinstance(it.formatter, JsonLogFormatter) for it in made]
    assert kinds == [True, True, False, False]


def test_a_record_that_cannot_be_written_as_json_is_written_as_text() -> None:
    record = logging.makeLogRecord({"msg": "x", "levelname": "INFO", "thing": {1: object()}})
    line = json.loads(JsonLogFormatter(Redactor()).format(record))
    assert line["thing"]["1"].startswith("<object object")
