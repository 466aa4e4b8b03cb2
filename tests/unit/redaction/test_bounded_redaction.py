"""Detectors do a bounded amount of work on any text; what they did not look at counts as found."""

import itertools
import random
from typing import Any
from unittest.mock import patch

import pytest

from awaken.redaction.detectors import DETECTORS, MATCHES_MAX, Detector
from awaken.redaction.replacement import (
    CHARS_MAX,
    FOLDED_CHARS_MAX,
    TEXTS_MAX,
    UNCHECKED,
    find_all,
    fold_text,
    redact_text,
    redact_value,
)

from .test_redaction import FOUND

PIECES = (
    *(
        "4",
        "4 ",
        "4-",
        "4111 ",
        "4111 1111 1111 1112 ",
        "GB82",
        "GB82 WE ",
        "AB12 CD34 ",
        "+1 (2) ",
    ),
    *("GB82 WEST 1234 5698 7654 33 ", "a@b.co ", "a.b@c.", "eyJaaaaaaaa.", "-----BEGIN ", "sk-aa-"),
    *("bearer ", "password=", "AKIAABCDEFGHIJKLMNOP ", "http://a:b@", "123-45-6789 ", "_", "xoxb-"),
    *("4\u200b", "\uff14", "\ufdfa", "e\u0301", "+49 170 1234567 ", "ghp_", "sk_live_", "AIza"),
)


@pytest.mark.parametrize("piece", PIECES)
def test_a_flood_is_looked_at_so_often_and_no_more(piece: str) -> None:
    looks: dict[str, int] = {}

    def counted(self: Detector, text: str, start: int, end: int) -> Any:
        looks[self.kind] = looks.get(self.kind, 0) + 1
        return real(self, text, start, end)

    real = Detector._real_ones
    with patch.object(Detector, "_real_ones", counted):
        find_all(piece * (300_000 // len(piece)))
    # Once as it is written and once as it is read.
    assert max(looks.values(), default=0) <= 2 * MATCHES_MAX


def test_after_too_many_the_rest_is_taken_out() -> None:
    mails = " ".join(["a@b.co"] * (MATCHES_MAX + 50))
    shown = redact_text(f"{mails} and the rest")
    assert shown == " ".join(["[pii.email]"] * (MATCHES_MAX + 1))
    assert redact_text(" ".join(["a@b.co"] * MATCHES_MAX) + " end").endswith("] end")


@pytest.mark.parametrize(
    ("piece", "limit"), [("word ", CHARS_MAX), ("\uff41\uff42 ", FOLDED_CHARS_MAX)]
)
def test_of_a_text_that_is_too_long_the_rest_is_taken_out(piece: str, limit: int) -> None:
    text = piece * (limit // len(piece))
    assert redact_text(text) == text
    whole = text + "x" * (limit - len(text)) + " AKIAABCDEFGHIJKLMNOP and more"
    shown = redact_text(whole)
    assert shown.endswith(f"[{UNCHECKED}]")
    assert "AKIA" not in shown
    assert redact_text("\ufdfa" * FOLDED_CHARS_MAX) == f"[{UNCHECKED}]"


@pytest.mark.parametrize("text", FOUND)
def test_what_is_skipped_for_lack_of_a_sign_is_never_one(text: str) -> None:
    detector = DETECTORS[FOUND[text]]
    assert not detector.needs or any(sign in text for sign in detector.needs)


def test_no_match_lacks_a_sign() -> None:
    pieces = ("-----BEGIN ", "PRIVATE KEY-----", "AKIA", "ASIA", "ghp_", "github_pat_", "xoxb-",
              "sk-", "rk-", "sk_", "live_", "AIza", "eyJ", ".", "://", "a", ":", "@", "1", "-",
              "A1b2C3d4E5f6G7h8I9", "+1", "b.co", " ", "123-45-6789")  # fmt: skip
    picks = random.Random(3)
    for _ in range(3000):
        text = "".join(picks.choices(pieces, k=8))
        for it in DETECTORS.values():
            if it.needs and next(iter(it.spans(text)), None) is not None:
                assert any(sign in text for sign in it.needs), (it.kind, text)


def test_a_value_without_secrets_is_looked_at_as_a_whole() -> None:
    value = {"rows": [{"name": f"n{n}", "note": "nothing"} for n in range(5000)]}
    calls = itertools.count()
    real = Detector.find

    def counted(self: Detector, text: str, at: int = 0) -> Any:
        next(calls)
        return real(self, text, at)

    with patch.object(Detector, "find", counted):
        assert redact_value(value) is value
    assert next(calls) <= 2 * len(DETECTORS)


def test_in_a_value_with_a_secret_so_many_texts_are_looked_at() -> None:
    mail = "a@b.co"
    shown = redact_value([mail, *["fine"] * (TEXTS_MAX + 10), mail])
    assert shown[0] == "[pii.email]"
    assert shown[1 : TEXTS_MAX - 1] == ["fine"] * (TEXTS_MAX - 2)
    assert shown[-1] == f"[{UNCHECKED}]"
    assert 5 not in redact_value({"list": ["fine"] * 3000, "api_token": 5}).values()


def test_a_text_is_read_as_before() -> None:
    for text in ("é\u0301x", "\uff14\u200b1", "\ufb01n", "plain", ""):
        plain, places = fold_text(text)
        assert len(plain) == len(places)
        assert all(0 <= it < len(text) for it in places)
    assert fold_text("\ufb01\u200bn") == ("fin", [0, 0, 2])
