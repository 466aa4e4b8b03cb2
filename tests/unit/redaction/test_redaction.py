"""Secrets and personal data are found and taken out; what only looks like them stays."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import InvalidSpec
from awaken.redaction.detectors import build_detector, select_detectors
from awaken.redaction.replacement import redact_text, redact_value

FOUND = {
    "AKIAABCDEFGHIJKLMNOP": "secrets.aws_key",
    "ghp_" + "a1" * 18: "secrets.github_token",
    "github_pat_" + "a1" * 15: "secrets.github_token",
    "xoxb-1234567890-abcdef": "secrets.slack_token",
    "sk-proj-" + "a1B2" * 8: "secrets.model_key",
    "sk_live_" + "a1B2" * 6: "secrets.stripe_key",
    "AIza" + "a" * 35: "secrets.google_key",
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK": "secrets.web_token",
    "Bearer abcdefghijklmnop1234": "secrets.bearer",
    "postgres://user:pass@": "secrets.url_password",
    "password=hunter22": "secrets.assigned",
    'api_key: "abcdef123"': "secrets.assigned",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": "secrets.private_key",
    "-----BEGIN PRIVATE KEY-----\ncut off": "secrets.private_key",
    "bob.smith+x@mail.example.org": "pii.email",
    "4111 1111 1111 1111": "pii.card",
    "5500-0000-0000-0004": "pii.card",
    "DE89 3704 0044 0532 0130 00": "pii.iban",
    "GB82WEST12345698765432": "pii.iban",
    "123-45-6789": "pii.ssn",
    "+49 170 1234567": "pii.phone",
}
HARMLESS = [
    "4111 1111 1111 1112",
    "4111111111111112",
    "DE88 3704 0044 0532 0130 00",
    "000-45-6789",
    "666-45-6789",
    "a password is needed",
    "sk-short",
    "https://example.org/path@x",
    "1234567890123",
    "user@localhost",
    "AKIA-not-a-key",
]


@pytest.mark.parametrize(("text", "kind"), FOUND.items())
def test_it_is_found_in_the_middle_of_a_text(text: str, kind: str) -> None:
    assert redact_text(f"see {text} !") in (f"see [{kind}] !", f"see [{kind}]")
    assert text not in redact_text(f"see {text}")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact_text(f"see {text} .") == f"see {text} ."


def test_numbers_before_and_behind_a_number_do_not_hide_it() -> None:
    card = "4111 1111 1111 1111"
    assert redact_text(f"see 1 {card} .") == "see 1 [pii.card] ."
    assert redact_text(f"see 1234 07 {card} 2 .") == "see 1234 07 [pii.card] 2 ."
    assert redact_text("AB12 DE89 3704 0044 0532 0130 00") == "AB12 [pii.iban]"


def test_json_is_redacted_in_keys_values_and_by_the_names_of_fields() -> None:
    value = {"bob@example.org": [{"Password": "correct horse"}, "AKIAABCDEFGHIJKLMNOP", 5, None]}
    assert redact_value(value) == {
        "[pii.email]": [{"Password": "[secrets.assigned]"}, "[secrets.aws_key]", 5, None]
    }


def test_no_entry_is_lost_when_keys_become_the_same() -> None:
    value = {"a@b.example": 1, "c@d.example": 2, "[pii.email] 2": 3}
    assert sorted(redact_value(value).values()) == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "AKIA\u200bABCDEFGHIJKLMNOP",
        "\uff21\uff2b\uff29\uff21ABCDEFGHIJKLMNOP",
        "_AKIAABCDEFGHIJKLMNOP_",
        "bob\u200d@exa\u00admple.org",
        "user_password=hunter22",
    ],
)
def test_a_disguise_hides_nothing(text: str) -> None:
    shown = redact_text(f"see {text} é")
    assert "ABCDEFGHIJKLMNOP" not in shown
    assert "hunter22" not in shown
    assert "ple.org" not in shown
    assert shown.endswith(" é")


@pytest.mark.parametrize(
    "value",
    [
        {"password": ["hunter2"]},
        {"api_key": {"v": "hunter2"}},
        {"user_password": "hunter2"},
        {"auth-token": "hunter2"},
        {"credentials": {"a": [{"b": "hunter2"}]}},
    ],
)
def test_the_name_of_a_field_tells_of_everything_inside(value: Any) -> None:
    assert "hunter2" not in repr(redact_value(value))


def test_names_that_only_sound_like_secrets_and_empty_ones_stay() -> None:
    value = {"max_tokens": 5, "password": None, "secretary": "Ann", "has_password": True}
    assert redact_value(value) is value
    places = ("next_page_token", "page_token", "next-token", "continuation_token", "cursor")
    paging = dict.fromkeys((*places, "nextPageToken", "max_token"), "CAUQAA")
    assert redact_value(paging) is paging
    named = ("token", "access_token", "refresh_token", "next_page_access_token")
    for name in (*named, "accessToken", "clientSecret", "openaiApiKey", "dbPassword"):
        assert redact_value({name: "CAUQAA"}) == {name: "[secrets.assigned]"}
    # What such a field has in it is looked at all the same.
    assert "AKIA" not in redact_value({"page_token": "AKIAABCDEFGHIJKLMNOP"})["page_token"]


def test_what_has_nothing_in_it_is_not_copied() -> None:
    value = {"a": ["b", {"c": 1}]}
    assert redact_value(value) is value


def test_a_tuple_beside_a_name_that_sounds_secret_is_not_changed() -> None:
    value = {"calls": ({"usage": {"total_tokens": 3}}, {"names": ("a", ["b"])})}
    assert redact_value(value) is value


def test_what_is_too_deep_to_be_looked_at_is_taken_out() -> None:
    value: Any = "AKIAABCDEFGHIJKLMNOP"
    for _ in range(500):
        value = [value]
    assert "AKIA" not in repr(redact_value(value))


@given(st.text(), st.sampled_from(sorted(FOUND)), st.text())
def test_nothing_around_it_hides_it_and_doing_it_twice_changes_nothing(
    before: str, secret: str, after: str
) -> None:
    once = redact_text(f"{before} {secret} {after}")
    assert secret not in once
    assert redact_text(once) == once


def test_nothing_but_single_digits_costs_a_few_looks_for_each_of_them() -> None:
    looks = []
    (card,) = select_detectors(["pii.card"])
    counted = replace(card, is_real=lambda it: bool(looks.append(it)) or card.is_real(it))
    text = "1 " * 5_000
    assert redact_text(text, [counted]) == text
    assert len(looks) < 3 * len(text)
    spaced = " ".join("4111111111111111")
    assert redact_text(f"see {spaced} .", [card]) == "see [pii.card] ."


def test_a_group_stands_for_all_of_its_kinds_and_unknown_ones_are_named() -> None:
    assert all(it.kind.startswith("pii.") for it in select_detectors(["pii"]))
    assert [it.kind for it in select_detectors(["pii.email"])] == ["pii.email"]
    with pytest.raises(InvalidSpec, match="'pi'"):
        select_detectors(["pi"])


def test_an_expression_that_would_take_for_ever_elsewhere_does_not_here() -> None:
    with pytest.raises(InvalidSpec, match=r"RE2 expression: missing \)"):
        build_detector("evil", "(((")
    detector = build_detector("evil", "(a+)+$")
    assert redact_text("a" * 100_000 + "b", [detector]) == "a" * 100_000 + "b"


def test_an_id_whose_digits_pass_for_a_card_is_no_card() -> None:
    # Found in a log line: one in some ten thousand ids ends like this.
    id_ = "01a1e5dd-6a3b-7007-9932-516706842647"
    for text in (id_, f"@tenant11:{id_}", f"Run '{id_}' failed after {id_}."):
        assert redact_text(text) == text
    card = "9932-516706842647"
    assert redact_text(card) == "[pii.card]"
    assert redact_text(f"{id_} paid with {card}") == f"{id_} paid with [pii.card]"
