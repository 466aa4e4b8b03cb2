"""Truncation as pure functions: previews of tool outputs, and where a history may be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.content import Image, Text, UrlSource
from awaken.contracts.messages.message import Message, Role, assistant, tool_answer, user
from awaken.runtime.context.estimate import estimate_message_tokens
from awaken.runtime.context.truncation import (
    PREVIEW_CHARS,
    preview_message,
    split_point,
    truncate_output,
)

from .context_samples import answer, calls, transcripts, unpaired

LONG = 8192


@pytest.mark.parametrize("text", ["", "x" * (LONG - 1), "中" * 2730])
def test_a_tool_output_below_the_bound_is_sent_as_it_is(text: str) -> None:
    message = answer("a", text)
    assert truncate_output(message) is message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * LONG, "x" * PREVIEW_CHARS),
        ("中" * 2731, "中" * PREVIEW_CHARS),
        ("line\n" * LONG, "\n".join(["line"] * 24)),
        (f"{'y' * 2000}\n" * 100, "y" * PREVIEW_CHARS),
    ],
    ids=["at the bound", "by bytes", "by lines", "by characters"],
)
def test_a_long_tool_output_is_shown_by_its_beginning_with_a_notice(text: str, shown: str) -> None:
    preview = truncate_output(answer("a", text)).text
    head, _, notice = preview.rpartition("\n")
    assert head == shown
    assert f"{len(text.encode()) // 4} tokens" in notice
    assert f"first {len(shown)} characters" in notice


def test_only_the_long_texts_of_tool_messages_become_previews() -> None:
    image, short, long = Image(source=UrlSource(url="u")), Text(text="s"), Text(text="x" * LONG)
    shown = truncate_output(tool_answer("a", (short, long, image, long)))
    assert (shown.content[0], shown.content[2]) == (short, image)
    assert shown.content[1] == shown.content[3] != long
    assert (shown.role, shown.tool_call_id) == (Role.TOOL, "a")
    for message in (user("x" * LONG), assistant("x" * LONG)):
        assert truncate_output(message) is message


def test_a_preview_is_small_and_its_own_preview() -> None:
    preview = preview_message(user("x" * 10 * LONG))
    assert estimate_message_tokens(preview) < 450
    assert preview_message(preview) is preview


def history(pattern: str) -> list[Message]:
    """`u` a user, `a` an answer, `c` a call, `t` its result."""
    made = {"u": user("u"), "a": assistant("a"), "c": calls("1"), "t": answer("1")}
    return [made[letter] for letter in pattern]


@pytest.mark.parametrize(
    ("pattern", "budget", "min_recent", "start"),
    [
        ("", 100, 3, 0),
        ("u", 0, 1, 0),
        ("u", 0, 0, 1),
        ("uaua", 40, 0, 0),
        ("uaua", 39, 0, 1),
        ("uaua", 20, 0, 2),
        ("uaua", 20, 3, 1),
        ("uaua", 0, 9, 0),
        ("uaua", -5, 2, 2),
        ("uaua", 100, -3, 0),
        ("ucta", 20, 0, 1),
        ("uctta", 20, 0, 1),
        ("ucta", 30, 0, 1),
        ("uctua", 20, 0, 3),
        ("uct", 0, 1, 1),
        ("ct", 0, 0, 2),
    ],
    ids=["nothing", "single", "single that does not fit", "all", "not all", "half",
         "recent beyond budget", "recent beyond length", "budget below zero", "recent below zero",
         "back to the call", "back over results", "at the call", "after the round",
         "result at the end", "everything goes"],
)  # fmt: skip
def test_the_newest_messages_that_fit_are_kept_with_their_calls(
    pattern: str, budget: int, min_recent: int, start: int
) -> None:
    messages = history(pattern)
    assert split_point(messages, [10] * len(messages), budget, min_recent) == start


def test_the_first_message_that_does_not_fit_ends_what_is_kept() -> None:
    messages = history("uaua")
    assert split_point(messages, [1, 100, 1, 1], 50, 0) == 2


@given(transcripts, st.integers(-100, 4000), st.integers(0, 12))
def test_no_cut_parts_a_call_from_its_results(
    messages: list[Message], budget: int, min_recent: int
) -> None:
    tokens = list(map(estimate_message_tokens, messages))
    start = split_point(messages, tokens, budget, min_recent)
    assert unpaired(messages[start:]) == []
    assert len(messages) - start >= min(min_recent, len(messages))
    if messages[start:] and sum(tokens[start:]) > max(budget, 0):
        # Only what must stay is more than the budget.
        recent = messages[max(0, len(messages) - min_recent) :]
        assert messages[start].tool_calls or len(messages) - start == len(recent)
