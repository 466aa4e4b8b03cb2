"""Files that clients send: one rule for every protocol, and one way to refuse."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.messages import Audio, Base64Source, Document, Image, UrlSource
from awaken.transport import media
from awaken.transport.problems import HttpError

PIXEL = Base64Source(media_type="image/png", data="aGk=")


def test_the_kind_is_the_one_named_else_the_media_type_else_the_name_tells() -> None:
    web = UrlSource(url="https://a.example/x.png")
    assert media.content_from_url(web.url) == Image(source=web)
    assert media.content_from_url(web.url, "audio/wav") == Audio(source=web)
    assert media.content_from_url(web.url, kind="document", title="t") == Document(
        source=web, title="t"
    )
    assert media.content_from_base64("aGk=", title="x.png") == Image(source=PIXEL)
    assert media.content_from_base64("aGk").source.media_type == "application/octet-stream"


def test_a_data_uri_knows_its_own_media_type_best() -> None:
    assert media.content_from_url("data:image/png;base64,aGk%3D", "text/csv") == Image(source=PIXEL)
    assert media.content_from_url("data:,hi", "image/png") == Image(source=PIXEL)


ESCAPES = (
    "%41",
    "%0A",
    "%3d",
    "%",
    "%2",
    "%zz",
    "=",
    "=3D",
    "=\n",
    "a",
    "\u00e9",
    "\r\n",
    " ",
    "_",
)


@given(st.lists(st.sampled_from(ESCAPES)).map("".join))
def test_escapes_are_read_as_the_standard_library_reads_them(text: str) -> None:
    found = media.content_from_url(f"data:text/x,{text}").source
    assert isinstance(found, Base64Source)
    assert base64.b64decode(found.data) == unquote_to_bytes(text)


@pytest.mark.parametrize("url", ["data:a" + ";b" * 1000 + ",x", "data:,%" + "%zz" * 2000])
def test_a_data_uri_that_takes_long_to_read_is_refused(url: str) -> None:
    with pytest.raises(HttpError) as caught:
        media.content_from_url(url)
    assert (caught.value.status, caught.value.code) == (400, "invalid_file")


def test_both_alphabets_are_stored_as_one() -> None:
    assert (
        media.content_from_base64("_-8").source.data
        == media.content_from_base64("/+8=").source.data
        == "/+8="
    )


def test_what_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "FILE_BYTES_MAX", 3)
    media.content_from_base64("AAAA")
    with pytest.raises(HttpError, match="3 bytes"):
        media.content_from_base64("AAAAAA==")


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (media.content_from_base64, "*"),
        (media.content_from_base64, "é"),
        (media.content_from_base64, "a b="),
        (media.content_from_url, "aGk="),
        (media.content_from_url, "//a.example/x"),
        (media.content_from_url, "data:image/png;base64"),
        (media.content_from_url, "data:image/png;base64,é"),
        (media.content_from_url, "file:///etc/passwd"),
    ],
)
def test_what_is_no_file_is_refused(make: Callable[..., Any], given: str) -> None:
    with pytest.raises(HttpError) as caught:
        make(given, "image/png")
    assert (caught.value.status, caught.value.code) == (400, "invalid_file")
