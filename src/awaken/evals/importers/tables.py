"""Rows of JSONL and CSV files: one case each."""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from awaken.contracts.evals.errors import InvalidDataset
from awaken.evals.case_documents import read_case
from awaken.evals.dataset_writes import CASES_MAX

from .drafts import ImportDraft, as_text, need_dict, read_chat

INPUTS = ("user_input", "input", "question", "prompt", "query")
REFERENCES = ("expected", "expected_output", "answer", "ideal", "reference", "output", "target")
_OWN = ("id", "name", "description", "tags", "split", "weight")
CELL_CHARS_MAX = 1_000_000


def import_jsonl(data: bytes, draft: ImportDraft) -> None:
    """Read a JSON object per line: a whole case, or an input with a reference answer."""
    for number, fields in read_lines(data):
        what = f"line {number}"
        if "expect" in fields or "scorers" in fields or "provider_script" in fields:
            draft.add_whole(read_case(fields, what))
        else:
            add_row(draft, fields, number, what)


def import_csv(data: bytes, draft: ImportDraft) -> None:
    """Read a row per case, below a row with the names of the columns."""
    csv.field_size_limit(CELL_CHARS_MAX)
    try:
        text = data.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names = [it.strip() for it in reader.fieldnames or ()]
        # One more than a dataset may have: then the draft refuses it.
        rows = list(islice(reader, CASES_MAX + 1))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidDataset(what="the CSV file", problem=str(error)) from error
    twice = sorted({it for it in names if names.count(it) > 1})
    if twice:
        problem = f"the head has a column '{twice[0]}' twice, of which one would be lost"
        raise InvalidDataset(what="the CSV file", problem=problem)
    for number, row in enumerate(rows, 1):
        what = f"row {number}"
        if None in row or None in row.values():
            raise InvalidDataset(what=what, problem="it has not as many cells as the head")
        fields: dict[str, Any] = {name: it for name, it in row.items() if it != ""}
        if "tags" in fields:
            fields["tags"] = [it.strip() for it in fields["tags"].split(",") if it.strip()]
        if "weight" in fields:
            try:
                fields["weight"] = float(fields["weight"])
            except ValueError as error:
                raise InvalidDataset(what=what, problem="its weight is no number") from error
        add_row(draft, fields, number, what)


def read_lines(data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with their lines, each when it is wanted.

    Raises:
        InvalidDataset: A line is no JSON object.
    """
    for number, line in enumerate(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidDataset(what=f"line {number}", problem=str(error)) from error
        yield number, need_dict(value, f"line {number}")


def add_row(draft: ImportDraft, fields: dict[str, Any], number: int, what: str) -> None:
    """Add a case of a row; columns that are neither input nor answer become metadata."""
    source = next((it for it in INPUTS if it in fields), None)
    if source is None:
        there = ", ".join(it or "''" for it in fields)
        problem = f"it has none of {', '.join(INPUTS)}; it has {there or 'nothing':.200}"
        raise InvalidDataset(what=what, problem=problem)
    answer = next((it for it in REFERENCES if it in fields), None)
    made: dict[str, Any] = {"expected": fields.get(answer) if answer else None}
    if isinstance(fields[source], list):
        made["history"], made["input"] = read_chat(fields[source], what)
    else:
        made["user_input"] = as_text(fields[source])
    made |= {name: fields[name] for name in ("description", "split", "weight") if name in fields}
    tags = fields.get("tags") or ()
    if not isinstance(tags, list | tuple) or not all(isinstance(it, str) for it in tags):
        raise InvalidDataset(what=what, problem="`tags` is a list of texts")
    known = {*_OWN, source, *((answer,) if answer else ())}
    made["metadata"] = {name: it for name, it in fields.items() if name not in known}
    name = str(fields.get("id") or fields.get("name") or "")
    draft.add(name, number, tags=tuple(tags), **made)
