"""Requests that plugins rewrite: counted, shortened and cut after the last transform."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.message import Message, Role, Transcript, assistant, system, user
from awaken.contracts.models.inference import ContextWindowPolicy
from awaken.contracts.state.context_state import CONTEXT_STATE
from awaken.runtime.context.compaction import summary_message
from awaken.runtime.context.estimate import estimate_tokens
from awaken.runtime.context.window import ContextWindow, Frame
from awaken.runtime.state.store import StateStore

from .context_samples import answer, calls, mark, numbered, talk, transcripts, unpaired

Rewrite = Callable[[Sequence[Message]], Sequence[Message]]


def made(
    messages: Sequence[Message], state: StateStore | None = None, **policy: Any
) -> ContextWindow:
    given = {"max_output_tokens": 0, "min_recent_messages": 2, "max_context_tokens": 1000}
    wanted = ContextWindowPolicy(**{**given, **policy})
    return ContextWindow(wanted, messages, state or StateStore.of([CONTEXT_STATE]))


def fitted(window: ContextWindow, rewrite: Rewrite, frame: Frame | None = None) -> list[Message]:
    window.catch_up(frame or Frame())
    window.rewrite(rewrite)
    return list(window.fit_messages())


def tripled(messages: Sequence[Message]) -> list[Message]:
    """Every message of somebody with three times its text."""
    return [
        msgspec.structs.replace(it, content=it.content * 3) if it.role is Role.USER else it
        for it in messages
    ]


def copied(messages: Sequence[Message]) -> list[Message]:
    return [msgspec.structs.replace(it) for it in messages]


def with_note(messages: Sequence[Message]) -> list[Message]:
    return [user("note " * 80), *messages]


def nameless(messages: Sequence[Message]) -> list[Message]:
    return [msgspec.structs.replace(it, id=None) for it in messages]


def unchanged(messages: Sequence[Message]) -> list[Message]:
    return list(messages)


REWRITES = [unchanged, copied, tripled, with_note, nameless]


@pytest.mark.parametrize("rewrite", REWRITES)
def test_what_a_rewritten_request_has_is_counted_exactly(rewrite: Rewrite) -> None:
    frame = Frame(before=[user("x" * 400)], after=[system("y" * 400)])
    window = made(talk(20))
    shown = fitted(window, rewrite, frame)
    assert window.tokens == estimate_tokens(shown) <= window.available
    assert shown[-1].text == "y" * 400
    if rewrite is not tripled:
        assert shown[0].text == "x" * 400


@pytest.mark.parametrize("rewrite", [unchanged, copied])
def test_a_transform_that_changes_nothing_leaves_out_what_is_left_out_without_it(
    rewrite: Rewrite,
) -> None:
    frame = Frame(before=[user("before")], after=[system("after")])
    plain, rewritten = made(messages := talk(30)), made(messages)
    plain.catch_up(frame)
    assert fitted(rewritten, rewrite, frame) == list(plain.fit_messages())


def test_a_transform_sees_everything_and_long_outputs_whole() -> None:
    messages = numbered(
        [user("q"), calls("c1"), answer("c1", "out " * 4000), *talk(20), user("now")]
    )
    window, seen = made(messages), []

    def look(given: Sequence[Message]) -> Sequence[Message]:
        seen.append(list(given))
        return given

    for _ in range(3):
        shown = fitted(window, look)
    assert seen == [messages] * 3
    assert len(shown) < len(messages)


def test_a_long_output_is_shortened_after_the_transforms() -> None:
    messages = numbered([user("q"), calls("c1"), answer("c1", "short")])

    def lengthen(given: Sequence[Message]) -> list[Message]:
        return [*given[:-1], msgspec.structs.replace(given[-1], content=user("x" * 9000).content)]

    window = made(messages)
    shown = fitted(window, lengthen)
    assert "Preview: the whole text has about 2250 tokens" in shown[-1].text
    # One object for all requests: its wire form is remembered with it.
    kept = answer("c1", "x" * 9000)
    again = [fitted(window, lambda given: [*given[:-1], kept])[-1] for _ in range(2)]
    assert again[0] is again[1]


def test_the_cut_of_a_rewritten_history_stays_until_the_room_is_used_up() -> None:
    transcript = Transcript(talk(20))
    window, starts = made(transcript), []
    for n in range(40):
        transcript.append(Message(role=Role.USER, id=f"n{n}", content=user("x" * 80).content))
        starts.append(fitted(window, tripled)[0].id)
    moves = sum(1 for before, after in itertools.pairwise(starts) if before != after)
    assert 4 <= moves <= 12


@pytest.mark.parametrize("rewrite", [unchanged, copied, with_note, tripled])
def test_a_summary_and_the_system_stay_before_what_is_cut(rewrite: Rewrite) -> None:
    messages = numbered([system("rules"), *talk(20)])
    state = StateStore.of([CONTEXT_STATE])
    window = made(messages, state)
    assert window.take_mark(mark(5))
    shown = fitted(window, rewrite)
    assert shown[:2] == [messages[0], summary_message(mark(5))]
    assert window.tokens <= window.available


def test_what_a_transform_says_as_the_system_in_front_stays() -> None:
    rules = system("rule " * 300)
    shown = fitted(made(talk(20)), lambda given: [rules, *given])
    assert shown[0] == rules
    assert estimate_tokens(shown) <= 1000


def test_transforms_count_when_it_is_time_for_a_summary() -> None:
    messages = talk(4)
    window = made(messages, autocompact_threshold=800)
    window.catch_up(Frame())
    assert not window.wants_summary
    window.rewrite(lambda given: [*given, user("x" * 2400)])
    assert window.wants_summary


def test_the_estimate_is_corrected_by_what_was_sent() -> None:
    state = StateStore.of([CONTEXT_STATE])
    window = made(talk(10), state, max_context_tokens=10_000)
    sent = fitted(window, lambda given: [*given, user("x" * 8000)])
    window.observe(estimate_tokens(sent))
    assert state.get(CONTEXT_STATE).correction == 1.0


@given(
    transcripts,
    st.sampled_from(REWRITES),
    st.integers(1, 4),
    st.integers(100, 1500),
    st.booleans(),
)
def test_every_cut_of_a_rewritten_history_is_a_valid_transcript(
    messages: list[Message], rewrite: Rewrite, min_recent: int, room: int, is_smaller: bool
) -> None:
    state = StateStore.of([CONTEXT_STATE])
    window = made(messages, state, min_recent_messages=min_recent, max_context_tokens=room)
    shown = fitted(window, rewrite)
    if is_smaller:
        before = len(shown)
        has_shrunk = window.shrink()
        shown = list(window.get_messages())
        assert not has_shrunk or len(shown) <= before
    assert unpaired(shown) == unpaired(messages)
    assert window._estimate == estimate_tokens(shown)
    whole = rewrite(messages)
    if len(shown) == len(whole):
        return
    elsewhere = StateStore.of([CONTEXT_STATE])
    elsewhere.restore(state.export().extensions)
    if rewrite is not nameless and not is_smaller and window.tokens <= window.available:
        again = made(
            list(messages), elsewhere, min_recent_messages=min_recent, max_context_tokens=room
        )
        assert fitted(again, rewrite) == shown


def test_a_call_of_a_transform_goes_with_its_result() -> None:
    """Also where the message after the cut is not of the transcript."""
    pairs = [[calls(f"c{n}"), answer(f"c{n}", "x" * 400)] for n in range(20)]
    messages = numbered([user("q"), *itertools.chain.from_iterable(pairs), assistant("done")])
    for room in range(200, 1200, 37):
        window = made(messages, max_context_tokens=room, min_recent_messages=1)
        halfway = lambda given: [  # noqa: E731
            msgspec.structs.replace(it, id=None) if it.tool_calls else it for it in given
        ]
        assert not unpaired(fitted(window, halfway))
