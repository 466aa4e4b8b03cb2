"""Compaction as pure functions: boundaries, plans, marks, and what is left of a transcript."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import KeyCodecError
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.message import Message, Role, Visibility, assistant, system, user
from awaken.contracts.models.inference import CompactionMode, ContextWindowPolicy
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.context_state import (
    CONTEXT_STATE,
    MARKS_KEPT,
    CompactionConfig,
    CompactionMark,
    ContextState,
    Cut,
    CutMoved,
    HistoryRestored,
    MarkAdded,
    Obligation,
    ObligationKind,
)
from awaken.contracts.suspension.tickets import Suspension, Ticket
from awaken.contracts.tool_results import ToolResult
from awaken.runtime.context.compaction import (
    OBLIGATIONS_KEPT,
    UNSETTLED,
    build_mark,
    find_boundary,
    plan_compaction,
    raw_suffix,
    render_messages,
    saves_enough,
    summary_message,
)
from awaken.runtime.context.effective import effective
from awaken.runtime.context.estimate import estimate_message_tokens, estimate_tokens
from awaken.runtime.tools.execution import shown_text
from awaken.runtime.tools.recall import OUTCOME_UNKNOWN

from .context_samples import answer, calls, mark, numbered, plan, talk, transcripts, unpaired

POLICY = ContextWindowPolicy(autocompact_threshold=1)
FRONTIER = ContextWindowPolicy(compaction_mode=CompactionMode.COMPACT_TO_SAFE_FRONTIER)


def history(pattern: str) -> list[Message]:
    """`u` a user, `a` an answer, `c` two calls, `1` and `2` their results."""
    made = {"u": user("u"), "a": assistant("a"), "c": calls("1", "2")}
    made |= {"1": answer("1"), "2": answer("2")}
    return numbered([made[letter] for letter in pattern])


@pytest.mark.parametrize(
    ("pattern", "end", "boundary"),
    [
        ("", 0, None),
        ("u", 1, None),
        ("ua", 1, None),
        ("ua", 2, 1),
        ("uaua", 3, 2),
        ("uc12a", 5, 4),
        ("uc12a", 4, 3),
        ("uc12a", 3, None),
        ("uauc12a", 5, 2),
        ("uauc1", 5, 2),
        ("uauc", 4, 2),
        ("uac12c12", 8, 7),
        ("uac12c12", 6, 4),
        ("uaua", -1, None),
    ],
    ids=["nothing", "one message", "range of one", "two", "in the middle", "after a round",
         "with its results", "in a round", "before an open round", "partial results",
         "open round", "several rounds", "between rounds", "range below zero"],
)  # fmt: skip
def test_a_boundary_is_the_last_place_at_which_no_call_is_open(
    pattern: str, end: int, boundary: int | None
) -> None:
    assert find_boundary(history(pattern), end) == boundary


@given(transcripts, st.integers(0, 60))
def test_no_boundary_parts_a_call_from_its_results(messages: list[Message], end: int) -> None:
    boundary = find_boundary(messages, min(end, len(messages)))
    if boundary is not None:
        assert 1 <= boundary < end
        assert unpaired(messages[: boundary + 1]) == unpaired(messages[boundary + 1 :]) == []


@pytest.mark.parametrize(
    ("policy", "suffix"),
    [
        (POLICY, 2),
        (ContextWindowPolicy(compaction_raw_suffix_messages=5), 5),
        (ContextWindowPolicy(compaction_raw_suffix_messages=-1), 0),
        (FRONTIER, 0),
    ],
)
def test_the_mode_says_how_many_messages_stay_as_they_are(
    policy: ContextWindowPolicy, suffix: int
) -> None:
    messages = talk(10, size=200)
    made = plan_compaction(messages, 0, policy, 100_000)
    assert raw_suffix(policy) == suffix
    assert made is not None
    assert (made.place, made.message_id) == (19 - suffix, f"m{19 - suffix}")


def test_a_plan_names_its_boundary_and_counts_what_it_replaces() -> None:
    messages = talk(10, size=200)
    made = plan_compaction(messages, 4, POLICY, 100_000)
    assert made is not None
    assert (made.place, made.previous) == (17, None)
    assert made.tokens == estimate_tokens(messages[4:18])
    assert made.transcript.startswith("[User]: 2 word")
    assert made.transcript.count("[Assistant]:") == 7
    before = mark(3)
    again = plan_compaction(messages, 4, POLICY, 100_000, before)
    assert again is not None
    assert again.tokens == made.tokens + estimate_message_tokens(summary_message(before))
    assert again.previous is before


@pytest.mark.parametrize(
    ("messages", "limit"),
    [
        ([], 100_000),
        (talk(1, size=2000), 100_000),
        (talk(10, size=20), 100_000),
        (talk(10, size=200), 1000),
        (numbered([user("x" * 8000, visibility=Visibility.INTERNAL)] * 6), 100_000),
        ([msgspec.structs.replace(it, id=None) for it in talk(10, size=200)], 100_000),
    ],
    ids=["nothing", "too few", "too short", "more than fits", "nothing to read", "no id"],
)
def test_there_is_no_plan_without_a_useful_boundary(messages: list[Message], limit: int) -> None:
    assert plan_compaction(messages, 0, POLICY, limit) is None


def test_no_more_is_summarised_at_once_than_a_model_can_read() -> None:
    messages = talk(50, size=200)
    made = plan_compaction(messages, 0, POLICY, 3000)
    assert made is not None
    assert 2700 < made.tokens <= 3000
    assert made.place < 20


def test_long_tool_outputs_are_summarised_by_their_previews() -> None:
    messages = numbered([user("go"), calls("1"), answer("1", "x" * 1_000_000), *talk(20)])
    made = plan_compaction(messages, 0, POLICY, 100_000)
    assert made is not None
    assert len(made.transcript) < 20_000


def test_a_transcript_has_labels_and_calls_and_no_hidden_or_empty_messages() -> None:
    messages = [
        system("Rules."),
        user(" hello "),
        user("psst", visibility=Visibility.INTERNAL),
        assistant(""),
        calls("1", text="Let me see."),
        answer("1", "sunny"),
        assistant("It is sunny."),
    ]
    assert render_messages(messages) == (
        "[System]: Rules.\n\n[User]: hello\n\n"
        '[Assistant]: Let me see.\n(calls search with {"q":"1"})\n\n'
        "[Tool]: sunny\n\n[Assistant]: It is sunny."
    )
    assert render_messages([]) == render_messages(messages[2:4]) == ""


def ticket(name: str, **fields: Any) -> Ticket:
    given = {"thread_id": "t", "run_id": "r", "call_id": "c", "tool_name": "pay"}
    return Ticket(**{"ticket_id": name, **given, **fields})


def test_what_is_open_is_written_by_code_into_the_summary_message() -> None:
    unknown = shown_text(ToolResult.error_with_code("pay", OUTCOME_UNKNOWN, "nobody knows"))
    messages = numbered([user("go"), calls("c1", "c2"), answer("c1", unknown), answer("c2")])
    made = plan_compaction([*messages, *talk(20, size=100)], 0, POLICY, 100_000)
    assert made is not None
    asked = Suspension(message="May I pay?")
    tickets = [ticket("k1", suspension=asked), ticket("k2", status=TicketStatus.CLOSED)]
    text = summary_message(build_mark(made, "They paid.", tickets, at=7)).text
    assert text.startswith("<conversation-summary>\nThey paid.\n</conversation-summary>\n")
    assert "Call 'c1' of 'search' may or may not have taken effect" in text
    assert "Ticket 'k1' on 'pay' waits for: May I pay?." in text
    assert "c2" not in text
    assert "k2" not in text
    assert unknown.startswith(UNSETTLED)


def obligation(kind: ObligationKind, name: str) -> Obligation:
    return Obligation(kind=kind, id=name, text=name)


def test_unsettled_effects_stay_through_later_summaries_and_tickets_are_looked_up_anew() -> None:
    effect, waiting = ObligationKind.EFFECT, ObligationKind.TICKET
    before = mark(3, obligations=(obligation(effect, "e1"), obligation(waiting, "old")))
    made = plan(9, previous=before, effects=(obligation(effect, "e2"),))
    again = build_mark(made, "s", [ticket("new")], at=1)
    assert [it.id for it in again.obligations] == ["e1", "e2", "new"]
    many = plan(9, effects=tuple(obligation(effect, f"e{n}") for n in range(200)))
    kept = build_mark(many, "s", [ticket("new")], at=1).obligations
    assert len(kept) == OBLIGATIONS_KEPT
    assert kept[-1].id == "new"


def test_a_mark_keeps_the_plan_and_the_cost_of_what_is_sent() -> None:
    made = build_mark(plan(9), "  <conversation-summary>Short.</conversation-summary> ", [], at=7)
    assert (made.message_id, made.place, made.at, made.pre_tokens) == ("m9", 9, 7, 2000)
    assert made.summary == "Short."
    message = summary_message(made)
    assert made.post_tokens == estimate_message_tokens(message)
    assert (message.role, message.visibility) == (Role.SYSTEM, Visibility.INTERNAL)
    assert message == summary_message(made)


@pytest.mark.parametrize(
    ("post", "ratio", "is_enough"),
    [(700, 0.3, True), (701, 0.3, False), (1000, 0.0, True), (1001, 0.0, False)],
)
def test_a_summary_has_to_save_a_share_of_the_tokens(
    post: int, ratio: float, is_enough: bool
) -> None:
    made = mark(3, pre_tokens=1000, post_tokens=post)
    assert saves_enough(made, ratio) is is_enough


def sent(messages: list[Message], state: ContextState) -> list[Message]:
    left = effective(messages, state)
    return [*left.prefix, *messages[left.first :]]


def test_without_marks_the_whole_transcript_is_left() -> None:
    messages = talk(4)
    assert sent(messages, ContextState()) == messages
    assert sent([], ContextState()) == []


def test_the_last_mark_that_can_be_found_stands_for_the_beginning() -> None:
    messages = talk(4)
    marks = (mark(1), mark(3), mark(9))
    left = effective(messages, ContextState(marks=marks))
    assert (left.mark, left.first, left.unsummarised) == (marks[1], 4, 4)
    assert sent(messages, ContextState(marks=marks)) == [summary_message(marks[1]), *messages[4:]]
    gone = ContextState(marks=(mark(9),), cut=Cut(message_id="m9", place=2))
    assert sent(messages, gone) == messages


def test_a_mark_is_found_by_its_message_even_where_places_have_changed() -> None:
    messages = talk(4)
    moved = mark(50, message_id="m3")
    left = effective(messages, ContextState(marks=(moved,)))
    assert left.first == 4


def test_a_cut_and_a_mark_leave_out_whatever_one_of_them_leaves_out() -> None:
    messages = talk(4)
    early, late = Cut(message_id="m2", place=2), Cut(message_id="m6", place=6)
    assert effective(messages, ContextState(marks=(mark(3),), cut=early)).first == 4
    left = effective(messages, ContextState(marks=(mark(3),), cut=late))
    assert (left.first, left.unsummarised, left.mark) == (6, 4, mark(3))
    assert sent(messages, ContextState(cut=late)) == messages[6:]


def test_leading_messages_of_the_system_are_always_sent() -> None:
    messages = numbered([system("one"), system("two"), *talk(4)])
    state = ContextState(marks=(mark(5),))
    assert sent(messages, state) == [*messages[:2], summary_message(mark(5)), *messages[6:]]
    only = numbered([system("one"), system("two")])
    assert sent(only, ContextState(cut=Cut(message_id="m1", place=1))) == only


def test_a_history_that_begins_with_an_answer_begins_with_what_the_user_had_asked() -> None:
    hidden = user("hint", visibility=Visibility.INTERNAL)
    rounds = [calls("1"), answer("1"), hidden, calls("1"), answer("1"), assistant("done")]
    messages = numbered([user("old"), user("x" * 20_000), *rounds])
    left = effective(messages, ContextState(cut=Cut(message_id="m5", place=5)))
    assert len(left.prefix) == 1
    assert left.prefix[0].text.startswith("x" * 1600)
    assert "Preview" in left.prefix[0].text
    at_user = effective(messages, ContextState(cut=Cut(message_id="m4", place=4)))
    assert at_user.prefix == ()
    noted = numbered([user("a"), assistant("b"), system("note"), user("c")])
    assert effective(noted, ContextState(cut=Cut(message_id="m2", place=2))).prefix == ()


@given(transcripts, st.data())
def test_whatever_is_marked_and_cut_at_boundaries_leaves_calls_with_their_results(
    messages: list[Message], data: st.DataObject
) -> None:
    boundary = find_boundary(messages, data.draw(st.integers(0, len(messages))))
    marks: tuple[CompactionMark, ...] = () if boundary is None else (mark(boundary),)
    assert unpaired(sent(messages, ContextState(marks=marks))) == []


def test_the_state_of_a_thread_counts_its_compactions_and_keeps_the_newest_marks() -> None:
    state = CONTEXT_STATE.default
    for place in range(MARKS_KEPT + 3):
        state = CONTEXT_STATE.apply_update(state, MarkAdded(mark=mark(place)))
    assert [it.place for it in state.marks] == list(range(3, MARKS_KEPT + 3))
    assert state.total_compactions == MARKS_KEPT + 3
    cut = Cut(message_id="m5", place=5)
    state = CONTEXT_STATE.apply_update(state, CutMoved(cut=cut, correction=1.5))
    assert (state.cut, state.correction, len(state.marks)) == (cut, 1.5, MARKS_KEPT)
    assert CONTEXT_STATE.decode(CONTEXT_STATE.encode(state)) == state
    for _ in range(2):
        state = CONTEXT_STATE.apply_update(state, HistoryRestored())
        assert (state.marks, state.cut, state.correction) == ((), None, 1.5)


def test_the_config_section_has_defaults_and_refuses_what_makes_no_sense() -> None:
    spec = AgentSpec(id="a", model_id="m")
    config = spec.config("compaction", CompactionConfig)
    assert (config.summary_max_tokens, config.min_savings_ratio) == (1024, 0.3)
    assert config.summary_model is None
    for bad in (
        {"user_prompt": "no place for it"},
        {"summary_max_tokens": 0},
        {"min_savings_ratio": 1},
        {"summary_model": " "},
        {"timeout_ms": 0},
        {"unknown": 1},
    ):
        with pytest.raises(KeyCodecError):
            spec.with_config("compaction", bad).config("compaction", CompactionConfig)
