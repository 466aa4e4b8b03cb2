"""Long histories: what is sent of them, in which bytes, and that nothing of them is ever lost."""

import asyncio
import hashlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    ContextWindowPolicy,
    Message,
    ModelSpec,
    NaturalEnd,
    Phase,
    RunRequest,
    RunResult,
    StateCommand,
    ThreadBusy,
    tool,
    user,
)
from awaken.contracts.state.context_state import HistoryRestored
from awaken.errors import ContextOverflow, InvalidSpec, Overloaded, ThreadClaimed
from awaken.messages import Role
from awaken.models import (
    SUMMARY_SYSTEM_PROMPT,
    InferenceRequest,
    ModelPrices,
    StopReason,
    TokenUsage,
)
from awaken.plugins import CONTEXT_STATE, ContextState, PhaseContext
from awaken.providers.anthropic.codec import AnthropicCodec
from awaken.providers.openai_chat.codec import OpenAiChatCodec
from awaken.runtime.context.estimate import estimate_tokens
from awaken.runtime.inference.request import build_request, smaller_request
from awaken.runtime.run import Run
from awaken.stores import Checkout
from awaken.testing import Answer, ToolCalls, Turn

from .worlds import CheckedModel, Hooks

STORES = ["memory", "sqlite"]
WORDS = "word " * 160
"""About 200 tokens."""
SPOKEN = ContextWindowPolicy(
    max_context_tokens=4_000, max_output_tokens=100, min_recent_messages=2,
    autocompact_threshold=2_000,
)  # fmt: skip
CUT_ONLY = msgspec.structs.replace(SPOKEN, autocompact_threshold=None)


def is_summary(request: InferenceRequest) -> bool:
    return request.system == (SUMMARY_SYSTEM_PROMPT,)


class Talker(CheckedModel):
    """Answers at length, and summarises with what it is told to say."""

    def __init__(
        self,
        summary: Answer | Callable[[InferenceRequest], Any] = "They talked.",
        answer: Callable[[InferenceRequest], Answer] = lambda _: f"Answer. {WORDS}",
    ) -> None:
        super().__init__([self._say], usage=None, cycle=True)
        self.summary = summary
        self.answer = answer

    def _say(self, request: InferenceRequest) -> Any:
        if not is_summary(request):
            return self.answer(request)
        return self.summary(request) if callable(self.summary) else self.summary

    @property
    def asked(self) -> list[InferenceRequest]:
        return [it for it in self.requests if not is_summary(it)]

    @property
    def summaries(self) -> list[InferenceRequest]:
        return [it for it in self.requests if is_summary(it)]


class Place:
    """A store that outlives the runtimes that are opened on it, as far as it can."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.url = f"sqlite:///{folder / 'store.db'}" if kind == "sqlite" else None
        self.is_durable = kind == "sqlite"

    @asynccontextmanager
    async def open(
        self, model: Any, policy: ContextWindowPolicy | None = SPOKEN, **options: Any
    ) -> AsyncIterator[AgentRuntime]:
        more = {name: options.pop(name) for name in ("providers", "models") if name in options}
        agent = Agent("a", model=model, context_policy=policy, **options)
        async with AgentRuntime([agent], store=self.url, has_worker=False, **more) as runtime:
            yield runtime


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture
def durable(tmp_path: Path) -> Place:
    return Place(tmp_path, "sqlite")


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await scenario()

    asyncio.run(bounded())


async def tell(runtime: AgentRuntime, turns: int = 1, *, wait: bool = True) -> RunResult:
    for turn in range(turns):
        result = await runtime.run("a", f"Question. {turn} {WORDS}", thread_id="t")
        if wait:
            await summarised(runtime)
    return result


async def summarised(runtime: AgentRuntime) -> None:
    compactor = runtime._engine.services.compactor
    while compactor._running:
        await asyncio.wait(compactor._running.values())
        await asyncio.sleep(0)


async def thread(runtime: AgentRuntime) -> Checkout:
    checkout = await runtime.store.checkout("t")
    assert checkout is not None
    return checkout


async def context(runtime: AgentRuntime) -> ContextState:
    stored = (await thread(runtime)).state.get(CONTEXT_STATE.name)
    return ContextState() if stored is None else CONTEXT_STATE.decode(stored)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def after(messages: list[Message], place: int) -> list[str]:
    """What follows a summary; an answer comes after the question that it belongs to."""
    rest = messages[place + 1 :]
    asked = [it for it in messages[: place + 1] if it.role is Role.USER][-1:]
    return texts(rest if rest[0].role is Role.USER else [*asked, *rest])


SUMMARY = "<conversation-summary>\nThey talked.\n</conversation-summary>"


def test_a_long_history_is_summarised_and_every_original_stays(place: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        async with place.open(model) as runtime:
            await tell(runtime, 7)
            request = model.asked[-1]
            (mark,) = (await context(runtime)).marks
            messages = list((await thread(runtime)).messages)
            assert texts(request.messages)[0] == SUMMARY
            assert request.messages[0].role is Role.SYSTEM
            assert texts(request.messages)[1:] == after(messages[:-1], mark.place)
            assert messages[mark.place].id == mark.message_id
            assert len(messages) == 14
            assert all(WORDS in message.text for message in messages)
            assert mark.post_tokens < mark.pre_tokens * 0.7
            assert (await context(runtime)).total_compactions == 1
            assert model.problems == []

    played(scenario)


def test_the_summary_is_found_again_by_another_process(durable: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        async with durable.open(model) as runtime:
            await tell(runtime, 7)
        before = model.asked[-1]
        again = Talker()
        async with durable.open(again) as runtime:
            await tell(runtime)
        assert texts(again.asked[0].messages)[: len(before.messages)] == texts(before.messages)

    played(scenario)


def test_an_inference_never_waits_for_a_summary(place: Place) -> None:
    async def scenario() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def late(_request: InferenceRequest) -> str:
            begun.set()
            await go.wait()
            return "They talked."

        model = Talker(late)
        async with place.open(model) as runtime:
            await tell(runtime, 6, wait=False)
            await begun.wait()
            await tell(runtime, 2, wait=False)
            assert len(model.summaries) == 1
            assert SUMMARY not in texts(model.asked[-1].messages)
            said = model.summaries[0].messages[0].text
            go.set()
            await summarised(runtime)
            await tell(runtime)
            (mark,) = (await context(runtime)).marks
            # The summary covers what was there when it was asked for, and nothing later.
            assert said.count("Question.") + said.count("Answer.") == mark.place + 1
            sent, messages = texts(model.asked[-1].messages), (await thread(runtime)).messages
            assert sent == [SUMMARY, *after(list(messages)[:-1], mark.place)]

    played(scenario)


def test_the_next_summary_is_made_from_the_one_before(place: Place) -> None:
    async def scenario() -> None:
        model = Talker(lambda request: f"Summary {len(model.summaries)}.")
        async with place.open(model) as runtime:
            await tell(runtime, 14)
            first, second, *_ = model.summaries
            assert "Summary 1." not in first.messages[0].text
            assert "Summary 1." in second.messages[0].text
            marks = (await context(runtime)).marks
            assert [it.summary for it in marks[:2]] == ["Summary 1.", "Summary 2."]
            assert marks[0].place < marks[1].place
            sent = texts(model.asked[-1].messages)
            assert marks[-1].summary in sent[0]
            assert sum("<conversation-summary>" in text for text in sent) == 1

    played(scenario)


@pytest.mark.parametrize(
    ("summary", "problem"),
    [
        (Overloaded("no room"), "no room"),
        ("", "empty"),
        (WORDS * 20, "tokens in place of"),
        (Turn("All of it is", stop=StopReason.MAX_TOKENS), "cut off by its token limit"),
    ],
    ids=["failed", "empty", "too long", "cut off"],
)
def test_a_summary_that_is_of_no_use_leaves_the_history_and_is_not_tried_at_every_step(
    place: Place, summary: Answer, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        model = Talker(summary, answer=steps(12))
        policy = msgspec.structs.replace(SPOKEN, max_context_tokens=100_000)
        async with place.open(model, policy, tools=[look]) as runtime:
            await tell(runtime, 5)
            result = await tell(runtime)
            assert isinstance(result.termination, NaturalEnd)
            assert (await context(runtime)) == ContextState()
            assert len(model.asked[-1].messages) == len((await thread(runtime)).messages) - 1
            assert 2 <= len(model.summaries) <= 8
        assert problem in caplog.text

    with caplog.at_level(logging.WARNING):
        played(scenario)


@tool(effect="none")
async def look() -> str:
    """Look."""
    return WORDS


def steps(count: int) -> Callable[[InferenceRequest], Answer]:
    """Answer the sixth question only after as many calls."""

    def answer(request: InferenceRequest) -> Answer:
        asked = sum("Question." in it.text for it in request.messages)
        looked = sum(it.role is Role.TOOL for it in request.messages)
        if asked < 6 or looked >= count:
            return f"Answer. {WORDS}"
        return ToolCalls([("look", {}, f"c{looked}")])

    return answer


def test_its_tokens_and_its_price_are_those_of_the_run_that_takes_it(place: Place) -> None:
    async def scenario() -> None:
        used = TokenUsage(prompt_tokens=1000, completion_tokens=100)
        model = Talker()
        model.usage = None
        spec = ModelSpec(
            id="m", provider_id="p", upstream_model="u", prices=ModelPrices(input=1, output=10)
        )

        class Counting(Talker):
            def _say(self, request: InferenceRequest) -> Any:
                self.usage = used if is_summary(request) else None
                return super()._say(request)

        model = Counting()
        async with place.open(spec, providers={"p": model}) as runtime:
            results = [await tell(runtime) for _ in range(8)]
            paid = [it.usage for it in results if it.usage.prompt_tokens]
            assert [it.prompt_tokens for it in paid] == [1000] * len(model.summaries)
            assert [it.cost_usd for it in paid] == [pytest.approx(0.002)] * len(paid)

    played(scenario)


def test_another_model_may_write_the_summaries(place: Place) -> None:
    async def scenario() -> None:
        model, cheap = Talker(), Talker("By another.")
        config = {"compaction": {"summary_model": "cheap:small", "summary_max_tokens": 99}}
        async with place.open(model, config=config, providers={"cheap": cheap}) as runtime:
            await tell(runtime, 7)
            assert model.summaries == []
            (request,) = cheap.requests
            assert (request.upstream_model, request.tools) == ("small", ())
            assert request.overrides is not None
            assert request.overrides.max_tokens == 99
            assert "By another." in model.asked[-1].messages[0].text

    played(scenario)


def test_a_model_that_is_not_there_is_a_warning_and_no_failure(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        model = Talker()
        config = {"compaction": {"summary_model": "nobody:x"}}
        async with place.open(model, config=config) as runtime:
            await tell(runtime, 7)
            assert model.summaries == []

    with caplog.at_level(logging.WARNING):
        played(scenario)
    assert "cannot summarise" in caplog.text
    assert "nobody" in caplog.text


def test_a_config_that_makes_no_sense_is_refused_at_once() -> None:
    with pytest.raises(InvalidSpec, match="compaction"):
        AgentRuntime([Agent("a", model=Talker(), config={"compaction": {"user_prompt": "no"}})])


def test_closing_the_runtime_stops_a_summary_and_the_next_one_asks_again(durable: Place) -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def never(_request: InferenceRequest) -> str:
            begun.set()
            await asyncio.Event().wait()
            return "x"

        model = Talker(never)
        async with durable.open(model) as runtime:
            await tell(runtime, 6, wait=False)
            await begun.wait()
        assert model.open_streams == 0
        again = Talker()
        async with durable.open(again) as runtime:
            await tell(runtime, 2)
            assert len(again.summaries) == 1
            assert texts(again.asked[-1].messages)[0] == SUMMARY

    played(scenario)


def test_compaction_can_be_undone_and_the_whole_history_is_sent_again(place: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        async with place.open(model) as runtime:
            assert not await runtime.undo_compaction("t")
            await tell(runtime, 7)
            assert texts(model.asked[-1].messages)[0] == SUMMARY
            assert await runtime.undo_compaction("t")
            assert not await runtime.undo_compaction("t")
            assert (await context(runtime)).marks == ()
            await tell(runtime, wait=False)
            sent = texts(model.asked[-1].messages)
            assert sent == texts(list((await thread(runtime)).messages)[:-1])
            assert len(sent) == 15

    played(scenario)


def test_a_summary_that_was_under_way_is_forgotten_when_compaction_is_undone(place: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        async with place.open(model) as runtime:
            await tell(runtime, 6)
            assert len(model.summaries) == 1
            await runtime.undo_compaction("t")
            await tell(runtime, wait=False)
            assert SUMMARY not in texts(model.asked[-1].messages)

    played(scenario)


def test_compaction_cannot_be_undone_under_a_run(durable: Place) -> None:
    async def scenario() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @tool(effect="none")
        async def hold() -> str:
            """Hold."""
            begun.set()
            await go.wait()
            return "held"

        def answer(request: InferenceRequest) -> Answer:
            is_told = "hold" in request.messages[-1].text
            return ToolCalls([("hold", {})]) if is_told else f"Answer. {WORDS}"

        model = Talker(answer=answer)
        async with durable.open(model, tools=[hold]) as runtime, durable.open(model) as other:
            await tell(runtime, 7)
            handle = await runtime.start("a", "hold", thread_id="t")
            await begun.wait()
            with pytest.raises(ThreadBusy):
                await runtime.undo_compaction("t")
            with pytest.raises(ThreadClaimed):
                await other.undo_compaction("t")
            go.set()
            await handle.result()
            assert len((await context(runtime)).marks) == 1
            assert await other.undo_compaction("t")

    played(scenario)


def test_a_plugin_can_restore_the_history(place: Place) -> None:
    async def restore(context: PhaseContext) -> StateCommand:
        if len(context.messages) < 15:
            return StateCommand()
        return StateCommand().update(CONTEXT_STATE, HistoryRestored())

    async def scenario() -> None:
        model = Talker()
        plugin = Hooks({Phase.BEFORE_INFERENCE: restore})
        async with place.open(model, plugins=[plugin]) as runtime:
            await tell(runtime, 7)
            assert texts(model.asked[-1].messages)[0] == SUMMARY
            await tell(runtime, wait=False)
            assert len(model.asked[-1].messages) == 15

    played(scenario)


def test_without_a_threshold_old_messages_are_left_out_and_stay_in_the_store(place: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        async with place.open(model, CUT_ONLY) as runtime:
            await tell(runtime, 14)
            assert model.summaries == []
            sent = model.asked[-1].messages
            stored = list((await thread(runtime)).messages)
            assert len(stored) == 28
            assert len(sent) < 20
            assert texts(sent) == texts(stored[:-1][-len(sent) :])
            assert sent[0].role is Role.USER
            assert model.problems == []

    played(scenario)


def test_without_a_policy_everything_is_sent() -> None:
    async def scenario() -> None:
        model = Talker()
        async with Place(Path(), "memory").open(model, None) as runtime:
            await tell(runtime, 14)
            assert len(model.asked[-1].messages) == 27

    played(scenario)


def test_the_model_reads_a_preview_and_the_store_keeps_the_output(place: Place) -> None:
    @tool(effect="none")
    async def dump() -> str:
        """Dump."""
        return "x" * 9000

    def answer(request: InferenceRequest) -> Answer:
        is_asked = request.messages[-1].role is Role.USER
        return ToolCalls([("dump", {}, request.messages[-1].id or "")]) if is_asked else "done"

    async def scenario() -> None:
        model = Talker(answer=answer)
        async with place.open(model, CUT_ONLY, tools=[dump]) as runtime:
            await tell(runtime)
            (result,) = (it for it in model.asked[-1].messages if it.role is Role.TOOL)
            assert len(result.text) < 1800
            assert "about 2250 tokens" in result.text
            (kept,) = (it for it in (await thread(runtime)).messages if it.role is Role.TOOL)
            assert kept.text == "x" * 9000

    played(scenario)


def test_the_policy_is_clamped_to_the_model(place: Place) -> None:
    async def scenario() -> None:
        model = Talker()
        spec = ModelSpec(id="m", provider_id="p", upstream_model="u", context_window=3_000)
        policy = ContextWindowPolicy(max_output_tokens=500, min_recent_messages=2)
        async with place.open(spec, policy, providers={"p": model}) as runtime:
            await tell(runtime, 14)
            assert 4 <= len(model.asked[-1].messages) <= 13

    played(scenario)


def test_a_request_that_the_provider_finds_too_long_is_sent_again_with_less(place: Place) -> None:
    def answer(request: InferenceRequest) -> Answer:
        return ContextOverflow("too long") if len(request.messages) > 8 else f"Answer. {WORDS}"

    async def scenario() -> None:
        model = Talker(answer=answer)
        policy = msgspec.structs.replace(CUT_ONLY, max_context_tokens=100_000)
        async with place.open(model, policy) as runtime:
            result = await tell(runtime, 6)
            assert isinstance(result.termination, NaturalEnd)
            refused, sent = (it.messages for it in model.asked[-2:])
            assert len(refused) > 8 >= len(sent)
            assert texts(sent) == texts(refused)[-len(sent) :]
            assert (await context(runtime)).cut is not None
            assert model.problems == []

    played(scenario)


def test_a_provider_that_counts_more_tokens_than_estimated_is_sent_less(place: Place) -> None:
    async def scenario() -> None:
        lengths = []
        for factor in (1, 3):
            model = Talker()
            model.answer = lambda request, factor=factor: Turn(
                f"Answer. {WORDS}",
                usage=TokenUsage(prompt_tokens=factor * estimate_tokens(request.messages)),
            )
            async with place.open(model, CUT_ONLY) as runtime:
                for _ in range(14):
                    await runtime.run("a", f"Question. {WORDS}", thread_id=f"t{factor}")
            lengths.append(len(model.asked[-1].messages))
            assert model.problems == []
        assert lengths[0] > 2 * lengths[1]

    played(scenario)


def test_a_request_that_is_too_long_can_be_made_smaller() -> None:
    async def scenario() -> None:
        model = Talker()
        for policy, is_possible in ((CUT_ONLY, True), (None, False)):
            async with Place(Path(), "memory").open(model, policy) as runtime:
                await tell(runtime, 8)
                run = await opened(runtime)
                request = build_request(run)
                smaller = smaller_request(run, request)
                assert (smaller is not None) is is_possible
                if smaller is not None:
                    assert len(smaller.messages) < len(request.messages)
                    assert smaller.messages[-1] is request.messages[-1]
                    assert smaller.system == request.system

    played(scenario)


async def opened(runtime: AgentRuntime) -> Run:
    run = await runtime._engine._admission.prepare(RunRequest(agent_id="a", thread_id="t"), "t")
    run.append_user(user("one more"))
    return run


CODECS = {"openai": OpenAiChatCodec, "anthropic": AnthropicCodec}


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_the_bytes_of_a_request_begin_with_those_of_the_one_before(durable: Place) -> None:
    """Over 30 turns, each in a process of its own, with the tools registered in another order."""

    async def scenario() -> None:
        requests: list[InferenceRequest] = []
        tools = [named(name) for name in ("alpha", "beta", "gamma")]
        policy = msgspec.structs.replace(
            SPOKEN, max_context_tokens=8_000, autocompact_threshold=5_000
        )
        for turn in range(30):
            model = Talker(answer=once(turn))
            order = tools[turn % 3 :] + tools[: turn % 3]
            async with durable.open(model, policy, tools=order) as runtime:
                await tell(runtime)
            assert model.problems == []
            requests += model.asked
        for codec in CODECS.values():
            _check_prefixes([codec().encode(it).body for it in requests], requests)
        assert len(requests) == 60

    played(scenario)


def _check_prefixes(bodies: list[bytes], requests: list[InferenceRequest]) -> None:
    changes = 0
    for (before, after), (request, following) in zip(
        itertools.pairwise(bodies),
        itertools.pairwise(requests),
        strict=True,
    ):
        kept = before.rstrip(b"]}")
        is_same = digest(after[: len(kept)]) == digest(kept)
        is_shortened = texts(following.messages)[: len(request.messages)] != texts(request.messages)
        assert is_same is not is_shortened
        changes += is_shortened
    # The beginning changes when a summary takes its place, and hardly ever.
    assert 1 <= changes <= 8


def once(turn: int) -> Callable[[InferenceRequest], Answer]:
    """Call a tool, then answer."""

    def answer(request: InferenceRequest) -> Answer:
        if request.messages[-1].role is Role.USER:
            return ToolCalls([("beta", {}, f"call_{turn}")])
        return f"Answer {turn}. {WORDS}"

    return answer


def named(name: str) -> Any:
    async def call() -> str:
        return f"{name} says {WORDS}"

    return tool(id=name, description=f"Does {name}.", effect="none")(call)
