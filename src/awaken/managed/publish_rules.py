"""Rules for publishing: a message, a second person, a passed gate, and times without publishing."""

from collections.abc import Sequence

from awaken.contracts.evals.eval_runs import EvalMode
from awaken.contracts.evals.worlds import ToolSource
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
    modes: tuple[EvalMode, ...] = ()
    """The modes that count, such as `live`; absent: any. Only `live` asks the models."""
    tools: tuple[ToolSource, ...] = ()
    """Who may have answered the tool calls of any case, such as `live`; absent: any."""

    def __post_init__(self) -> None:
        if self.max_age_ms < 1:
            message = "max_age_ms must be positive"
            raise ValueError(message)
        if ToolSource.SIMULATED in self.tools:
            message = "no gate passes on simulated tools; ask for recorded or live ones"
            raise ValueError(message)


class JudgedGate(Record, frozen=True, kw_only=True):
    """An eval of a configuration that a gate has judged."""

    eval_id: str
    dataset_id: str
    at: int
    """When it ended, in milliseconds since the epoch."""
    mode: EvalMode
    tools: tuple[ToolSource, ...]
    """Who could answer the tool calls of its cases; empty if that is not known."""
    is_passed: bool = True
    off_terms: tuple[str, ...] = ()
    """In what it departs from the terms of the dataset's gate: then it does not count."""


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


def find_unmet_evals(rules: PublishRules, judged: Sequence[JudgedGate], now: int) -> list[str]:
    """Return which gates have not passed in time, or not in the way that counts.

    Of the evals that count the newest one decides: one that failed is not made good by an older
    one that passed.
    """
    unmet = []
    for wanted in rules.requires_eval:
        found = [it for it in judged if it.dataset_id == wanted.dataset_id]
        counted = [it for it in found if not it.off_terms and _counts(wanted, it)]
        what, how = f"the gate of dataset '{wanted.dataset_id}'", _describe_way(wanted)
        if not found:
            problem = f"has not passed for this configuration: run an eval of the draft{how}"
        elif not counted:
            problem = _describe_off(max(found, key=lambda it: it.at))
            problem += f": run an eval of the draft on the terms of the gate{how}"
        else:
            newest = max(counted, key=lambda it: it.at)
            if newest.is_passed and now - newest.at <= wanted.max_age_ms:
                continue
            problem = f"passed for this configuration too long ago: run it again{how}"
            if not newest.is_passed:
                problem = f"has not passed for this configuration (eval '{newest.eval_id}')"
        unmet.append(f"{what} {problem}")
    return unmet


def _describe_off(judged: JudgedGate) -> str:
    why = "; ".join((f"has mode {judged.mode}, tools {', '.join(judged.tools)}", *judged.off_terms))
    return f"was not judged in a way that counts (eval '{judged.eval_id}' {why})"


def _counts(wanted: RequiredEval, judged: JudgedGate) -> bool:
    has_mode = not wanted.modes or judged.mode in wanted.modes
    has_tools = bool(judged.tools) and set(judged.tools).issubset(wanted.tools)
    return has_mode and (has_tools or not wanted.tools)


def _describe_way(wanted: RequiredEval) -> str:
    """Return what to say about the way in which an eval has to be run, if it matters."""
    asked = [f"mode {' or '.join(wanted.modes)}"] if wanted.modes else []
    asked += [f"tools {' or '.join(wanted.tools)}"] if wanted.tools else []
    return f" with {' and '.join(asked)}" if asked else ""
