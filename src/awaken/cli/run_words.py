"""Reads the words of `awaken run` and `awaken chat`: the app, the agent, and what to say.

A word is read in one way only: the first word is the app if it looks like one, a word that is a
registered agent is the agent, and everything else is the text.
"""

import shlex
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from awaken.contracts.errors import InvalidInput, RefusedInput

from .apps import is_place
from .standard_input import read_input

STDIN = "-"
_NEAR = 0.75
_AGENT_AND_TEXT = 2


class RunWords(NamedTuple):
    """What the words ask for."""

    agent_id: str | None
    """None: the first agent."""
    text: str | None
    """None: a conversation."""


def split_app(words: Sequence[str], app_place: str | None) -> tuple[str | None, list[str]]:
    """Split the words into the app, if the first one is an app, and the rest."""
    rest = list(words)
    if app_place is None and rest and is_place(rest[0]):
        app_place = rest.pop(0)
    return app_place, rest


def read_words(
    words: Sequence[str],
    agent_id: str | None,
    known: Sequence[str],
    is_agent: Callable[[str], bool],
) -> RunWords:
    """Read the words after the app; `agent_id` is the agent that an option names.

    Raises:
        InvalidInput: They can be meant in more than one way, or the text is empty.
    """
    words_max = _AGENT_AND_TEXT if agent_id is None else 1
    if len(words) > words_max:
        problem = f"there are {len(words)} words after the app; quote the text: {_quote(words)}"
        raise InvalidInput(what="awaken run", problem=problem)
    match list(words):
        case []:
            return RunWords(agent_id, None)
        case [text] if agent_id is not None:
            return RunWords(agent_id, _check_text(text))
        case [word] if word and is_agent(word):
            return RunWords(word, None)
        case [text]:
            _check_not_misspelt(text, known)
            return RunWords(None, _check_text(text))
        case [first, text]:
            return RunWords(first, _check_text(text))
    raise AssertionError(words)


def read_agent(words: Sequence[str], agent_id: str | None) -> RunWords:
    """Read the words of a conversation after the app, which has no text.

    Raises:
        InvalidInput: There are more words than one agent.
    """
    given = [*words, *([] if agent_id is None else [agent_id])]
    if len(given) > 1:
        problem = f"it takes no text; `awaken run … {_quote(words)}` says one"
        raise InvalidInput(what="awaken chat", problem=problem)
    return RunWords(given[0] if given else None, None)


def describe_unquoted(words: Sequence[str], given: RunWords) -> str:
    """How to say a text whose first word was taken for an agent; empty if none was."""
    if given.text is None:
        return f"To say something, write `awaken run … {_quote(words)}`." if words else ""
    if len(words) != _AGENT_AND_TEXT:
        return ""
    return f"If all of it is the text, quote it: {_quote(words)}"


def read_text(text: str) -> str:
    """The text that a word stands for: itself, or stdin for a single dash.

    Raises:
        InvalidInput: Stdin cannot be read, or has no text.
    """
    if text != STDIN:
        return text
    found = read_input().strip()
    if not found:
        raise InvalidInput(what="stdin", problem="it has no text; '-' reads the text from there")
    return found


def _check_text(text: str) -> str:
    if not text.strip():
        problem = "it is empty; leave it out for a conversation, or write '-' to read stdin"
        raise InvalidInput(what="The text", problem=problem)
    return text


def _check_not_misspelt(text: str, known: Sequence[str]) -> None:
    """Refuse a word that is nearly an agent's id: a model is not asked by a mistake in typing."""
    ids = {it.casefold(): it for it in known}
    near = get_close_matches(text.casefold(), ids, n=1, cutoff=_NEAR)
    if near:
        found = ids[near[0]]
        problem = (
            f"'{text}' is no agent; did you mean '{found}'? To say it, name the agent too: "
            f"--agent {shlex.quote(found)} {shlex.quote(text)}"
        )
        raise RefusedInput(what="awaken run", problem=problem)


def _quote(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}"'
