"""Cut a run's stream anywhere on any wire, attach again on any other: nothing lost or doubled."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    RunFinish,
    RunRequest,
    ToolContext,
    ToolError,
    tool,
    user,
)
from awaken.events import LoggedEvent
from awaken.protocols.a2a.projection import TaskEncoder, TaskProjection
from awaken.protocols.ag_ui.encoder import AgUiEncoder
from awaken.protocols.ai_sdk.encoder import AiSdkEncoder
from awaken.protocols.native.runs import NativeEncoder
from awaken.protocols.openai.chat_encoder import ChatEncoder
from awaken.protocols.openai.responses_encoder import ResponsesEncoder
from awaken.runtime.journal.streams import StreamItem
from awaken.server import TenantView
from awaken.services.event_streams import EventStream
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn
from awaken.tools import ResumeMode, ToolCallResume
from awaken.transport.frames import Encoder, frames

from .serving import Frame, frames_of

RUN, THREAD, TASK = "r", "t", "a task"
WIRES: dict[str, Callable[[], Encoder]] = {
    "native": NativeEncoder,
    "ai-sdk 6": AiSdkEncoder,
    "ai-sdk 7": lambda: AiSdkEncoder(7),
    "ag-ui": AgUiEncoder,
    "responses": lambda: ResponsesEncoder({"id": "resp_r", "model": "a"}, RUN),
    "chat": lambda: ChatEncoder({"id": "chatcmpl-r", "model": "a"}, RUN, has_usage=True),
    "a2a": lambda: TaskEncoder(TaskProjection(RUN, THREAD), lambda it: it, lambda it: {}),
}
LIVE_ONLY = {
    "tool_call_delta", "tool_call_stream_delta", "tool_call_cancel", "stream_reset",
    "activity_snapshot", "activity_delta", "state_snapshot",
    "tool-input-delta", "data-state-snapshot", "data-activity-snapshot", "data-activity-delta",
    "STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA",
}  # fmt: skip
"""What is shown while it happens and is in no log."""


@tool(effect="none")
async def look(place: str, ctx: ToolContext) -> dict[str, str]:
    """Look."""
    ctx.progress("running", "looking", 0.5)
    ctx.emit_output("a bit")
    return {"place": place}


@tool(effect="none")
async def fail() -> str:
    """Fail."""
    message = "broken"
    raise ToolError(message)


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("sure?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


def task_behind(gate: asyncio.Event) -> Any:
    """A tool that starts a task, which ends when the gate opens."""

    @tool(effect="none")
    async def later(ctx: ToolContext) -> str:
        """Do it in the background."""

        async def work(_: Any) -> str:
            await gate.wait()
            return "done"

        return (await ctx.spawn(work, name="work")).task_id

    return later


def scripts() -> dict[str, list[Any]]:
    dice = random.Random(7)
    words = Chunks([f"word{number} " for number in range(12)])
    long: list[Any] = []
    for number in range(9):
        calls: list[tuple[str, dict[str, Any]]] = [("look", {"place": f"p{number}"})]
        if dice.random() < 0.5:
            calls.append(("fail", {}))
        long.append(Turn(text=f"Step {number}.", reasoning="Hm, hm.", calls=calls))
    return {
        "a text": [words],
        "calls": [ToolCalls([("look", {"place": "x"}), ("fail", {})]), words],
        "a question": [ToolCalls([("ask", {}), ("look", {"place": "x"})]), words],
        "a failure": [ToolCalls([("look", {"place": "x"})]), ValueError("boom")],
        "many steps": [*long, words],
        TASK: [Turn(text="I begin.", calls=[("later", {})]), Chunks(["I ", "wait."]), words],
    }


async def played(view: TenantView, gate: asyncio.Event) -> list[StreamItem]:
    """Run it, deciding where it asks; everything that a reader that stays would see."""
    request = RunRequest(agent_id="a", thread_id=THREAD, run_id_hint=RUN, messages=(user("go"),))
    seen: list[StreamItem] = []
    async for batch in (await view.start(request)).stream.batches():
        seen += batch
        if any(isinstance(it, LoggedEvent) and is_rest(it.event) for it in batch):
            gate.set()
    while tickets := await view.tickets(THREAD):
        decision = ToolCallResume(decision_id="d", result="yes")
        target = await view.run(RUN)
        stream = await view.decide_and_follow(target, {tickets[0].ticket_id: decision})
        seen += await collected(stream)
    return seen


def is_rest(event: AgentEvent) -> bool:
    return isinstance(event, RunFinish) and event.awaits_tasks


async def collected(stream: EventStream) -> list[StreamItem]:
    return [item async for batch in stream.batches() for item in batch]


def encoded(encoder: Encoder, items: list[StreamItem]) -> list[Frame]:
    text = frames(encoder, items).decode().replace("data: [DONE]", 'data: "[DONE]"')
    return list(frames_of(_without_names(text)))


def _without_names(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("event: "))


def joined(wire: list[Frame]) -> list[Any]:
    """The frames as they would be if every text had come at once, without what is only live."""
    told: list[Any] = []
    for frame in wire:
        if _is_live_only(frame.data):
            continue
        rest, piece = _split(frame.data)
        before = _place_of(rest, told) if piece is not None and not _replaces(frame.data) else None
        if before is None:
            told.append(rest if piece is None else (rest, piece))
        else:
            told[before] = (rest, told[before][1] + piece)
    return _ordered([_parsed(it) for it in told])


def _ordered(told: list[Any]) -> list[Any]:
    """Calls made side by side one after another: their pieces come interleaved."""
    ordered: list[Any] = []
    for it in told:
        call = it[0].get("toolCallId") if isinstance(it, tuple) and _is_call(it) else None
        starts = [
            place
            for place, known in enumerate(ordered)
            if isinstance(known, dict)
            and known.get("type") == "TOOL_CALL_START"
            and known["toolCallId"] == call
        ]
        ordered.insert(starts[-1] + 1 if starts else len(ordered), it)
    return ordered


def _replaces(data: Any) -> bool:
    """Whether a piece of an artifact comes instead of what was there."""
    return "artifactUpdate" in data and not data["artifactUpdate"].get("append")


def _place_of(rest: Any, told: list[Any]) -> int | None:
    """Where the text is that a piece goes on with: right before, or before other calls' texts."""
    for place in range(len(told) - 1, -1, -1):
        if isinstance(told[place], tuple) and told[place][0] == rest:
            return place
        if not _is_call(told[place]):
            return None
    return None


def _is_call(told: Any) -> bool:
    data = told[0] if isinstance(told, tuple) else told
    return isinstance(data, dict) and str(data.get("type", "")).startswith("TOOL_CALL")


def _is_live_only(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    kind = data.get("event_type") or data.get("type")
    return kind in LIVE_ONLY or bool(data.get("preliminary"))


def _split(data: Any) -> tuple[Any, str | None]:
    """A frame without its piece of a text, and the piece."""
    if not isinstance(data, dict):
        return data, None
    if "artifactUpdate" in data:
        update = dict(data["artifactUpdate"])
        text = update["artifact"]["parts"][0].get("text", "") if update["artifact"]["parts"] else ""
        is_end = update.get("lastChunk", False)
        return (update["taskId"], update["artifact"]["artifactId"], is_end), text
    if data.get("object") == "chat.completion.chunk" and data["choices"]:
        delta = data["choices"][0]["delta"]
        for name in ("content", "reasoning_content"):
            if delta.get(name):
                return (name,), delta[name]
        return data, None
    if isinstance(data.get("delta"), str):
        rest = {k: v for k, v in data.items() if k not in ("delta", "sequence_number")}
        return rest, data["delta"]
    return data, None


def _parsed(told: Any) -> Any:
    """Arguments of a call are compared as JSON: the log has them parsed."""
    if isinstance(told, tuple) and isinstance(told[0], dict):
        kind = told[0].get("type", "")
        if kind == "TOOL_CALL_ARGS" or "arguments" in kind:
            return told[0], json.loads(told[1])
    return told


def cuts(wire: list[Frame]) -> Iterator[int | None]:
    """The cursor that a client has after each frame."""
    latest = None
    for frame in wire:
        yield latest
        latest = frame.id if frame.id is not None else latest
    yield latest


def up_to(wire: list[Frame], cursor: int | None) -> list[Frame]:
    places = [index for index, frame in enumerate(wire) if frame.id == cursor]
    return wire[: places[-1] + 1] if places and cursor is not None else []


@pytest.mark.parametrize("name", scripts())
def test_a_stream_cut_anywhere_goes_on_over_any_wire(name: str) -> None:
    async def scenario() -> int:
        checked, gate = 0, asyncio.Event()
        async with AgentRuntime([agent_of(name, gate)]) as runtime:
            view = runtime._services.view(None)
            live = await played(view, gate)
            assert gate.is_set() == (name == TASK)
            log: list[StreamItem] = await collected(await view.follow_run(RUN))
            whole = {wire: encoded(make(), log) for wire, make in WIRES.items()}
            seen = {wire: encoded(make(), live) for wire, make in WIRES.items()}
            complete = {wire: joined(it) for wire, it in whole.items()}
            proven: dict[tuple[str, int | None], int] = {}
            for first, frames_seen in seen.items():
                for cursor in cuts(frames_seen):
                    kept = joined(up_to(frames_seen, cursor))
                    assert kept == joined(up_to(whole[first], cursor)), (first, cursor)
                    for second, make in WIRES.items():
                        if (second, cursor) not in proven:
                            known = encoded(make(), [it for it in log if _is_before(it, cursor)])
                            rest = await _attached(view, make(), cursor)
                            assert joined(known + rest) == complete[second], (second, cursor)
                            proven[second, cursor] = len(rest)
                        checked += len(kept) + proven[second, cursor]
        return checked

    checked = asyncio.run(scenario())
    if name == "many steps":
        assert checked >= 100_000


def test_who_attaches_while_a_run_waits_for_its_task_sees_it_go_on_over_any_wire() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with AgentRuntime([agent_of(TASK, gate)]) as runtime, asyncio.timeout(30):
            view = runtime._services.view(None)
            request = RunRequest(
                agent_id="a", thread_id=THREAD, run_id_hint=RUN, messages=(user("go"),)
            )
            stream = (await view.start(request)).stream
            async for batch in stream.batches():
                if any(isinstance(it, LoggedEvent) and is_rest(it.event) for it in batch):
                    break
            stream.close()
            latest = (await view.thread(THREAD)).event_seq
            attached = {
                (wire, cursor): asyncio.create_task(_attached(view, make(), cursor))
                for wire, make in WIRES.items()
                for cursor in (None, *range(1, latest + 1))
            }
            await asyncio.sleep(0)
            gate.set()
            await asyncio.gather(*attached.values())
            log: list[StreamItem] = await collected(await view.follow_run(RUN))
            for (wire, cursor), rest in attached.items():
                known = encoded(WIRES[wire](), [it for it in log if _is_before(it, cursor)])
                complete = joined(encoded(WIRES[wire](), log))
                assert joined(known + rest.result()) == complete, (wire, cursor)

    asyncio.run(scenario())


def agent_of(name: str, gate: asyncio.Event) -> Agent:
    tools = [look, fail, ask, task_behind(gate)]
    return Agent("a", model=ScriptedModel(scripts()[name]), tools=tools)


async def _attached(view: TenantView, encoder: Encoder, cursor: int | None) -> list[Frame]:
    stream = await view.follow_run(RUN, cursor)
    for event in stream.before:
        encoder.encode(event)
    return encoded(encoder, await collected(stream))


def _is_before(item: StreamItem, cursor: int | None) -> bool:
    return isinstance(item, LoggedEvent) and cursor is not None and item.seq <= cursor
