"""Detectors of secrets and personal data."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import re2

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.identity import GENERATED_ID
from awaken.contracts.record import Record

PATTERN_CHARS_MAX = 512
ID_CHARS = 36
"""The length of an id that the runtime makes."""
MATCHES_MAX = 2_000
"""How many matches in one text a detector checks; after them, the rest counts as found."""
SECRETS = "secrets"
_NAMED = "(?:password|passwd|secret|api[_-]?key|access[_-]?token)"
_QUOTED = re2.compile(r"\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]")
_ENDLESS = re2.compile(r"[*+]|\{[0-9]+,\}")
_BETWEEN = " -.()"
"""Separators that may occur between the digits of a number."""
PERSONAL = "pii"
_DIGITS = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
"""The values of digits, plain and doubled as in the Luhn algorithm."""


_IBAN_DIGITS = {ord(it): str(int(it, 36)) for it in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class Finding(Record, frozen=True, kw_only=True):
    """The position and the kind of a match; never the matched text itself."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of secret or personal data."""

    kind: str
    expression: Any
    is_real: Callable[[str], bool] | None = None
    """Distinguishes a real value from a text that only looks like one."""
    partial: Any = None
    """Matches the end of a text that more text could complete to a match."""
    longest: int | None = None
    """The maximum length of a match; without it and `partial` only whole texts are searched."""
    sizes: tuple[int, int] = (0, 0)
    """The minimum and maximum length of a real value, without separators."""
    head: Callable[[str], bool] | None = None
    """Checks the first four characters, to rule out texts early."""
    needs: tuple[str, ...] = ()
    """Every match contains one of these texts; without any of them nothing is searched."""

    def find(self, text: str, at: int = 0) -> Iterator[Finding]:
        """Find every real value from a position on; overlapping ones once.

        After `MATCHES_MAX` candidates, the rest of the text counts as found.
        """
        if self.needs and not any(it in text for it in self.needs):
            return
        for number, (first, last) in enumerate(self.spans(text, at)):
            if number == MATCHES_MAX:
                yield Finding(kind=self.kind, start=first, end=len(text))
                return
            for start, end in self._real_ones(text, first, last):
                if end > start and not self._is_in_id(text, start, end):
                    yield Finding(kind=self.kind, start=start, end=end)

    def spans(self, text: str, at: int = 0) -> Iterator[tuple[int, int]]:
        """The span of every candidate, real or not."""
        return (match.span() for match in self.expression.finditer(text, at))

    def _real_ones(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The real values in a candidate: other numbers may precede and follow them."""
        if self.is_real is None:
            yield start, end
            return
        breaks = [*(it for it in range(start, end) if text[it] in _BETWEEN), end]
        for index, first in enumerate((start, *(it + 1 for it in breaks[:-1]))):
            if not self.begins(text, first):
                continue
            last = self._real_end(text, first, breaks[index:]) if first >= start else None
            if last is not None:
                yield first, last
                start = last + 1

    def _is_in_id(self, text: str, start: int, end: int) -> bool:
        """Whether digits that pass for a card are the end of an id that the runtime made."""
        if self.is_real is not _passes_luhn:
            return False
        before = max(0, start - ID_CHARS)
        found = GENERATED_ID.finditer(text, before, end + ID_CHARS)
        return any(it.start() < start and end <= it.end() for it in found)

    def _real_end(self, text: str, first: int, ends: list[int]) -> int | None:
        """The end of the longest real value that begins here, or None.

        The candidate may include numbers that only follow the value.
        """
        assert self.is_real is not None
        shortest, longest = self.sizes
        for between in range(len(ends) - 1, -1, -1):
            last = ends[between]
            size = last - first - between
            if size < shortest:
                return None
            if size <= longest and self.is_real(text[first:last]):
                is_whole = self.expression.fullmatch(text[first:last]) is not None
                return last if is_whole else None
        return None

    def begins(self, text: str, place: int) -> bool:
        """Whether a real value may begin there."""
        return self.head is None or self.head(text[place : place + 4])

    @property
    def can_stream(self) -> bool:
        """Whether it can search a text that is still incomplete."""
        return self.partial is not None or self.longest is not None

    def find_opening(self, text: str, at: int = 0) -> int:
        """The position from which more text could complete a match; the length if there is none."""
        if self.partial is None:
            return max(at, len(text) - (self.longest or len(text)))
        match = self.partial.search(text, at)
        return len(text) if match is None else int(match.start())


def build_detector(kind: str, pattern: str, longest: int | None = None) -> Detector:
    """Build a detector from an RE2 expression; `longest` is the maximum length of a match.

    Raises:
        InvalidSpec: The expression is too long, not RE2, or matches the empty text.
    """
    what = f"The pattern of '{kind}'"
    if len(pattern) > PATTERN_CHARS_MAX:
        raise InvalidSpec(what=what, problem=f"it is longer than {PATTERN_CHARS_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise InvalidSpec(what=what, problem=f"it is not an RE2 expression: {reason}") from error
    if expression.search("") is not None:
        raise InvalidSpec(what=what, problem="it matches the empty text")
    if longest is not None and _ENDLESS.search(_QUOTED.sub("", pattern)) is not None:
        problem = f"it may find more than {longest} characters; write {{0,n}} instead of * and +"
        raise InvalidSpec(what=what, problem=problem)
    return Detector(kind, expression, longest=longest)


def select_detectors(names: Iterable[str]) -> tuple[Detector, ...]:
    """Select detectors by kind; `secrets` and `pii` select a whole group.

    Raises:
        InvalidSpec: There is no detector with that name.
    """
    found: dict[str, Detector] = {}
    for name in names:
        chosen = {
            kind: it
            for kind, it in DETECTORS.items()
            if name == kind or kind.startswith(f"{name}.")
        }
        if not chosen:
            known = ", ".join((SECRETS, PERSONAL, *DETECTORS))
            raise InvalidSpec(what=f"The detector '{name}'", problem=f"known ones: {known}")
        found |= chosen
    return tuple(found.values())


def _passes_luhn(text: str) -> bool:
    digits = text.encode().translate(None, b" -")
    odd, even = digits[-1::-2].translate(_DIGITS), digits[-2::-2].translate(_DOUBLED)
    return (sum(odd) + sum(even)) % 10 == 0


def _passes_iban(text: str) -> bool:
    letters = text.upper().replace(" ", "")
    return int((letters[4:] + letters[:4]).translate(_IBAN_DIGITS)) % 97 == 1


def _is_iban_head(text: str) -> bool:
    return text[:2].isalpha() and text[2:].isdigit()


def _is_phone(text: str) -> bool:
    return text[-1].isdigit()


@dataclass(frozen=True, slots=True)
class _Real:
    """The check of real values, and their length."""

    test: Callable[[str], bool]
    sizes: tuple[int, int]
    head: Callable[[str], bool] | None = None


_Found = tuple[str, str, str, _Real | None]
_KNOWN: tuple[_Found, ...] = (
    # The kind, the expression, the expression of a partial match, the check of real values.
    ("secrets.private_key",
     r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
     r"-{1,4}|-----[A-Z ]*-{0,5}", None),
    ("secrets.aws_key",
     r"(?:\b|_)(?:AKIA|ASIA)[0-9A-Z]{16}(?:\b|_)",
     r"(?:\b|_)(?:A[A-Z]{0,2}|(?:AKIA|ASIA)[0-9A-Z]{0,16}_?)|_", None),
    ("secrets.github_token",
     r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
     r"\b(?:g[a-z_]{0,10}|gh[pousr]_[A-Za-z0-9]{0,255}|github_pat_[A-Za-z0-9_]{0,255})", None),
    ("secrets.slack_token",
     r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}",
     r"\bx(?:o(?:x(?:[abeoprs](?:-[A-Za-z0-9-]{0,250})?)?)?)?", None),
    ("secrets.model_key",
     r"\b(?:sk|rk)-[A-Za-z0-9_-]{20,}",
     r"\b[sr](?:k(?:-[A-Za-z0-9_-]*)?)?", None),
    ("secrets.stripe_key",
     r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,250}",
     r"\b[rsp](?:k(?:_(?:[a-z]{0,4}|(?:live|test)_[A-Za-z0-9]{0,250}))?)?", None),
    ("secrets.google_key",
     r"\bAIza[0-9A-Za-z_-]{35}",
     r"\bA(?:I(?:z(?:a[0-9A-Za-z_-]{0,35})?)?)?", None),
    ("secrets.web_token",
     r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
     r"\be(?:y(?:J[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*){0,2})?)?", None),
    ("secrets.bearer",
     r"(?i:\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*)",
     r"(?i:\b(?:b[a-z]{0,5}|bearer\s+[A-Za-z0-9._~+/-]*=*))", None),
    ("secrets.url_password",
     r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,200}:[^\s/@]{1,200}@",
     r"\b[a-z][a-z0-9+.-]{0,20}(?::(?:/(?:/[^\s/:@]{0,200}(?::[^\s/@]{0,200}@?)?)?)?)?", None),
    ("secrets.assigned",
     rf"""(?i:(?:\b|_){_NAMED}\b["']?\s*[:=]\s*["']?[^\s"',;]{{6,200}}["']?)""",
     rf"""(?i:(?:\b|_)(?:[psa][a-z_-]{{0,11}}|{_NAMED}["']?\s*(?:[:=]\s*["']?[^\s"',;]{{0,200}}["']?)?)|_)""", None),  # noqa: E501
    ("pii.email",
     r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,24}\b",
     r"[A-Za-z0-9._%+-]{1,64}(?:@[A-Za-z0-9.-]{0,278})?", None),
    ("pii.iban",
     r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{2,4}){3,8}\b",
     r"\b[A-Z](?:[A-Z](?:[0-9](?:[0-9](?: ?[A-Z0-9]{1,4}){0,8} ?)?)?)?",
     _Real(_passes_iban, (15, 34), _is_iban_head)),
    ("pii.card",
     # Longer than any card: numbers before a card must not cut it off.
     r"\b[0-9](?:[ -]?[0-9]){12,30}\b",
     r"\b[0-9](?:[ -]?[0-9]){0,30}[ -]?",
     _Real(_passes_luhn, (13, 19))),
    ("pii.ssn",
     r"\b(?:00[1-9]|0[1-9][0-9]|[1-578][0-9]{2}|6[0-57-9][0-9]|66[0-57-9])-[0-9]{2}-[0-9]{4}\b",
     r"\b[0-9]{1,3}(?:-[0-9]{0,2}(?:-[0-9]{0,4})?)?", None),
    ("pii.phone",
     r"\+[1-9][0-9 ().-]{6,20}[0-9]\b",
     r"\+(?:[1-9][0-9 ().-]{0,21})?",
     # The sizes include the plus sign.
     _Real(_is_phone, (9, 16))),
)  # fmt: skip

_NEEDS: dict[str, tuple[str, ...]] = {
    "secrets.private_key": ("-----BEGIN ",),
    "secrets.aws_key": ("AKIA", "ASIA"),
    "secrets.github_token": ("gh", "github_pat_"),
    "secrets.slack_token": ("xox",),
    "secrets.model_key": ("sk-", "rk-"),
    "secrets.stripe_key": ("k_live_", "k_test_"),
    "secrets.google_key": ("AIza",),
    "secrets.web_token": ("eyJ",),
    "secrets.url_password": ("://",),
    "pii.email": ("@",),
    "pii.ssn": ("-",),
    "pii.phone": ("+",),
}

DETECTORS = {
    kind: Detector(
        kind,
        re2.compile(text),
        real.test if real else None,
        re2.compile(rf"(?:{partial})\z"),
        sizes=real.sizes if real else (0, 0),
        head=real.head if real else None,
        needs=_NEEDS.get(kind, ()),
    )
    for kind, text, partial, real in _KNOWN
}
