"""The window on a transcript: what is sent, when it is cut, and that it costs only what is new."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.message import Message, Role, Transcript, assistant, system, user
from awaken.contracts.models.inference import ContextWindowPolicy, ModelTool
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.state.context_state import CONTEXT_STATE, HistoryRestored
from awaken.runtime.context.compaction import summary_message
from awaken.runtime.context.estimate import estimate_tokens
from awaken.runtime.context.window import ContextWindow, Frame, clamp_policy
from awaken.runtime.state.store import StateStore

from .context_samples import answer, calls, mark, model, numbered, talk, transcripts, unpaired


def made(
    messages: Sequence[Message], state: StateStore | None = None, **policy: Any
) -> ContextWindow:
    given = {"max_output_tokens": 0, "min_recent_messages": 2, "max_context_tokens": 1000}
    wanted = ContextWindowPolicy(**{**given, **policy})
    return ContextWindow(wanted, messages, state or StateStore.of([CONTEXT_STATE]))


def fitted(window: ContextWindow, frame: Frame | None = None) -> list[Message]:
    window.catch_up(frame or Frame())
    return list(window.fit_messages())


@pytest.mark.parametrize(
    ("policy", "spec", "expected"),
    [
        ({}, {}, (200_000, 16_384, None)),
        ({}, {"context_window": 128_000}, (128_000, 16_384, None)),
        ({}, {"context_window": 1_000_000, "max_output_tokens": 64_000}, (200_000, 16_384, None)),
        ({}, {"context_window": 32_000, "max_output_tokens": 4_000}, (32_000, 4_000, None)),
        ({}, {"context_window": 8_000}, (8_000, 4_000, None)),
        ({"autocompact_threshold": 150_000}, {"context_window": 100_000},
         (100_000, 16_384, 83_616)),
        ({"autocompact_threshold": 50_000}, {"context_window": 100_000}, (100_000, 16_384, 50_000)),
    ],
)  # fmt: skip
def test_a_policy_is_clamped_to_the_model(
    policy: dict[str, int], spec: dict[str, int], expected: tuple[int, int, int | None]
) -> None:
    made = clamp_policy(ContextWindowPolicy(**policy), [model(**spec)])
    found = (made.max_context_tokens, made.max_output_tokens, made.autocompact_threshold)
    assert found == expected


def test_a_policy_is_clamped_to_the_smallest_model_of_a_pool() -> None:
    pool: list[ModelSpec] = [
        model(context_window=100_000, max_output_tokens=8_000),
        model(context_window=50_000, max_output_tokens=20_000),
    ]
    made = clamp_policy(ContextWindowPolicy(), pool)
    assert (made.max_context_tokens, made.max_output_tokens) == (50_000, 8_000)


@pytest.mark.parametrize("messages", [[], numbered([system("s")]), talk(4)])
def test_what_fits_is_sent_whole(messages: list[Message]) -> None:
    window = made(messages)
    assert fitted(window) == messages
    assert window.tokens == estimate_tokens(messages)


def test_a_history_that_is_too_long_loses_its_oldest_messages_and_room_is_left() -> None:
    messages = numbered([system("rules"), *talk(20)])
    window = made(messages)
    shown = fitted(window)
    assert shown[0].text == "rules"
    assert shown[1:] == messages[-(len(shown) - 1) :]
    assert 600 < window.tokens <= 750


def test_the_cut_stays_until_the_room_is_used_up() -> None:
    transcript = Transcript(talk(20))
    window = made(transcript)
    starts = []
    for n in range(40):
        transcript.append(Message(role=Role.USER, id=f"n{n}", content=user("x" * 160).content))
        starts.append(fitted(window)[0].id)
    moves = sum(1 for before, after in itertools.pairwise(starts) if before != after)
    assert 4 <= moves <= 8


def test_another_process_sends_the_same_messages() -> None:
    state, transcript = StateStore.of([CONTEXT_STATE]), Transcript(talk(12))
    window = made(transcript, state)
    for n in range(60):
        transcript.append(Message(role=Role.USER, id=f"n{n}", content=user("x" * 300).content))
        shown = fitted(window)
        stored = state.export().extensions
        elsewhere = StateStore.of([CONTEXT_STATE])
        elsewhere.restore(stored)
        assert fitted(made(list(transcript), elsewhere)) == shown


def test_recent_messages_are_kept_even_if_they_do_not_fit() -> None:
    messages = talk(6, size=500)
    window = made(messages, min_recent_messages=4)
    assert fitted(window) == messages[-4:]
    assert window.tokens > window.available


def test_tools_instructions_and_context_messages_take_their_share() -> None:
    messages = talk(10)
    tool = ModelTool(id="t", description="x" * 1200, parameters={})
    frames = [
        Frame(tools=(tool,)),
        Frame(system=("x" * 1200,)),
        Frame(before=[user("x" * 1200)]),
        Frame(after=[user("x" * 1200)]),
    ]
    whole = len(fitted(made(messages)))
    assert whole == 20
    for frame in frames:
        window = made(messages)
        shown = fitted(window, frame)
        assert len(shown) < whole
        assert window.tokens <= 750
    assert fitted(made([]), Frame(tools=(tool,) * 9)) == []


def test_messages_around_the_history_stay_where_they_are() -> None:
    before, after = user("before"), user("after")
    messages = talk(1)
    window = made(messages)
    assert fitted(window, Frame(before=[before], after=[after])) == [before, *messages, after]
    assert fitted(window) == messages


def test_a_step_looks_only_at_what_is_new() -> None:
    class Watched(list[Message]):
        looks = 0

        def __getitem__(self, place: Any) -> Any:
            self.looks += 1
            return super().__getitem__(place)

        def __iter__(self) -> Any:
            self.looks += len(self)
            return super().__iter__()

    messages = Watched(talk(500))
    window = made(messages, max_context_tokens=10**6)
    fitted(window)
    messages.looks = 0
    for n in range(10):
        messages.append(Message(role=Role.USER, id=f"n{n}", content=user("x").content))
        window.catch_up(Frame())
        assert window.fit_messages() is window.get_messages()
    assert messages.looks == 10
    assert len(fitted(window)) == 1010


def test_a_preview_is_the_same_object_in_all_requests() -> None:
    transcript = Transcript(numbered([*talk(10), calls("1"), answer("1", "x" * 9000)]))
    window = made(transcript)
    (first,) = (it for it in fitted(window) if it.role is Role.TOOL)
    assert first.text.startswith("x" * 1600)
    transcript.append(Message(role=Role.ASSISTANT, id="n", content=assistant("y" * 2000).content))
    again = fitted(window)
    assert again[-1].id == "n"
    assert next(it for it in again if it.role is Role.TOOL) is first
    assert transcript[21].text == "x" * 9000


@pytest.mark.parametrize(
    ("counted", "factor"),
    [(2.0, 2.0), (0.5, 0.5), (100.0, 4.0), (0.01, 0.25)],
)
def test_estimates_are_corrected_by_what_the_provider_counts(counted: float, factor: float) -> None:
    messages = talk(10)
    window = made(messages)
    fitted(window)
    estimate = estimate_tokens(messages)
    window.observe(round(estimate * counted))
    assert window.tokens == pytest.approx(estimate * factor, rel=0.01)
    shown = fitted(window)
    assert (shown == messages) is (factor <= 1)
    assert window.tokens <= window.available


def test_a_small_request_or_a_missing_count_corrects_nothing() -> None:
    small, large = made(talk(2)), made(talk(10))
    for window, counts in ((small, (5000,)), (large, (None, 0, -5))):
        fitted(window)
        before = window.tokens
        for count in counts:
            window.observe(count)
        assert window.tokens == before


def test_the_correction_outlives_the_process_and_is_written_only_when_it_changes() -> None:
    state, messages = StateStore.of([CONTEXT_STATE]), talk(10)
    window = made(messages, state)
    shown = fitted(window)
    for factor, kept in ((1.05, 1), (0.95, 1), (2, 2), (1.9, 2), (1.5, 1.5)):
        window.observe(round(factor * estimate_tokens(messages)))
        assert state.get(CONTEXT_STATE).correction == pytest.approx(kept, rel=0.01)
        window.catch_up(Frame())
        assert window.get_messages() == shown
    assert state.revision == 2
    fitted(window)
    assert state.get(CONTEXT_STATE).cut is not None
    assert made(messages, state).tokens == window.tokens


@pytest.mark.parametrize("size", [10, 40, 90])
def test_a_request_that_a_provider_finds_too_long_becomes_smaller(size: int) -> None:
    messages = talk(10, size=size)
    window = made(messages, min_recent_messages=50)
    before = fitted(window)
    assert window.shrink()
    after = list(window.get_messages())
    assert after == before[-len(after) :]
    assert len(after) <= len(before) * 3 // 4 + 1
    assert fitted(window) == after


def test_the_last_message_is_never_given_up() -> None:
    messages = numbered([user("x" * 9000)])
    window = made(messages)
    assert fitted(window) == messages
    assert not window.shrink()
    assert list(window.get_messages()) == messages


def test_a_mark_is_taken_once_and_only_if_its_message_is_there() -> None:
    messages = talk(6)
    window = made(messages)
    fitted(window)
    assert not window.take_mark(mark(50))
    assert fitted(window) == messages
    assert window.take_mark(mark(3))
    assert fitted(window) == [summary_message(mark(3)), *messages[4:]]
    assert not window.take_mark(mark(3))
    assert not window.take_mark(mark(1))
    assert window.take_mark(mark(5))
    assert fitted(window) == [summary_message(mark(5)), *messages[6:]]


def test_marks_that_somebody_clears_have_no_effect_any_more() -> None:
    state, messages = StateStore.of([CONTEXT_STATE]), talk(6)
    window = made(messages, state)
    assert window.take_mark(mark(3))
    state.update(CONTEXT_STATE, HistoryRestored())
    assert fitted(window) == messages


def test_a_summary_is_wanted_from_the_threshold_on_and_again_only_after_some_growth() -> None:
    transcript = Transcript(talk(40, size=100))
    window = made(transcript, max_context_tokens=20_000, autocompact_threshold=8_000)
    fitted(window)
    assert window.wants_summary
    window.put_off_summary()
    assert not window.wants_summary
    for n in range(19):
        transcript.append(Message(role=Role.USER, id=f"n{n}", content=user("x" * 400).content))
    fitted(window)
    assert not window.wants_summary
    transcript.append(Message(role=Role.USER, id="last", content=user("x" * 2000).content))
    fitted(window)
    assert window.wants_summary
    window.put_off_summary()
    assert window.take_mark(mark(9))
    assert window.wants_summary
    assert not made(transcript).wants_summary


def test_the_next_summary_begins_where_the_last_one_ended() -> None:
    messages = talk(40, size=100)
    window = made(messages, max_context_tokens=20_000, autocompact_threshold=1)
    fitted(window)
    first = window.plan_summary()
    assert window.take_mark(mark(9))
    second = window.plan_summary()
    assert first is not None
    assert second is not None
    assert (first.place, first.previous) == (second.place, None)
    assert second.previous == mark(9)
    assert second.tokens < first.tokens
    assert second.transcript.startswith("[User]: 5 ")


@given(transcripts, st.integers(0, 3000), st.integers(0, 12), st.data())
def test_whatever_is_cut_leaves_calls_with_their_results_and_begins_with_a_user(
    messages: list[Message], context: int, min_recent: int, data: st.DataObject
) -> None:
    transcript = Transcript(messages[: data.draw(st.integers(0, len(messages)))])
    window = made(transcript, max_context_tokens=context, min_recent_messages=min_recent)
    for message in messages[len(transcript) :]:
        if not unpaired(list(transcript)):
            _check(fitted(window), list(transcript))
        transcript.append(message)
    _check(fitted(window), messages)
    if window.shrink():
        _check(list(window.get_messages()), messages)


def _check(shown: list[Message], messages: list[Message]) -> None:
    assert unpaired(shown) == []
    places = [int((message.id or "")[1:]) for message in shown]
    assert places == sorted(set(places))
    spoken = [it.role for it in messages if it.role is not Role.SYSTEM]
    if spoken and spoken[0] is Role.USER:
        assert [it.role for it in shown if it.role is not Role.SYSTEM][:1] == [Role.USER]
    assert shown[-1:] == messages[-1:]
