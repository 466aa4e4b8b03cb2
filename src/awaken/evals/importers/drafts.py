"""What all importers make: cases with unique ids, scorers, and what is left out."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.messages.message import Message, Role, assistant, system, user
from awaken.contracts.record import Record

LEFT_OUT_MAX = 1_000
_NO_ID = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_ID_CHARS_MAX = 100


class ImportedCases(Record, frozen=True, kw_only=True):
    """What was read: cases, scorers for all of them, and what could not be carried over."""

    description: str = ""
    cases: tuple[Case, ...] = ()
    scorers: tuple[ScorerSpec, ...] = ()
    left_out: tuple[str, ...] = ()


class ImportDraft:
    """Collects cases while a file is read."""

    def __init__(self) -> None:
        self.description = ""
        self.scorers: list[ScorerSpec] = []
        self._cases: dict[str, Case] = {}
        self._left_out: list[str] = []

    def leave_out(self, where: str, what: str) -> None:
        """Note what is not carried over."""
        if len(self._left_out) < LEFT_OUT_MAX:
            self._left_out.append(f"{where}: {what}")
        elif len(self._left_out) == LEFT_OUT_MAX:
            self._left_out.append("and more")

    def leave_fields_out(self, where: str, fields: dict[str, Any], known: Iterable[str]) -> None:
        """Note the fields that have a value and are not known."""
        for name in fields.keys() - set(known):
            if fields[name] not in (None, "", [], {}):
                self.leave_out(where, f"field '{name}'")

    def add(self, name: str, number: int, **fields: Any) -> None:
        """Add a case under an id that is made of its name.

        Raises:
            InvalidDataset: It is no case.
        """
        case_id = self._choose_id(name, number)
        try:
            self._cases[case_id] = Case(id=case_id, **fields)
        except (AwakenError, TypeError) as error:
            raise InvalidDataset(what=f"case {number}", problem=str(error).rstrip(".")) from error

    def add_whole(self, case: Case) -> None:
        """Add a case as it is.

        Raises:
            InvalidDataset: Its id was used before.
        """
        if case.id in self._cases:
            raise InvalidDataset(what=f"case '{case.id}'", problem="its id is given twice")
        self._cases[case.id] = case

    def finish(self) -> ImportedCases:
        """Return what was read."""
        return ImportedCases(
            description=self.description,
            cases=tuple(self._cases.values()),
            scorers=tuple(self.scorers),
            left_out=tuple(self._left_out),
        )

    def _choose_id(self, name: str, number: int) -> str:
        base = _NO_ID.sub("-", name).strip("-.")[:_ID_CHARS_MAX] or f"case-{number:04}"
        case_id, count = base, 1
        while case_id in self._cases:
            count += 1
            case_id = f"{base}-{count}"
        return case_id


class ScorerList:
    """Collects the scorers of a case or a dataset; equal names are numbered."""

    def __init__(self) -> None:
        self.specs: list[ScorerSpec] = []

    def add(self, scorer: str, threshold: float = 0.5, **options: Any) -> None:
        """Add a scorer."""
        count = sum(it.scorer == scorer for it in self.specs) + 1
        name = "" if count == 1 else f"{scorer}.{count}"
        self.specs.append(
            ScorerSpec(scorer=scorer, name=name, options=options, threshold=threshold)
        )


def as_text(value: Any) -> str:
    """Return an input as text: texts as they are, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def need_dict(value: Any, what: str) -> dict[str, Any]:
    """Return an object.

    Raises:
        InvalidDataset: It is none.
    """
    if not isinstance(value, dict) or not all(isinstance(it, str) for it in value):
        raise InvalidDataset(what=what, problem="an object with fields is expected here")
    return value


def need_list(value: Any, what: str) -> list[Any]:
    """Return a list; None is an empty one.

    Raises:
        InvalidDataset: It is none.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidDataset(what=what, problem="a list is expected here")
    return value


def read_chat(value: Any, what: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Read chat messages: the history, and the last ones of the user.

    Raises:
        InvalidDataset: They are no messages with texts, or the last one is not the user's.
    """
    makers: dict[str, Callable[[str], Message]] = {
        "user": user,
        "assistant": assistant,
        "system": system,
        "developer": system,
    }
    made: list[Message] = []
    for it in need_list(value, what):
        fields = need_dict(it, what)
        content, make = fields.get("content"), makers.get(str(fields.get("role")))
        if isinstance(content, list):
            parts = [need_dict(part, what).get("text") for part in content]
            content = "".join(map(str, parts)) if all(isinstance(p, str) for p in parts) else None
        if make is None or not isinstance(content, str):
            problem = "messages have a role (user, assistant, system) and a text as content"
            raise InvalidDataset(what=what, problem=problem)
        made.append(make(content))
    end = len(made)
    while end and made[end - 1].role is Role.USER:
        end -= 1
    if end == len(made):
        raise InvalidDataset(what=what, problem="the last message is not the user's")
    return tuple(made[:end]), tuple(made[end:])
