"""What a document becomes is counted in its bytes, and too much is refused before it is decoded."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from awaken.transport import json_bodies
from awaken.transport.json_bodies import DEPTH_MAX, DIGITS_MAX, check_document
from awaken.transport.problems import HttpError

MANY = 10**9
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text(
    '\\"[]{},:eE0123'
)
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=60,
)


def brackets_and_commas(value: Any) -> int:
    if isinstance(value, dict):
        inside = [*map(brackets_and_commas, value.values())]
    elif isinstance(value, list):
        inside = [*map(brackets_and_commas, value)]
    else:
        return 0
    return 1 + max(len(inside) - 1, 0) + sum(inside)


def exponents(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(exponents, value.values() if isinstance(value, dict) else value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(is_number and "e" in json.dumps(value))


@given(values, st.booleans(), st.sampled_from([7, 50, 64 * 1024]))
@example(["\\", '\\"', '"[', "]", {"a\\": "\\u0000"}], True, 7)
def test_what_stands_in_texts_does_not_count(value: Any, is_ascii: bool, chunk: int) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    # Filled up, so that it is large enough to be looked at closely.
    data += b" " * max(0, 64 * 1024 - len(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "_CHUNK", chunk)
        count = check_document(data, MANY)
    wanted = 1 + brackets_and_commas(value)
    if not exponents(value):
        # A literal that is cut in two may count once more than it should.
        assert wanted <= count <= wanted + (20 * len(data) // chunk if chunk < 1024 else 0)
    else:
        assert count >= wanted


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth_is_counted_without_decoding(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    for depth, is_taken in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False), (5000, False)):
        data = opening * depth + b"1" + closing * depth
        if is_taken:
            check_document(data, MANY)
            continue
        with pytest.raises(HttpError, match="nested more than 100 deep") as caught:
            check_document(data, MANY)
        assert caught.value.status == 400
    check_document(b'{"a": "' + b"[" * 5000 + b'"}', MANY)


@pytest.mark.parametrize(
    "piece",
    [b"{}", b"[]", b'""', b"1", b"null", b"1e5", b"true", b'{"a":1}', b'"\\"", "\\\\"', b"[[]]"],
)
def test_a_flood_is_refused_by_its_number(piece: bytes) -> None:
    data = b"[" + b",".join([piece] * 3000) + b"]"
    check_document(data, 100_000)
    with pytest.raises(HttpError, match="more than 2900 values") as caught:
        check_document(data, 2900)
    assert (caught.value.status, caught.value.code) == (413, "body_too_large")


def test_numbers_that_take_long_count_more() -> None:
    data = b"[" + b",".join([b"1e308"] * 1000) + b"]"
    assert check_document(data, MANY) > 20_000
    assert check_document(data.replace(b"1e308", b"false"), MANY) == 1001


@pytest.mark.parametrize("number", ["1" * 2200, "0." + "1" * 2200, "1e" + "0" * 2200])
def test_a_long_number_is_refused(number: str) -> None:
    data = f'{{"a": {number}, "b": "{" " * 70_000}"}}'.encode()
    with pytest.raises(HttpError, match=f"more than {DIGITS_MAX} digits"):
        check_document(data, MANY)
    check_document(f'{{"a": "{"1" * 90_000}"}}'.encode(), MANY)


@pytest.mark.parametrize("size", [0, 70_000])
def test_the_zero_character_is_found_behind_any_number_of_backslashes(size: int) -> None:
    for count in range(1, 7):
        data = b'{"a": "' + b"x" * size + b"\\" * count + b'u0000"}'
        if count % 2:
            with pytest.raises(HttpError, match="zero character"):
                check_document(data, MANY)
        else:
            check_document(data, MANY)
