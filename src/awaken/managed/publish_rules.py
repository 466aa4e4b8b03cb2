"""Rules for publishing: a message, a second person, and times in which nothing is published."""

from collections.abc import Sequence

from awaken.contracts.record import StrictRecord


class FreezeWindow(StrictRecord, frozen=True, kw_only=True):
    """A time in which nothing is published; both ends are milliseconds since the epoch."""

    begin: int
    end: int
    reason: str = "a freeze"

    def __post_init__(self) -> None:
        if self.begin >= self.end:
            message = "a freeze must begin before it ends"
            raise ValueError(message)


class PublishRules(StrictRecord, frozen=True, kw_only=True):
    """What must hold before a change becomes live."""

    requires_message: bool = False
    requires_second_person: bool = False
    """Whether the publisher must not be among those who edited the draft."""
    freeze: tuple[FreezeWindow, ...] = ()


def combine_rules(first: PublishRules, second: PublishRules) -> PublishRules:
    """Return the rules under which both hold."""
    return PublishRules(
        requires_message=first.requires_message or second.requires_message,
        requires_second_person=first.requires_second_person or second.requires_second_person,
        freeze=(*first.freeze, *second.freeze),
    )


def find_unmet_rules(
    rules: PublishRules, message: str, publisher: str, editors: Sequence[str], now: int
) -> list[str]:
    """Return what is missing before the publisher may publish; `editors` are those of a draft.

    The publisher is a principal. The person that an editor's principal named behind a slash was
    not verified, and makes no second person.
    """
    unmet = []
    if rules.requires_message and not message.strip():
        unmet.append("a message is required")
    if rules.requires_second_person:
        if not editors:
            unmet.append("a second person is required: make a draft, and let another publish it")
        elif any(it == publisher or it.startswith(f"{publisher}/") for it in editors):
            unmet.append(f"a second person is required: '{publisher}' has edited the draft")
    unmet += [
        f"nothing is published now: {it.reason}" for it in rules.freeze if it.begin <= now < it.end
    ]
    return unmet
