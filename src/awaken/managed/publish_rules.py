"""Rules for publishing: a message, a second person, a passed gate, and times without publishing."""

from collections.abc import Sequence

from awaken.contracts.record import Record, StrictRecord

WEEK_MS = 7 * 24 * 60 * 60 * 1000


class FreezeWindow(StrictRecord, frozen=True, kw_only=True):
    """A time in which nothing is published; both ends are milliseconds since the epoch."""

    begin: int
    end: int
    reason: str = "a freeze"

    def __post_init__(self) -> None:
        if self.begin >= self.end:
            message = "a freeze must begin before it ends"
            raise ValueError(message)


class RequiredEval(StrictRecord, frozen=True, kw_only=True):
    """An eval whose gate must have passed for exactly what is published."""

    dataset_id: str
    max_age_ms: int = WEEK_MS
    """How long ago it may have ended."""

    def __post_init__(self) -> None:
        if self.max_age_ms < 1:
            message = "max_age_ms must be positive"
            raise ValueError(message)


class PassedGate(Record, frozen=True, kw_only=True):
    """An eval of a configuration whose gate passed."""

    eval_id: str
    dataset_id: str
    at: int
    """When it ended, in milliseconds since the epoch."""


class PublishRules(StrictRecord, frozen=True, kw_only=True):
    """What must hold before a change becomes live."""

    requires_message: bool = False
    requires_second_person: bool = False
    """Whether the publisher must not be among those who edited the draft."""
    freeze: tuple[FreezeWindow, ...] = ()
    requires_eval: tuple[RequiredEval, ...] = ()
    """Gates that must have passed for the manifest that is published."""


def combine_rules(first: PublishRules, second: PublishRules) -> PublishRules:
    """Return the rules under which both hold."""
    return PublishRules(
        requires_message=first.requires_message or second.requires_message,
        requires_second_person=first.requires_second_person or second.requires_second_person,
        freeze=(*first.freeze, *second.freeze),
        requires_eval=(*first.requires_eval, *second.requires_eval),
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


def find_unmet_evals(rules: PublishRules, passed: Sequence[PassedGate], now: int) -> list[str]:
    """Return which gates have not passed in time for what is published."""
    unmet = []
    for wanted in rules.requires_eval:
        times = [it.at for it in passed if it.dataset_id == wanted.dataset_id]
        what = f"the gate of dataset '{wanted.dataset_id}'"
        if not times:
            unmet.append(f"{what} has not passed for this configuration: run an eval of the draft")
        elif now - max(times) > wanted.max_age_ms:
            unmet.append(f"{what} passed for this configuration too long ago: run it again")
    return unmet
