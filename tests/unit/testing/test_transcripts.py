import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.message import (
    Message,
    MessageRecord,
    Role,
    ToolCall,
    assistant,
    record_of,
    system,
    tool_answer,
    user,
)
from awaken.testing.transcripts import (
    anthropic_problems,
    assert_valid_transcript,
    check_transcript,
    gemini_problems,
    openai_problems,
)

VENDORS = (openai_problems, anthropic_problems, gemini_problems)
CHECKS = (check_transcript, *VENDORS)


def calling(*ids: str, words: str | None = None) -> Message:
    """Call one tool per id; the tool of call "a" is named "tool_a"."""
    calls = [ToolCall(id=call_id, name=f"tool_{call_id}", arguments={}) for call_id in ids]
    return assistant(() if words is None else words, calls)


def answers(*ids: str) -> list[Message]:
    return [tool_answer(call_id, "result") for call_id in ids]


GOOD = [user("hi"), calling("a", "b"), *answers("a", "b"), assistant("done")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "messages",
    [
        [],
        GOOD,
        [user("hi"), calling("a", "b"), *answers("b", "a"), assistant("done")],
        [system("be kind"), user("hi"), calling("a", words="ok"), *answers("a")],
        [user("hi"), calling("a"), *answers("a"), calling("b"), *answers("b")],
        [user("one"), user("two"), assistant("three"), user("four")],
        [user("hi"), calling("a"), *answers("a"), user("and"), assistant("done")],
    ],
)
def test_valid_transcripts_have_no_problems(check, messages):
    assert check(messages) == []


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "messages",
    [
        [user("hi"), calling("a", "b"), *answers("a"), assistant("done")],
        [user("hi"), calling("a"), user("and")],
        [user("hi"), calling("a")],
        [user("hi"), calling("a", "b"), *answers("a", "b", "b")],
        [user("hi"), calling("a", "b"), *answers("a", "a")],
        [user("hi"), calling("a"), *answers("x")],
        [user("hi"), *answers("a"), assistant("done")],
        [*answers("a"), user("hi")],
        [user("hi"), calling("a"), user("wait"), *answers("a")],
        [user("hi"), *answers("a"), calling("a")],
    ],
)
def test_every_check_finds_a_result_that_is_missing_or_misplaced(check, messages):
    assert check(messages) != []


def test_a_problem_names_the_message_and_the_call():
    assert check_transcript([user("hi"), calling("a"), user("and")]) == [
        "message 1 (assistant): call 'a' has 0 results"
    ]
    assert check_transcript([user("hi"), *answers("a")]) == [
        "message 0 (user): the result of 'a' answers no call"
    ]


def test_one_id_twice_in_a_message_is_a_problem_and_in_two_messages_is_not():
    assert check_transcript([calling("a", "a"), *answers("a")]) == [
        "message 0 (assistant): call id 'a' is used 2 times"
    ]
    again = [user("hi"), calling("a"), *answers("a"), calling("a"), *answers("a")]
    assert check_transcript(again) == []
    assert openai_problems(again) == []
    assert anthropic_problems(again) == ["conversation: call id 'a' is used 2 times"]


def test_only_assistants_call():
    message = msgspec.structs.replace(calling("a"), role=Role.USER)
    assert check_transcript([message, *answers("a")]) == [
        "message 0 (user): only an assistant message can have calls"
    ]


def test_open_calls_may_lack_a_result_at_the_end():
    waiting = [user("hi"), calling("a", "b"), *answers("b")]
    assert check_transcript(waiting) != []
    assert check_transcript(waiting, open_calls=["a"]) == []
    assert check_transcript([*waiting, *answers("a")], open_calls=[]) == []


@pytest.mark.parametrize(
    ("messages", "open_calls"),
    [
        ([user("hi"), calling("a", "b"), *answers("b")], ["b"]),
        ([user("hi"), calling("a", "b")], ["a"]),
        ([user("hi"), calling("a"), *answers("a")], ["a"]),
        ([user("hi"), calling("a"), user("and")], ["a"]),
        ([user("hi"), calling("a")], ["a", "ghost"]),
        ([], ["a"]),
    ],
    ids=["the other", "not all", "answered", "not at the end", "unknown", "nothing"],
)
def test_open_calls_excuse_nothing_else(messages, open_calls):
    assert check_transcript(messages, open_calls=open_calls) != []


def test_the_assert_passes_on_good_and_lists_every_problem_on_bad():
    assert_valid_transcript(GOOD)
    assert_valid_transcript([calling("a")], open_calls=["a"])
    with pytest.raises(AssertionError, match=r"(?s)'a' has 0 results.*'b' has 0 results"):
        assert_valid_transcript([user("hi"), calling("a", "b"), user("and")])


def test_openai_needs_content_or_calls():
    assert openai_problems([user("hi"), assistant("")]) == [
        "message 1 (assistant): an assistant message needs content or calls"
    ]
    assert openai_problems([user("hi"), assistant(Thinking(thinking="hm"))]) != []
    assert openai_problems([user("hi"), calling("a", words=""), *answers("a")]) == []


def test_openai_wants_results_directly_after_their_message_where_anthropic_merges():
    messages = [user("hi"), calling("a"), assistant("a moment"), *answers("a")]
    assert openai_problems(messages) != []
    assert check_transcript(messages) != []
    assert anthropic_problems(messages) == []
    assert gemini_problems(messages) == []


def test_anthropic_begins_with_a_user():
    assert anthropic_problems([assistant("hi"), user("hi")]) == [
        "message 0 (assistant): the first turn must be the user's"
    ]
    assert anthropic_problems([system("be kind"), user("hi"), assistant("hi")]) == []


def test_anthropic_refuses_results_in_the_first_turn():
    assert anthropic_problems([user("hi"), *answers("a")]) == [
        "message 0 (user): results without calls in the turn before",
        "message 0 (user): results must come before other content",
    ]


def test_anthropic_wants_results_first_in_their_turn():
    messages = [user("hi"), calling("a"), user("by the way"), *answers("a")]
    assert anthropic_problems(messages) == [
        "message 2 (user): results must come before other content"
    ]
    assert anthropic_problems([messages[0], messages[1], messages[3], messages[2]]) == []


def test_anthropic_wants_all_results_in_the_next_turn():
    messages = [user("hi"), calling("a", "b"), *answers("a"), assistant("so"), *answers("b")]
    assert anthropic_problems(messages) == [
        "message 1 (assistant): call 'b' has 0 results",
        "message 3 (assistant): the result of 'b' answers no call",
    ]


@pytest.mark.parametrize(
    "message",
    [
        assistant(""),
        assistant(()),
        assistant("  \n"),
        assistant((Text(text="x"), Text(text=""))),
        calling("a", words=""),
    ],
)
def test_anthropic_refuses_empty_text_and_empty_turns(message):
    rest = answers("a") if message.tool_calls else []
    assert anthropic_problems([user("hi"), message, *rest]) != []


def test_anthropic_takes_blank_text_beside_something_else_and_empty_results():
    assert anthropic_problems([user("hi"), calling("a", words=" "), tool_answer("a", "")]) == []
    assert anthropic_problems([user(""), assistant("hi")]) != []


def test_gemini_counts_responses():
    assert gemini_problems([user("hi"), calling("a", "b"), *answers("b")]) == [
        "message 1 (assistant): 2 function calls, 1 responses"
    ]


def test_gemini_compares_names_after_regrouping():
    assert gemini_problems([user("hi"), calling("a", "b"), *answers("b", "a")]) == []
    assert gemini_problems([user("hi"), calling("a", "b"), *answers("b", "b")]) == [
        "message 1 (assistant): calls ['tool_a', 'tool_b'], responses ['tool_b', 'tool_b']"
    ]
    assert gemini_problems([user("hi"), calling("a", "b"), *answers("b", "x")]) == [
        "message 1 (assistant): calls ['tool_a', 'tool_b'], responses ['tool_b', '?']"
    ]


def test_gemini_cannot_begin_with_a_call_and_needs_parts():
    assert gemini_problems([calling("a"), *answers("a")]) == [
        "message 0 (assistant): a function call turn cannot be the first"
    ]
    assert gemini_problems([user("hi"), assistant(())]) == [
        "message 1 (assistant): a turn needs at least one part"
    ]


@st.composite
def transcripts(draw, *, with_calls: bool = False) -> list[Message]:
    """A valid conversation: rounds of a user, batches with their results, an answer."""
    messages: list[Message] = [system("be kind")] if draw(st.booleans()) else []
    count = 0
    for turn in range(draw(st.integers(1, 4))):
        messages.append(user(f"question {turn}"))
        least = 1 if with_calls and turn == 0 else 0
        for size in draw(st.lists(st.integers(1, 4), min_size=least, max_size=3)):
            ids = [f"{count + offset}" for offset in range(size)]
            count += size
            messages.append(calling(*ids, words=draw(st.sampled_from([None, "let me see"]))))
            messages += answers(*draw(st.permutations(ids)))
        messages.append(assistant("answer"))
    return messages


def pick_result(draw, messages: list[Message]) -> int:
    return draw(st.sampled_from([i for i, it in enumerate(messages) if it.role is Role.TOOL]))


@given(transcripts())
def test_random_valid_transcripts_have_no_problems(messages):
    for check in CHECKS:
        assert check(messages) == []


@given(st.data())
def test_deleting_or_duplicating_any_result_is_found_by_every_check(data):
    messages = data.draw(transcripts(with_calls=True))
    index = pick_result(data.draw, messages)
    messages[index : index + 1] = [messages[index]] * data.draw(st.sampled_from([0, 2]))
    for check in CHECKS:
        assert check(messages) != []


@given(st.data())
def test_moving_any_result_out_of_its_batch_is_found(data):
    messages = data.draw(transcripts(with_calls=True))
    index = pick_result(data.draw, messages)
    first = next(i for i in range(index, -1, -1) if messages[i].role is Role.ASSISTANT)
    last = next(i for i in range(index, len(messages)) if messages[i].role is not Role.TOOL)
    result = messages.pop(index)
    elsewhere = [i for i in range(len(messages) + 1) if not first < i < last]
    messages.insert(data.draw(st.sampled_from(elsewhere)), result)
    assert check_transcript(messages) != []
    assert openai_problems(messages) != []


def recorded(messages: list[Message]) -> list[MessageRecord]:
    return [
        record_of(message, thread_id="t", seq=seq, created_at=0)
        for seq, message in enumerate(messages, 1)
    ]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("messages", [GOOD, GOOD[:3], GOOD[2:], [system("be kind"), *GOOD[1:]]])
def test_records_are_judged_by_their_messages(check, messages):
    assert check(recorded(messages)) == check(messages)


def test_the_assert_takes_what_the_runtime_returns():
    assert_valid_transcript(recorded(GOOD))
    assert_valid_transcript(recorded(GOOD[:3]), open_calls=["b"])
    with pytest.raises(AssertionError, match="has 0 results"):
        assert_valid_transcript(recorded(GOOD[:3]))
