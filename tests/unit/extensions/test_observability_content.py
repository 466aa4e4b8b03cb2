"""Content leaves the process only when somebody asks for it: redacted, cut, and in its form."""

import asyncio
import json
from typing import Any

import pytest
from tests.extensions.telemetry_world import Telemetry, said

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.messages.content import Base64Source, Document, Image, Text, UrlSource
from awaken.contracts.messages.message import Message, Role, assistant, tool_answer, user
from awaken.contracts.models.inference import InferenceRequest
from awaken.extensions.observability import ContentCapture, Redactor
from awaken.extensions.observability.config import CONTENT_VARIABLE, content_of
from awaken.extensions.observability.content import ContentWriter
from awaken.testing import ScriptedModel, ToolCalls

SECRETS = (
    "sk-proj-abcdefghijklmnopqrstuvwx12",
    "AKIAABCDEFGHIJKLMNOP",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
    "ann@example.org",
    "4111 1111 1111 1111",
    "078-05-1120",
)
CONTENT = (
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions",
)  # fmt: skip


@tool(effect="none")
async def send(to: str, password: str) -> dict[str, str]:
    """Send."""
    return {"sent": f"to {to}", "session_token": "abc"}


def played(text: str, **options: Any) -> Telemetry:
    seen = Telemetry()
    section = options.pop("section", {})
    call = ToolCalls([("send", {"to": "ann@example.org", "password": "hunter2"})])
    agent = Agent(
        "a",
        model=ScriptedModel([call, f"I said: {text}"]),
        tools=[send],
        instructions=f"Never say {SECRETS[0]}.",
        config={"observability": section},
    )

    async def scenario() -> None:
        async with AgentRuntime([agent], everywhere=[seen.plugin(**options)]) as runtime:
            await runtime.run("a", text)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    return seen


def told(seen: Telemetry) -> str:
    """Everything that left the process, as one text."""
    spans = [
        (it.name, said(it), [dict(e.attributes or {}) for e in it.events]) for it in seen.spans
    ]
    events = [dict(it.log_record.attributes or {}) for it in seen.events]
    return json.dumps([spans, events], default=str)


def test_nothing_is_captured_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTENT_VARIABLE, raising=False)
    seen = played("my plan is secret-plan")
    assert "secret-plan" not in told(seen)
    assert "hunter2" not in told(seen)
    assert not any(name in said(span) for span in seen.spans for name in CONTENT)
    assert seen.events == []


def test_secrets_and_personal_data_never_leave_however_content_is_captured() -> None:
    for content in ContentCapture:
        seen = played("These: " + " and ".join(SECRETS), content=content)
        for secret in (*SECRETS, "hunter2"):
            assert secret not in told(seen), (content, secret)


def test_spans_and_events_carry_content_as_they_were_told_to() -> None:
    on_spans = played("the plan", content="span_only")
    first = said(on_spans.named("chat")[0])
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "the plan"}]}
    ]
    assert json.loads(first["gen_ai.tool.definitions"]) == [{"type": "function", "name": "send"}]
    (answer,) = json.loads(first["gen_ai.output.messages"])
    (part,) = answer["parts"]
    assert (part["type"], part["name"], answer["finish_reason"]) == (
        "tool_call",
        "send",
        "tool_call",
    )
    assert part["arguments"] == {"to": "[pii.email]", "password": "[redacted]"}
    call = said(on_spans.one("execute_tool"))
    assert json.loads(call["gen_ai.tool.call.result"])["session_token"] == "[redacted]"
    assert on_spans.events == []

    on_events = played("the plan", content="event_only")
    assert not any(name in said(span) for span in on_events.spans for name in CONTENT)
    second = on_events.events[1].log_record.attributes
    roles = [it["role"] for it in second["gen_ai.input.messages"]]
    assert roles == ["user", "assistant", "tool"]
    assert second["gen_ai.input.messages"][2]["parts"][0]["type"] == "tool_call_response"
    assert second["gen_ai.output.messages"][0]["parts"][0]["content"] == "I said: the plan"


def test_an_agent_may_say_less_or_more_than_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = played("the plan", content="span_only", section={"content": "no_content"})
    assert "the plan" not in told(silent)
    loud = played("the plan", section={"content": "span_only", "content_chars": 3})
    texts = json.loads(said(loud.named("chat")[0])["gen_ai.input.messages"])
    assert texts[0]["parts"][0]["content"] == "the…[cut]"
    monkeypatch.setenv(CONTENT_VARIABLE, "EVENT_ONLY")
    assert len(played("the plan").events) == 2


def test_a_variable_that_is_not_understood_captures_nothing() -> None:
    for value in ("", "true", "everything", "SPAN"):
        assert content_of({CONTENT_VARIABLE: value}) is ContentCapture.NOTHING
    assert content_of({CONTENT_VARIABLE: " SPAN_AND_EVENT "}) is ContentCapture.BOTH


def test_content_is_cut_and_half_a_secret_is_not_kept() -> None:
    redactor = Redactor()
    assert redactor.text("a" * 100, 10) == "a" * 10 + "…[cut]"
    assert redactor.text("word " + SECRETS[0], 12).startswith("word [")
    huge = "x " * 499_990 + SECRETS[0] + SECRETS[0] * 3
    assert "sk-proj" not in redactor.text(huge)
    assert "sk-proj" not in redactor.text("s" * 999_990 + " " + SECRETS[0])


def test_values_are_bounded_whatever_they_are_made_of() -> None:
    redactor = Redactor()
    deep: Any = "end"
    for _ in range(10_000):
        deep = [deep]
    assert "end" not in json.dumps(redactor.value(deep))
    assert len(redactor.value(list(range(5_000)))) == 1_000
    assert redactor.value({"n": 2**70, "s": "\ud800", "o": object}) == {
        "n": str(2**70), "s": "?", "o": "<class 'object'>",
    }  # fmt: skip
    assert redactor.value({"api_key": None, "Authorization": "x"}) == {
        "api_key": None, "Authorization": "[redacted]",
    }  # fmt: skip


def test_more_may_be_taken_out_but_never_less() -> None:
    redactor = Redactor(lambda text: text.replace("falcon", "[project]"))
    assert redactor.text("falcon of ann@example.org") == "[project] of [pii.email]"
    assert "ann@" not in Redactor(lambda text: text).text("ann@example.org")


def test_a_request_is_written_from_its_end_and_bytes_are_only_named() -> None:
    writer = ContentWriter(redactor=Redactor(), limit=100)
    image = Image(source=Base64Source(media_type="image/png", data="QUJD" * 1000))
    linked = Document(source=UrlSource(url="https://u:hunter22@example.org/x.pdf"))
    messages = [user("old " * 40) for _ in range(50)]
    messages.append(Message(role=Role.USER, content=(Text(text="see"), image, linked)))
    messages += [assistant("I see."), tool_answer("c1", "a result")]
    request = InferenceRequest(upstream_model="m", messages=messages)
    written = writer.input(request)
    assert len(json.dumps(written)) < 3_000
    assert len(written) < 25
    *_, shown, answered, result = written
    assert [it["type"] for it in shown["parts"]] == ["text", "blob", "uri"]
    assert shown["parts"][1] == {
        "type": "blob", "mime_type": "image/png", "modality": "image", "content": "",
    }  # fmt: skip
    assert "hunter22" not in json.dumps(shown)
    assert "QUJD" not in json.dumps(shown)
    assert answered["parts"] == [{"type": "text", "content": "I see."}]
    assert result["parts"][0] == {"type": "tool_call_response", "id": "c1", "response": "a result"}
    large = writer.value({"rows": ["x" * 90] * 50})
    assert isinstance(large, str)
    assert len(large) < 120
