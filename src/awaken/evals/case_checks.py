"""What a case must be before it enters a dataset: scored, without secrets, of a bounded size."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from awaken.contracts.config.publications import encode_canonical, hash_object
from awaken.contracts.errors import InvalidRecord
from awaken.contracts.evals.cases import Case, CaseStatus
from awaken.contracts.evals.errors import InvalidDataset, InvalidScorer
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.store import encode_eval_object
from awaken.contracts.messages.message import Message
from awaken.scoring import SCORERS

CASE_BYTES_MAX = 4 * 1024 * 1024
NAMES_MAX = 100
"""How many tags and scorers a case may have."""
DEPTH_MAX = 100
"""How deep the values of a case may be nested."""
_OWN_FIELDS = frozenset(
    {"id", "recording", "source_run_id", "source_thread_id", "source_user_id", "tenant_id"}
)
"""Ids and hashes, which are no text of people."""


def encode_case(case: Case) -> tuple[str, bytes]:
    """Return the hash and the bytes of a case.

    Raises:
        InvalidDataset: It is too large, nested too deep, or has no JSON form.
    """
    what = f"case '{case.id}'"
    try:
        name, body = encode_eval_object(case)
    except InvalidRecord as error:
        raise InvalidDataset(what=what, problem=str(error).rstrip(".")) from error
    if len(body) > CASE_BYTES_MAX:
        problem = f"it has {len(body)} bytes, and at most {CASE_BYTES_MAX} are kept"
        raise InvalidDataset(what=what, problem=problem)
    if _is_deep(body):
        problem = f"it is nested deeper than {DEPTH_MAX} levels"
        raise InvalidDataset(what=what, problem=problem)
    return name, body


def _is_deep(body: bytes) -> bool:
    """Whether a JSON document is nested deeper than a case may be."""
    if body.count(b"{") + body.count(b"[") <= DEPTH_MAX:
        return False
    level = [msgspec.json.decode(body)]
    for _ in range(DEPTH_MAX):
        parts = (it.values() if isinstance(it, dict) else it for it in level)
        level = [it for part in parts for it in part if isinstance(it, dict | list)]
        if not level:
            return False
    return True


def digest_input(case: Case) -> str:
    """Return a digest of what a run of the case is given; ids of messages do not count."""
    stubs = None if case.tools is None else msgspec.to_builtins(case.tools.stubs)
    given: dict[str, Any] = {
        "input": case.user_input if case.user_input is not None else _strip_ids(case.input),
        "history": _strip_ids(case.history),
        "state": case.state,
        "context": case.context,
        "turns": msgspec.to_builtins(case.continued_turns),
        "user": msgspec.to_builtins(case.user),
        "script": msgspec.to_builtins(case.provider_script),
        "stubs": stubs,
        "decisions": msgspec.to_builtins(case.decisions),
    }
    if case.user_input is None and not case.input and case.user is None:
        given["recording"] = case.recording
    return hash_object(encode_canonical(msgspec.to_builtins(given)))


def check_scored(case: Case, scorers: tuple[ScorerSpec, ...]) -> None:
    """Check that something will score a case.

    Raises:
        InvalidDataset: Neither the case nor its dataset has an expectation or a scorer.
    """
    is_scored = case.expect is not None or case.scorers or scorers
    if not is_scored and case.status is not CaseStatus.DRAFT:
        problem = (
            "it has no expectation and no scorer: give it `expect` or `scorers`, or give the "
            "dataset `scorers`"
        )
        raise InvalidDataset(what=f"case '{case.id}'", problem=problem)


def check_scorers(specs: Iterable[ScorerSpec], what: str) -> None:
    """Check that scorers exist and that their options fit; nothing is imported or asked.

    Raises:
        InvalidScorer: One does not.
        InvalidDataset: Two have one name, or there are too many.
    """
    names: set[str] = set()
    for spec in specs:
        kind = SCORERS.get(spec.scorer)
        if kind is None:
            problem = f"there is no such scorer ({what}); known: {', '.join(SCORERS)}"
            raise InvalidScorer(scorer=spec.scorer, problem=problem)
        if not 0 <= spec.threshold <= 1:
            problem = f"`threshold` must be 0 to 1 ({what})"
            raise InvalidScorer(scorer=spec.shown_name, problem=problem)
        try:
            msgspec.convert(spec.options, kind.options)
        except (msgspec.ValidationError, ValueError) as error:
            problem = f"{str(error).rstrip('.')} ({what})"
            raise InvalidScorer(scorer=spec.shown_name, problem=problem) from error
        if spec.shown_name in names:
            problem = f"two scorers have the name '{spec.shown_name}'"
            raise InvalidDataset(what=what, problem=problem)
        names.add(spec.shown_name)
    if len(names) > NAMES_MAX:
        raise InvalidDataset(what=what, problem=f"at most {NAMES_MAX} scorers are allowed")


def check_case(case: Case) -> None:
    """Check the parts of a case that enters a dataset.

    Raises:
        InvalidDataset: It has too many tags or scorers.
        InvalidScorer: One of its scorers does not exist or does not fit.
    """
    what = f"case '{case.id}'"
    check_scorers(case.scorers, what)
    if len(case.tags) > NAMES_MAX or any(not 0 < len(it) <= NAMES_MAX for it in case.tags):
        problem = f"at most {NAMES_MAX} tags, each of 1 to {NAMES_MAX} characters, are allowed"
        raise InvalidDataset(what=what, problem=problem)


def remove_secrets_of(case: Case, *, is_redacted: bool) -> Case:
    """Return a case without secrets: refused, or replaced if the caller wants that.

    Raises:
        InvalidDataset: It holds a secret; names the fields, never the secret.
    """
    # RE2 is loaded when the first case is written.
    from awaken.redaction.replacement import ALL_SECRETS, redact_value  # noqa: PLC0415

    document: dict[str, Any] = msgspec.to_builtins(case)
    given = {name: it for name, it in document.items() if name not in _OWN_FIELDS}
    clean = redact_value(given, ALL_SECRETS)
    if clean == given:
        return case
    if not is_redacted:
        fields = ", ".join(f"`{it}`" for it in given if clean.get(it) != given[it])
        problem = (
            f"{fields or 'a name of a field'} seems to hold a secret, or more text than is "
            "searched; remove it, or ask for redaction"
        )
        raise InvalidDataset(what=f"case '{case.id}'", problem=problem)
    return msgspec.convert(document | clean, Case)


def own_case(case: Case, tenant_id: str | None) -> Case:
    """Return a case as one of a tenant's."""
    return case if case.tenant_id == tenant_id else replace(case, tenant_id=tenant_id)


def _strip_ids(messages: tuple[Message, ...]) -> list[Any]:
    return [
        {"role": it.role, "content": it.content, "calls": it.tool_calls, "call": it.tool_call_id}
        for it in messages
    ]
