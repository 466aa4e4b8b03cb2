"""What all importers make: cases with unique ids, scorers, and what is left out."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.messages.message import Message, Role, assistant, system, user
from awaken.contracts.record import Record
from awaken.evals.case_checks import CASE_BYTES_MAX, NAMES_MAX, encode_case
from awaken.evals.dataset_writes import CASES_MAX

TOTAL_BYTES_MAX = 64 * 1024 * 1024
"""How much the cases of a file may have together: parts that a file says once are in each of them.
"""
TEXT_CHARS_MAX = CASE_BYTES_MAX
"""How long a text may become whose placeholders are filled."""
LEFT_OUT_MAX = 1_000
LISTED_MAX = 10
"""How many of them a refusal lists."""
_NO_ID = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_ID_CHARS_MAX = 100


class ImportedCases(Record, frozen=True, kw_only=True):
    """What was read: cases, scorers for all of them, and what could not be carried over."""

    description: str = ""
    cases: tuple[Case, ...] = ()
    scorers: tuple[ScorerSpec, ...] = ()
    left_out: tuple[str, ...] = ()


@contextmanager
def tell_left_out(left_out: Sequence[str]) -> Iterator[None]:
    """Let a refusal of imported cases say what they lack: what could not be carried over.

    Raises:
        InvalidDataset: What is done inside raises it.
    """
    try:
        yield
    except InvalidDataset as error:
        if not left_out:
            raise
        more = f", and {len(left_out) - LISTED_MAX} more" if len(left_out) > LISTED_MAX else ""
        listed = "; ".join(left_out[:LISTED_MAX]) + more
        problem = f"{error.problem}. Not carried over: {listed}"
        raise InvalidDataset(what=error.what, problem=problem) from error


class ImportDraft:
    """Collects cases while a file is read."""

    def __init__(self) -> None:
        self.description = ""
        self.scorers: list[ScorerSpec] = []
        self._cases: dict[str, Case] = {}
        self._bytes = 0
        self._numbers: dict[str, int] = {}
        """The last number behind an id that several cases wanted."""
        self._left_out: list[str] = []

    def leave_out(self, where: str, what: str) -> None:
        """Note what is not carried over."""
        if len(self._left_out) < LEFT_OUT_MAX:
            self._left_out.append(f"{where}: {what}")
        elif len(self._left_out) == LEFT_OUT_MAX:
            self._left_out.append("and more")

    def leave_fields_out(self, where: str, fields: dict[str, Any], known: Iterable[str]) -> None:
        """Note the fields that have a value and are not known."""
        for name in sorted(fields.keys() - set(known)):
            if fields[name] not in (None, "", [], {}):
                self.leave_out(where, f"field '{name}'")

    def add(self, name: str, number: int, **fields: Any) -> None:
        """Add a case under an id that is made of its name.

        Raises:
            InvalidDataset: It is no case, or there are too many, or too much of them.
        """
        case_id = self._choose_id(name, number)
        try:
            # Converted: a struct that is made directly takes values of any type.
            made = msgspec.to_builtins(Case(id=case_id, **fields))
            case = msgspec.convert(made, Case)
        except (AwakenError, TypeError, ValueError, RecursionError) as error:
            raise InvalidDataset(what=f"case {number}", problem=str(error).rstrip(".")) from error
        self._keep(case)

    def add_whole(self, case: Case) -> None:
        """Add a case as it is.

        Raises:
            InvalidDataset: Its id was used before, or there are too many, or too much of them.
        """
        if case.id in self._cases:
            raise InvalidDataset(what=f"case '{case.id}'", problem="its id is given twice")
        self._keep(case)

    def _keep(self, case: Case) -> None:
        """Keep a case; the next one is not even made if there are too many."""
        if len(self._cases) >= CASES_MAX:
            problem = f"it has more than {CASES_MAX} cases; split it into several datasets"
            raise InvalidDataset(what="the file", problem=problem)
        self._bytes += len(encode_case(case)[1])
        if self._bytes > TOTAL_BYTES_MAX:
            problem = f"its cases have more than {TOTAL_BYTES_MAX} bytes together; split it"
            raise InvalidDataset(what="the file", problem=problem)
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
        case_id, count = base, self._numbers.get(base, 1)
        while case_id in self._cases:
            count += 1
            case_id = f"{base}-{count}"
        self._numbers[base] = count
        if case_id != base:
            self.leave_out(f"case {number}", f"its id '{base}', which is taken: it is '{case_id}'")
        return case_id


class ScorerList:
    """Collects the scorers of a case or a dataset; equal names are numbered."""

    def __init__(self) -> None:
        self.specs: list[ScorerSpec] = []

    def add(self, scorer: str, threshold: float = 0.5, **options: Any) -> None:
        """Add a scorer.

        Raises:
            InvalidDataset: There are more than a case may have.
        """
        if len(self.specs) >= NAMES_MAX:
            problem = f"at most {NAMES_MAX} scorers are allowed"
            raise InvalidDataset(what="a case", problem=problem)
        count = sum(it.scorer == scorer for it in self.specs) + 1
        name = "" if count == 1 else f"{scorer}.{count}"
        self.specs.append(
            ScorerSpec(scorer=scorer, name=name, options=options, threshold=threshold)
        )


def as_text(value: Any) -> str:
    """Return an input as text: texts as they are, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def fill_text(text: str, placeholder: re.Pattern[str], read: Callable[[re.Match[str]], str]) -> str:
    """Return a text with its placeholders filled.

    Raises:
        InvalidDataset: It becomes longer than a case may be, as a text that names a long one often.
    """
    length = len(text)

    def replace(found: re.Match[str]) -> str:
        nonlocal length
        value = read(found)
        length += len(value)
        if length > TEXT_CHARS_MAX:
            problem = f"it becomes longer than {TEXT_CHARS_MAX} characters when it is filled"
            raise InvalidDataset(what=f"text '{text:.40}'", problem=problem)
        return value

    return placeholder.sub(replace, text)


def read_threshold(value: Any, what: str) -> float:
    """Return a threshold.

    Raises:
        InvalidDataset: It is no number from 0 to 1.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise InvalidDataset(what=what, problem=f"its threshold {value!r:.40} is not 0 to 1")


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
