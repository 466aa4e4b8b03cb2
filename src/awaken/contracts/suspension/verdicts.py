"""How a decision is read: the same rules for the terminal, for every protocol and for Python.

If a permission is asked for, the payload must be a clear yes or no. A payload that is neither, or
both, is refused and never counts as a yes. If the payload is data, only the action can decline.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .errors import InvalidDecision
from .tickets import Asks, DecisionAction, Ticket, ToolCallResume


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


YES = _words("""
    y yes yeah yep ok okay sure approve approved allow allowed allow_once accept accepted agree
    agreed confirm confirmed grant granted permit permitted proceed continue go go_on go_ahead
    resume true
""")
NO = _words("""
    n no nope nah deny denied disallow disallowed decline declined reject rejected reject_once
    refuse refused cancel cancelled canceled disapprove disapproved disagree forbid forbidden
    block blocked abort aborted stop dismiss dismissed false never do_not dont don't
""")
_NEUTRAL = _words("selected submitted resolved")
"""Words that state that there is an answer, but not which."""
_GRANTS = _words("""
    approve approved allow allowed accept accepted confirm confirmed grant granted permit
    permitted agree agreed
""")
_REFUSALS = _words("""
    deny denied decline declined reject rejected refuse refused cancel cancelled canceled
    disallow disallowed
""")
_WORDS = _words("""
    decision verdict action answer response outcome choice value result content payload status
    option optionid
""")
_VERDICTS = _words("decision verdict action outcome")
"""The fields of `_WORDS` that mean a yes or no even if the payload may be data."""
_EDITS = _words("editedargs editedarguments arguments args")
_CHANGES = _words("remember editedargs")
"""Fields that accompany a yes, or an action that is sufficient by itself."""
_DEPTH_MAX = 3
_NO_CHOICES: Mapping[str, bool] = {}


class _Unclear(Exception):
    """The payload is neither a yes nor a no; the message says why."""


def read_decision(ticket: Ticket, given: ToolCallResume) -> ToolCallResume:
    """Normalize a decision: a payload that says no makes it a cancel, whatever its action was.

    Idempotent. An unknown action is refused later, when the decision is checked.

    Raises:
        InvalidDecision: It is not a clear answer to the ticket's question.
    """
    is_cancel = given.action == DecisionAction.CANCEL
    kind = ticket.question_kind_for(given)
    choices = ticket.suspension.choices or _NO_CHOICES
    if is_cancel:
        if kind is Asks.PERMISSION and _try_verdict(given.result, choices) is True:
            problem = "its action declines and its payload approves"
            raise InvalidDecision(what=_name_decision(ticket), problem=problem)
        return _build_refusal(given, choices)
    if given.action != DecisionAction.RESUME or kind is Asks.ANSWER:
        return given
    is_open = kind is Asks.EITHER
    try:
        verdict = read_verdict(_verdict_fields(given.result) if is_open else given.result, choices)
    except _Unclear as error:
        if is_open and not _has_verdict(given.result):
            return given
        problem = f"{error}; say yes or no, for example {{'approved': false}}"
        raise InvalidDecision(what=_name_decision(ticket), problem=problem) from None
    if not is_open and verdict is not False:
        _check_payload(ticket, given, has_said=verdict is not None)
    if verdict is False:
        return _build_refusal(
            msgspec.structs.replace(given, action=DecisionAction.CANCEL, arguments=None), choices
        )
    return given


def _check_payload(ticket: Ticket, given: ToolCallResume, *, has_said: bool) -> None:
    """Refuse a payload without a yes or no, and one with edits that were not read as edits.

    Raises:
        InvalidDecision: The call would run differently from what the decider said.
    """
    payload = given.result
    fields = payload if isinstance(payload, dict) else {}
    edits = [it for name, it in fields.items() if _fold_key(name) in _EDITS and it is not None]
    if given.arguments is None and any(it != ticket.arguments for it in edits):
        problem = "its payload has arguments that are not read there; send them as edited ones"
        raise InvalidDecision(what=_name_decision(ticket), problem=problem)
    is_changed = given.arguments is not None or given.remember is not None
    if is_changed and {_fold_key(name) for name in fields} <= _CHANGES | {"reason"}:
        return
    if not has_said and payload not in (None, {}):
        problem = f"it says neither yes nor no ({_shorten(payload)})"
        raise InvalidDecision(what=_name_decision(ticket), problem=problem)


def read_text(text: str) -> bool | None:
    """Whether a word that a person typed is a yes or a no; None when it is neither."""
    word = _fold_word(text)
    if word in YES:
        return True
    return False if word in NO else None


def read_verdict(payload: Any, choices: Mapping[str, bool] = _NO_CHOICES) -> bool | None:
    """Read a payload as yes (True), no (False), or neither stated (None).

    Raises:
        _Unclear: It states something else, or both.
    """
    verdicts = {verdict for verdict in _read_statements(payload, choices, 0) if verdict is not None}
    if len(verdicts) > 1:
        problem = "it says both yes and no"
        raise _Unclear(problem)
    return next(iter(verdicts), None)


def _try_verdict(payload: Any, choices: Mapping[str, bool]) -> bool | None:
    try:
        return read_verdict(payload, choices)
    except _Unclear:
        return None


def _read_statements(
    payload: Any, choices: Mapping[str, bool], depth: int
) -> Iterator[bool | None]:
    match payload:
        case None:
            return
        case bool():
            yield payload
        case str() if payload in choices:
            yield choices[payload]
        case str():
            yield _read_word(payload)
        case dict() if depth < _DEPTH_MAX:
            yield from _read_fields(payload, choices, depth)
        case _:
            problem = f"{_shorten(payload)} is neither a yes nor a no"
            raise _Unclear(problem)


def _read_word(text: str) -> bool | None:
    verdict = read_text(text)
    if verdict is None and _fold_word(text) not in _NEUTRAL:
        problem = f"{_shorten(text)} is neither a yes nor a no"
        raise _Unclear(problem)
    return verdict


def _read_fields(
    payload: dict[str, Any], choices: Mapping[str, bool], depth: int
) -> Iterator[bool | None]:
    is_clear = not payload
    for name, value in payload.items():
        key = _fold_key(name)
        if key in _GRANTS or key in _REFUSALS:
            (verdict,) = tuple(_read_statements(value, _NO_CHOICES, _DEPTH_MAX)) or (None,)
            if verdict is None:
                problem = f"'{name}' must be true or false"
                raise _Unclear(problem)
            yield verdict if key in _GRANTS else not verdict
            is_clear = True
        elif key in _WORDS:
            yield from _read_statements(value, choices, depth + 1)
            is_clear = True
        elif key in _CHANGES:
            is_clear = True
    if not is_clear:
        problem = f"it has neither 'approved' nor anything else that says so ({_shorten(payload)})"
        raise _Unclear(problem)


def _verdict_fields(payload: Any) -> Any:
    """The fields of a payload that can state a yes or no; other data is left out."""
    if not isinstance(payload, dict):
        return payload
    meant = _GRANTS | _REFUSALS | _VERDICTS
    return {name: value for name, value in payload.items() if _fold_key(name) in meant}


def _has_verdict(payload: Any) -> bool:
    """Whether an unreadable payload is meant as a yes or no, and so is not data."""
    if not isinstance(payload, dict):
        return False
    return any(_fold_key(name) in _GRANTS or _fold_key(name) in _REFUSALS for name in payload)


def _build_refusal(given: ToolCallResume, choices: Mapping[str, bool]) -> ToolCallResume:
    """Build a refusal: its payload keeps only the reason for the model and the chosen option."""
    payload, reason = given.result, given.reason
    if isinstance(payload, dict):
        text = payload.get("reason")
        reason = reason or (text if isinstance(text, str) and text.strip() else None)
        is_verdict = _has_verdict(payload) or any(_fold_key(name) in _WORDS for name in payload)
        named = payload.get("option_id") or payload.get("optionId")
        kept = {"option_id": named} if isinstance(named, str) and named in choices else None
        if kept is not None or is_verdict or payload.keys() <= {"reason"}:
            payload = kept
    elif isinstance(payload, str) and payload not in choices:
        reason = reason or (payload if read_text(payload) is None and payload.strip() else None)
        payload = None
    elif isinstance(payload, bool):
        payload = None
    return msgspec.structs.replace(given, result=payload, reason=reason)


def _fold_word(text: str) -> str:
    spelled = unicodedata.normalize("NFKC", text).strip().strip("\"'`.!").strip()
    return "_".join(spelled.replace("-", " ").replace("_", " ").casefold().split())


def _fold_key(name: object) -> str:
    key = str(name).replace("_", "").replace("-", "").casefold()
    return key.removeprefix("is") if key not in _WORDS else key


def _name_decision(ticket: Ticket) -> str:
    return f"The decision on ticket '{ticket.ticket_id}'"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
