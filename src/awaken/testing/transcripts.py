"""What a transcript must look like, as checkers for any test.

`check_transcript` and each `…_problems` function return sentences, none when all is well; the
assert raises with all of them. They judge data only and know nothing of how it was made.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.message import Message, MessageRecord, Role, ToolCall

Transcript: TypeAlias = Sequence[Message | MessageRecord]
"""Messages, or the records of them that `AgentRuntime.messages` returns."""


def assert_valid_transcript(messages: Transcript, open_calls: Iterable[str] = ()) -> None:
    """Raise `AssertionError` with every problem that `check_transcript` finds."""
    if problems := check_transcript(messages, open_calls=open_calls):
        raise AssertionError("\n".join(problems))


def check_transcript(messages: Transcript, *, open_calls: Iterable[str] = ()) -> list[str]:
    """Check that each call has exactly one result before the next message that is no result.

    `open_calls` are the calls that a run waits for: they, and only they, have no result yet,
    and only at the end of the transcript.
    """
    waiting = frozenset(open_calls)
    segments = _segments(messages)
    last = segments[-1] if segments else _Turn(Role.SYSTEM, 0)
    unanswered = {call.id for call in last.calls} - {it.tool_call_id for it in last.answers}
    problems = [f"call {name!r} is not open at the end" for name in sorted(waiting - unanswered)]
    for segment in segments:
        excused = waiting if segment is last else frozenset()
        problems += _find_unpaired(segment, segment.answers, excused)
        if segment.calls and segment.role is not Role.ASSISTANT:
            problems.append(f"{segment.where}: only an assistant message can have calls")
    return problems


def openai_problems(messages: Transcript) -> list[str]:
    """Check OpenAI's rules: results directly after their message, every call id answered."""
    problems: list[str] = []
    for segment in _segments(messages):
        problems += _find_unpaired(segment, segment.answers)
        if segment.role is Role.ASSISTANT and not segment.calls and not segment.has_content:
            problems.append(f"{segment.where}: an assistant message needs content or calls")
    return problems


def anthropic_problems(messages: Transcript) -> list[str]:
    """Check Anthropic's rules, after neighbours of one role were merged into turns.

    A user begins; results come first in the very next user turn; call ids are unique in the
    whole conversation; no text block is empty, and no turn has nothing to say.
    """
    turns = _turns(messages, results_are=Role.USER)
    problems = _find_repeated("conversation", [call for turn in turns for call in turn.calls])
    if turns and turns[0].role is not Role.USER:
        problems.append(f"{turns[0].where}: the first turn must be the user's")
    for turn, following in pairwise([*turns, _Turn(Role.USER, len(messages))]):
        problems += _find_unpaired(turn, following.answers)
    for previous, turn in pairwise([_Turn(Role.USER, 0), *turns]):
        if turn.answers and previous.role is not Role.ASSISTANT:
            problems.append(f"{turn.where}: results without calls in the turn before")
        problems += _anthropic_content_problems(turn)
    return problems


def _anthropic_content_problems(turn: "_Turn") -> list[str]:
    problems: list[str] = []
    texts = [
        block.text
        for message in turn.messages
        if message.role is not Role.TOOL
        for block in message.content
        if isinstance(block, Text)
    ]
    if "" in texts:
        problems.append(f"{turn.where}: empty text block")
    if not turn.calls and not turn.answers and not turn.has_content:
        problems.append(f"{turn.where}: no content")
    roles = [message.role for message in turn.messages]
    if roles != sorted(roles, key=lambda role: role is not Role.TOOL):
        problems.append(f"{turn.where}: results must come before other content")
    return problems


def gemini_problems(messages: Transcript) -> list[str]:
    """Check Gemini's rules, after neighbours of one role were merged into turns.

    A turn with calls follows a user or a result turn; as many results follow it, and their
    names are those of the calls, in order, once they are regrouped by call id.
    """
    turns = _turns(messages, results_are=Role.TOOL)
    before, after = _Turn(Role.SYSTEM, 0), _Turn(Role.SYSTEM, len(messages))
    problems: list[str] = []
    for turn, following in pairwise([before, *turns, after]):
        problems += _gemini_response_problems(turn, following.answers)
        if turn is before and following.calls:
            problems.append(f"{following.where}: a function call turn cannot be the first")
    for turn in turns:
        if turn.role is not Role.TOOL and not turn.calls and not turn.has_content:
            problems.append(f"{turn.where}: a turn needs at least one part")
    return problems


def _gemini_response_problems(turn: "_Turn", answers: list[Message]) -> list[str]:
    if len(answers) != len(turn.calls):
        return [f"{turn.where}: {len(turn.calls)} function calls, {len(answers)} responses"]
    places = {call.id: place for place, call in enumerate(turn.calls)}
    regrouped = sorted(places.get(answer.tool_call_id or "", len(places)) for answer in answers)
    names = [call.name for call in turn.calls]
    answered = [names[place] if place < len(names) else "?" for place in regrouped]
    if answered == names:
        return []
    return [f"{turn.where}: calls {names}, responses {answered}"]


@dataclass(slots=True)
class _Turn:
    """Messages that a vendor sees as one."""

    role: Role
    index: int
    messages: list[Message] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"message {self.index} ({self.role})"

    @property
    def calls(self) -> list[ToolCall]:
        return [call for message in self.messages for call in message.tool_calls or ()]

    @property
    def answers(self) -> list[Message]:
        return [message for message in self.messages if message.role is Role.TOOL]

    @property
    def has_content(self) -> bool:
        blocks = [block for message in self.messages for block in message.content]
        return any(
            block.text.strip() if isinstance(block, Text) else not isinstance(block, Thinking)
            for block in blocks
        )


def _message(item: Message | MessageRecord) -> Message:
    return item.message if isinstance(item, MessageRecord) else item


def _segments(messages: Transcript) -> list[_Turn]:
    """Split into one message each, with the results that directly follow it."""
    segments: list[_Turn] = []
    for index, message in enumerate(map(_message, messages)):
        if message.role is not Role.TOOL or not segments:
            segments.append(_Turn(message.role, index))
        segments[-1].messages.append(message)
    return segments


def _turns(messages: Transcript, *, results_are: Role) -> list[_Turn]:
    """Merge neighbours of one role; system messages travel outside the turns."""
    turns: list[_Turn] = []
    for index, message in enumerate(map(_message, messages)):
        if message.role is Role.SYSTEM:
            continue
        role = results_are if message.role is Role.TOOL else message.role
        if not turns or turns[-1].role is not role:
            turns.append(_Turn(role, index))
        turns[-1].messages.append(message)
    return turns


def _find_unpaired(
    turn: _Turn, answers: Sequence[Message], excused: frozenset[str] = frozenset()
) -> list[str]:
    found = Counter(answer.tool_call_id for answer in answers)
    problems = _find_repeated(turn.where, turn.calls)
    for call_id in dict.fromkeys(call.id for call in turn.calls):
        count = found.pop(call_id, 0)
        if count > 1 or (count == 0 and call_id not in excused):
            problems.append(f"{turn.where}: call {call_id!r} has {count} results")
    problems += [f"{turn.where}: the result of {call_id!r} answers no call" for call_id in found]
    return problems


def _find_repeated(where: str, calls: Iterable[ToolCall]) -> list[str]:
    counts = Counter(call.id for call in calls)
    return [f"{where}: call id {name!r} is used {n} times" for name, n in counts.items() if n > 1]
