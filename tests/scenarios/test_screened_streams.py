"""Answers that are screened while they come: text flows, and nothing is seen that is not kept."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from awaken import (
    Cancelled,
    Plugin,
    PluginRegistrar,
    ReasoningDelta,
    RunRequest,
    StreamReset,
    TextDelta,
    user,
)
from awaken.contracts.models.stream_recovery import text_to_continue
from awaken.errors import StreamInterrupted
from awaken.events import ReasoningEncryptedValue
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.messages import Thinking, text_of
from awaken.models import (
    BlockStop,
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    StreamResult,
)
from awaken.plugins import Screened, TextStream
from awaken.redaction.detectors import Finding
from awaken.testing import Chunks, Reasoning, ToolCalls, Turn

from .crashes import Dead, Process, after_the_lease, history, shared_store, texts
from .worlds import Story, World, play, simulated

KEY = "AKIAABCDEFGHIJKLMNOP"
SAID = (
    f"Well, the key that you are looking for is {KEY}, and you write to bob@example.org for more."
)
KEPT = "Well, the key that you are looking for is [secrets.aws_key], and you write to [pii.email] for more."  # noqa: E501
RULE = {"name": "net", "on": ["output"], "detect": ["secrets", "pii"]}
LOST = StreamInterrupted("connection reset")


def pieces(text: str, size: int = 3) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def guarded(*rules: dict[str, Any], **retry: int) -> dict[str, Any]:
    config: dict[str, Any] = {"guardrails": {"rules": list(rules or (RULE,))}, "retry": retry}
    return {"plugins": [GuardrailsPlugin([Shouting()])], "config": config}


def told(story: Story) -> list[str]:
    """What came of the text since the last reset, in the pieces in which it came."""
    shown: list[str] = []
    for event in story.events:
        if isinstance(event, StreamReset):
            shown = []
        elif isinstance(event, TextDelta):
            shown.append(event.delta)
    return shown


class Shouting:
    """A check of somebody else's, which only a whole text can be shown to."""

    kind = "shouting"

    def find(self, text: str) -> list[Finding]:
        return [Finding(kind=self.kind, start=0, end=len(text))] if text.isupper() else []


def test_text_flows_through_rules_that_redact_and_nothing_of_a_secret_is_ever_seen() -> None:
    story = play([Turn(Chunks(pieces(SAID), delay_ms=10))], **guarded())
    assert len(told(story)) > 3
    assert "".join(told(story)) == story.messages[-1].text == KEPT
    assert story.of(StreamReset) == []
    assert not any(part in repr(story) for part in (KEY[:5], KEY[-5:], "bob", "example.org"))


def test_thoughts_flow_before_the_text_and_keep_their_signature_if_nothing_was_in_them() -> None:
    for thought, kept in (("I know it. " * 9, "s"), (f"It is {KEY}, {KEY}.", None)):
        turn = Turn(Chunks(pieces(SAID)), reasoning=Reasoning(thought, signature="s"))
        story = play([turn], **guarded())
        block = story.messages[-1].content[0]
        assert isinstance(block, Thinking)
        assert (block.signature, KEY in block.thinking) == (kept, False)
        assert "".join(it.delta for it in story.of(ReasoningDelta)) == block.thinking
        assert len(story.of(ReasoningEncryptedValue)) == (kept is not None)
        kinds = [it for it in story.types if it in ("reasoning_delta", "text_delta")]
        assert kinds == sorted(kinds)
        assert story.of(StreamReset) == []


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "b", "on": ["output"], "detect": ["pii.ssn"], "action": "block"},
        {"name": "b", "on": ["output"], "detect": ["pii.ssn"], "action": "ask"},
        {"name": "b", "on": ["output"], "detect": ["shouting"]},
        {"name": "b", "on": ["output"], "pattern": "x+y"},
    ],
)
def test_one_rule_that_needs_the_whole_answer_holds_it(rule: dict[str, Any]) -> None:
    story = play([Chunks(pieces(SAID))], **guarded(RULE, rule))
    assert told(story) == [KEPT]


def test_rules_of_other_places_hold_nothing_but_calls() -> None:
    rule = {"name": "b", "on": ["input", "tool_arguments"], "detect": ["pii"], "action": "block"}
    turns = [Turn(["I ", "say ", "so."], calls=[("none", {"a": "bob@example.org"})]), "done"]
    story = play(turns, **guarded(rule))
    assert told(story) == ["I ", "say ", "so.", "done"]
    assert "bob@" not in repr(story)


def test_two_rules_are_applied_one_after_another_as_to_the_whole() -> None:
    second = {"name": "two", "on": ["output"], "pattern": r"\[pii\.email\] for", "max_chars": 40}
    more = " And so it goes on and on." * 5
    story = play([Chunks(pieces(SAID + more))], **guarded(RULE, second))
    assert "".join(told(story)) == KEPT.replace("[pii.email] for", "[two]") + more
    assert len(told(story)) > 1
    assert story.of(StreamReset) == []


def test_a_stream_that_breaks_in_a_secret_goes_on_and_shows_nothing_of_it() -> None:
    at = SAID.index(KEY) + 9
    turns = [Turn(Chunks(pieces(SAID[:at])), error=LOST), Chunks(pieces(SAID[at:]))]
    story = play(turns, **guarded(max_stream_retries=2))
    assert "".join(told(story)) == story.messages[-1].text == KEPT
    assert story.of(StreamReset) == []
    assert KEY[:5] not in repr(story.events)


def test_an_answer_that_begins_again_takes_back_what_was_seen_of_it() -> None:
    broken = Turn(calls=ToolCalls([("none", '{"a"')]), reasoning="so " * 30, error=LOST)
    story = play([broken, Chunks(pieces(SAID))], **guarded(max_stream_retries=2))
    assert len(story.of(StreamReset)) == 1
    assert len(told(story)) > 1
    assert "".join(told(story)) == story.messages[-1].text == KEPT


def test_of_an_answer_that_is_cancelled_what_was_seen_is_kept_and_nothing_else() -> None:
    async def scenario() -> Story:
        async with World([Chunks(pieces(SAID), delay_ms=1_000)], **guarded()) as world:

            async def react(runtime: Any, event: Any) -> None:
                if isinstance(event, TextDelta):
                    (run,) = await runtime.list_runs()
                    await runtime.cancel(run.run_id)

            return await world.tell(react=react)

    story = simulated(scenario)
    assert isinstance(story.termination, Cancelled)
    assert "".join(told(story)) == story.messages[-1].text
    assert KEPT.startswith(story.messages[-1].text)


def test_the_next_process_goes_on_from_what_was_seen_and_no_secret_rests_meanwhile() -> None:
    asked: list[str] = []

    def rest(request: InferenceRequest) -> Chunks:
        asked.append(text_to_continue(request.messages) or "")
        return Chunks(pieces(SAID.removeprefix(asked[-1].replace("[secrets.aws_key]", KEY))))

    async def scenario() -> None:
        store = shared_store()
        first = Process(store, [Chunks(pieces(SAID), delay_ms=200)], **guarded())
        request = RunRequest(thread_id="t", agent_id="a", messages=(user("go"),), run_id_hint="r")
        execution = asyncio.create_task(first.engine.run(request))
        while (kept := await store.find_checkpoint("r")) is None or "[" not in repr(kept.content):
            await asyncio.sleep(0.1)
            assert KEY[:5] not in repr(kept)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        await after_the_lease(store)
        second = Process(store, [rest], **guarded())
        (dispatch,) = await store.claim("gone", "token", 1)
        await store.release(dispatch.dispatch_id, "token")
        request = RunRequest(thread_id="t", continue_run_id="r")
        seen = [event async for event in second.engine.stream(request)]
        assert asked == [text_of(kept.content)]
        assert texts(await history(store)) == ["go", KEPT]
        assert [type(it) for it in seen].count(StreamReset) == 1
        assert "".join(it.delta for it in seen if isinstance(it, TextDelta)) == KEPT

    simulated(scenario)


class Blocks:
    """A model that says its text in blocks, with a thought between them."""

    name = "blocks"

    def __init__(self, *blocks: str) -> None:
        self._blocks = blocks

    async def stream(self, _: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        for text in self._blocks:
            for piece in pieces(text):
                yield TextDelta(delta=piece)
            yield BlockStop()
            yield ReasoningDelta(delta="hm")
            yield BlockStop()
        yield Stop(reason=StopReason.END_TURN)


@pytest.mark.parametrize("at", range(len(KEY) + 1))
def test_what_is_cut_into_blocks_is_seen_as_it_is_kept(at: int) -> None:
    first, second = f"It is long, it is long, it is {KEY[:at]}", f"{KEY[at:]}, you know it is."
    story = play(model=Blocks(first, second), **guarded())
    assert "".join(told(story)) == story.messages[-1].text
    assert KEY[:5] not in repr(story.events)
    assert KEY not in story.messages[-1].text
    assert story.of(StreamReset) == []


def test_a_rule_that_finds_more_than_it_states_is_put_right_when_the_answer_is_whole() -> None:
    rule = {"name": "long", "on": ["output"], "pattern": "begin[a-z ]{0,200}end", "max_chars": 5}
    said = "So we begin " + "with a word " * 9 + "and end."
    story = play([Chunks(pieces(said))], **guarded(rule))
    assert len(story.of(StreamReset)) == 1
    assert told(story) == [story.messages[-1].text] == ["So we [long]."]


class Broken:
    """A stream of somebody else's that fails in the middle."""

    def __init__(self) -> None:
        self._heard = 0

    def feed(self, piece: str) -> str:
        self._heard += 1
        if self._heard > 5:
            raise RuntimeError(KEY)
        return piece

    def end(self) -> str:
        raise RuntimeError(KEY)


class Breaking(Plugin):
    name = "breaking"

    def __init__(self, streams: Sequence[TextStream] | Exception | None) -> None:
        self._streams = streams

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.screen_answers(self._look, lambda _: self._begin())

    def _look(self, _: Any, answer: StreamResult) -> Screened:
        return Screened(answer=answer)

    def _begin(self) -> Sequence[TextStream] | None:
        if isinstance(self._streams, Exception):
            raise self._streams
        return self._streams


@pytest.mark.parametrize(("streams", "count"), [([Broken()], 6), (None, 1), (ValueError("x"), 1)])
def test_a_screen_that_fails_on_a_stream_lets_nothing_more_through_before_the_whole(
    streams: Any, count: int
) -> None:
    story = play([Chunks(pieces(SAID))], plugins=[Breaking(streams)])
    assert len(told(story)) == count
    assert "".join(told(story)) == story.messages[-1].text == SAID


@pytest.mark.parametrize("place", ["input", "output"])
def test_halves_of_characters_are_put_together_before_they_are_seen(place: str) -> None:
    said = Chunks(["A word that is long enough, ", "\ud83d", "\ude00", " and so on."])
    story = play([said], **guarded({"name": "n", "on": [place], "detect": ["pii"]}))
    assert "".join(told(story)) == story.messages[-1].text
    assert story.of(StreamReset) == []
