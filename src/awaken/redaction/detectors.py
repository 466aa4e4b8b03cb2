"""What secrets and personal data look like."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import re2

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record

PATTERN_CHARS_MAX = 512
SECRETS = "secrets"
_BETWEEN = " -.()"
"""What may stand between the digits of a number."""
PERSONAL = "pii"


class Finding(Record, frozen=True, kw_only=True):
    """Where in a text something was found, and what kind of thing; never the thing itself."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of thing."""

    kind: str
    expression: Any
    is_real: Callable[[str], bool] | None = None
    """Tells a real one from what only looks like it."""

    def find(self, text: str) -> Iterator[Finding]:
        """Every place where it is; overlapping ones once."""
        for match in self.expression.finditer(text):
            start, end = match.span()
            if self.is_real is not None:
                end = start + _real_length(match.group(), self.is_real)
            if end > start:
                yield Finding(kind=self.kind, start=start, end=end)


def _real_length(text: str, is_real: Callable[[str], bool]) -> int:
    """How much of a text is a real one: numbers that follow it may have been taken for its end."""
    while text and not is_real(text):
        text = text[: max(0, *map(text.rfind, _BETWEEN))]
    return len(text)


def custom_detector(kind: str, pattern: str) -> Detector:
    """A detector of what an RE2 expression finds.

    Raises:
        InvalidSpec: The expression is too long, not RE2, or finds nothing at all places.
    """
    what = f"The pattern of '{kind}'"
    if len(pattern) > PATTERN_CHARS_MAX:
        raise InvalidSpec(what=what, problem=f"it is longer than {PATTERN_CHARS_MAX} characters")
    try:
        expression = re2.compile(pattern, _options())
    except re2.error as error:
        raise InvalidSpec(what=what, problem=f"it is no RE2 expression: {error}") from error
    if expression.search("") is not None:
        raise InvalidSpec(what=what, problem="it matches the empty text")
    return Detector(kind, expression)


def detectors_named(names: Iterable[str]) -> tuple[Detector, ...]:
    """Detectors by their kinds; `secrets` and `pii` stand for all of a group.

    Raises:
        InvalidSpec: There is none of that name.
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


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _passes_luhn(text: str) -> bool:
    digits = [int(it) for it in text if it.isdigit()]
    doubled = [it * 2 - 9 if it > 4 else it * 2 for it in digits[-2::-2]]
    return 13 <= len(digits) <= 19 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _passes_iban(text: str) -> bool:
    letters = "".join(text.split()).upper()
    turned = letters[4:] + letters[:4]
    return 15 <= len(letters) <= 34 and int("".join(str(int(it, 36)) for it in turned)) % 97 == 1


def _is_phone(text: str) -> bool:
    return 8 <= sum(it.isdigit() for it in text) <= 15


_Found = tuple[str, str, Callable[[str], bool] | None]
_KNOWN: tuple[_Found, ...] = (
    ("secrets.private_key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", None),  # noqa: E501
    ("secrets.aws_key", r"(?:\b|_)(?:AKIA|ASIA)[0-9A-Z]{16}(?:\b|_)", None),
    ("secrets.github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})", None),  # noqa: E501
    ("secrets.slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}", None),
    ("secrets.model_key", r"\b(?:sk|rk)-(?:[A-Za-z0-9_-]+-)?[A-Za-z0-9_-]{20,250}", None),
    ("secrets.stripe_key", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,250}", None),
    ("secrets.google_key", r"\bAIza[0-9A-Za-z_-]{35}", None),
    ("secrets.web_token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", None),
    ("secrets.bearer", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*", None),
    ("secrets.url_password", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,200}:[^\s/@]{1,200}@", None),
    ("secrets.assigned", r"""(?i)(?:\b|_)(?:password|passwd|secret|api[_-]?key|access[_-]?token)\b["']?\s*[:=]\s*["']?[^\s"',;]{6,200}["']?""", None),  # noqa: E501
    ("pii.email", r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,24}\b", None),
    ("pii.iban", r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{2,4}){3,8}\b", _passes_iban),
    ("pii.card", r"\b[0-9](?:[ -]?[0-9]){12,18}\b", _passes_luhn),
    ("pii.ssn", r"\b(?:00[1-9]|0[1-9][0-9]|[1-578][0-9]{2}|6[0-57-9][0-9]|66[0-57-9])-[0-9]{2}-[0-9]{4}\b", None),  # noqa: E501
    ("pii.phone", r"\+[1-9][0-9 ().-]{6,20}[0-9]\b", _is_phone),
)  # fmt: skip

DETECTORS = {kind: Detector(kind, re2.compile(text), real) for kind, text, real in _KNOWN}
