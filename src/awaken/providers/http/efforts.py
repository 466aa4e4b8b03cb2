"""Reasoning effort in the terms of the models."""

import re
from collections.abc import Mapping

from awaken.contracts.models.inference import Effort, EffortBudget, ReasoningEffort

_LEVELS = ((0, Effort.NONE), (1_024, Effort.LOW), (8_192, Effort.MEDIUM), (24_576, Effort.HIGH))

_NEAREST = {
    Effort.NONE: ("none", "minimal", "low", "medium", "high"),
    Effort.LOW: ("low", "medium", "high"),
    Effort.MEDIUM: ("medium", "high"),
    Effort.HIGH: ("high", "medium"),
    Effort.MAX: ("max", "xhigh", "high", "medium"),
}
_UP_TO_HIGH = ("low", "medium", "high")
_NEWEST = ("none", *_UP_TO_HIGH, "xhigh", "max")
# The first match counts.
_OPENAI_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"gpt-[34]|chatgpt-|gpt-5-chat", ()),
    (r"gpt-5-pro", ("high",)),
    (r"gpt-5\.\d+-chat", ("medium",)),
    (r"gpt-5\.\d+-pro", ("medium", "high", "xhigh")),
    (r"gpt-5\.1", ("none", *_UP_TO_HIGH)),
    (r"gpt-5\.[2-5]", ("none", *_UP_TO_HIGH, "xhigh")),
    (r"gpt-6-astra|gpt-6\.1-sol", (*_UP_TO_HIGH, "xhigh", "max")),
    (r"gpt-5\.|gpt-6", _NEWEST),
    (r"gpt-5", ("minimal", *_UP_TO_HIGH)),
    (r"gpt-oss|o\d", _UP_TO_HIGH),
)
_OTHERS = ("none", *_UP_TO_HIGH)


def level_of(effort: ReasoningEffort) -> Effort:
    """Return the lowest level that covers a budget of thinking tokens; a level is unchanged."""
    if not isinstance(effort, EffortBudget):
        return effort
    return next((level for most, level in _LEVELS if effort.budget <= most), Effort.MAX)


def openai_word(
    effort: ReasoningEffort | None, model: str, words: Mapping[Effort, str]
) -> str | None:
    """Return the configured word for an effort, else the nearest one that the model accepts."""
    if effort is None:
        return None
    level = level_of(effort)
    if level in words:
        return words[level]
    known = _openai_words(model)
    return next((word for word in _NEAREST[level] if word in known), None)


def can_reason(model: str) -> bool:
    """Whether a model may reason; only older models of OpenAI are known not to."""
    return bool(_openai_words(model))


def is_openai(model: str) -> bool:
    """Whether a name is one of OpenAI's models."""
    return _openai_words(model) is not _OTHERS


def _openai_words(model: str) -> tuple[str, ...]:
    name = model.rpartition("/")[2].removeprefix("ft:")
    return next((words for family, words in _OPENAI_FAMILIES if re.match(family, name)), _OTHERS)
