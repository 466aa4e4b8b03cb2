"""The HTTP form of a kind: how its bodies are read, checked and shown.

A form says what differs from the stored form; everything else is done here, alike for all kinds.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from awaken.contracts.config.kinds import ConfigKind, RecordMeta
from awaken.contracts.config.publications import encode_canonical
from awaken.contracts.config.secret_fields import find_secret_problems, lift_literals

from .problems import Problems
from .stored import MaskedBody, check_fields, decode_masked, encode_stored, fill_defaults
from .wire_schemas import build_schema

BODY_BYTES_MAX = 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9._:@-]{1,128}")
RESERVED_IDS = frozenset({"meta", "validate", "$schema", ".", ".."})
"""Words of the API that stand where an id stands."""
_ALWAYS_DROPPED = ("created_at", "updated_at")

Body = dict[str, Any]


def _keep_fields(_body: Body, _problems: Problems) -> None:
    """For kinds whose HTTP form is the stored form."""


def _show_fields(_body: Body) -> None:
    """For kinds whose HTTP form is the stored form."""


def _accept_spec(_spec: Any, _problems: Problems) -> None:
    """For kinds whose type says everything."""


def _no_references(_spec: Any) -> Iterable[tuple[str, str, str]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireForm:
    """What is special about one kind."""

    name: str
    spec: type
    id_field: str = "id"
    """The field of the spec that holds the id; over HTTP it is always `id`."""
    read: Callable[[Body, Problems], None] = _keep_fields
    """Turns the fields of an HTTP body into stored ones, in place."""
    write: Callable[[Body], None] = _show_fields
    """Turns a stored body with all fields into the HTTP form, in place; removes its secrets."""
    check: Callable[[Any, Problems], None] = _accept_spec
    """What the type of the spec cannot say; secrets in it are masked."""
    references: Callable[[Any], Iterable[tuple[str, str, str]]] = _no_references
    properties: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas of the fields that only the HTTP form has; None removes a stored field."""
    names: Mapping[str, str] = field(default_factory=dict)
    """HTTP names of stored paths, for problems."""
    shown_only: tuple[str, ...] = ()
    """Fields of replies, dropped on input."""
    rust_only: tuple[str, ...] = ()
    """Fields of Awaken for Rust that have no meaning here: they must be empty."""
    secrets: tuple[str, ...] = ()
    patchable: frozenset[str] | None = None
    is_patch_only: bool = False


def build_kind(form: WireForm) -> ConfigKind:
    """Make the kind of a form."""

    def to_wire(body: Mapping[str, Any], meta: RecordMeta) -> Body:
        return write_body(form, body, meta)

    def from_wire(body: Mapping[str, Any]) -> Body:
        return read_body(form, body)

    def patch_from_wire(record_id: str, body: Mapping[str, Any]) -> Body:
        return read_patch(form, record_id, body)

    def read_stored(record_id: str, body: Mapping[str, Any]) -> Body:
        return read_stored_body(form, record_id, body)

    def read_stored_patch(record_id: str, body: Mapping[str, Any]) -> Body:
        return read_written_patch(form, record_id, body)

    return ConfigKind(
        name=form.name,
        spec=form.spec,
        to_wire=to_wire,
        from_wire=from_wire,
        read_stored=read_stored,
        read_stored_patch=None if form.patchable is None else read_stored_patch,
        id_field=form.id_field,
        patch_from_wire=None if form.patchable is None else patch_from_wire,
        wire_schema=build_schema(form.spec, form.id_field, form.properties),
        references=form.references,
        secrets=form.secrets,
        patchable=form.patchable,
        is_patch_only=form.is_patch_only,
    )


def write_body(form: WireForm, body: Mapping[str, Any], meta: RecordMeta) -> Body:
    """Return the HTTP form of a stored body: every field, no secret."""
    shown = fill_defaults(form.spec, body)
    shown = {"id": shown.pop(form.id_field, meta.id), **shown}
    form.write(shown)
    for name in _ALWAYS_DROPPED:
        if (at := getattr(meta, name)) is not None:
            shown[name] = at
    return shown


def read_body(form: WireForm, body: Mapping[str, Any]) -> Body:
    """Return the stored form of an HTTP body; its secrets are still as they were written.

    Raises:
        InvalidConfig: The body is invalid; lists its problems.
    """
    record_id = body.get("id")
    shown = record_id if isinstance(record_id, str) and _ID.fullmatch(record_id) else "?"
    problems = Problems(f"{form.name}/{shown}", form.names)
    _check_size(body, problems)
    _check_id(record_id, problems)
    problems.raise_if_any()
    fields = _take_fields(form, body, problems)
    masked = MaskedBody(fields, form.secrets, problems)
    check_fields(masked.body, form.spec, problems)
    problems.raise_if_any()
    spec = decode_masked(masked.body, form.spec, problems)
    if spec is not None:
        form.check(spec, problems)
    problems.raise_if_any()
    return masked.restore(encode_stored(spec, lambda secret: secret.reveal()))


def read_patch(form: WireForm, record_id: str, body: Mapping[str, Any]) -> Body:
    """Return the stored form of a patch: null clears a field, absence leaves it.

    Raises:
        InvalidConfig: A field may not be patched, or does not fit.
    """
    problems = Problems(f"{form.name}/{record_id}", form.names)
    _check_size(body, problems)
    problems.raise_if_any()
    fields = _take_fields(form, body, problems)
    allowed = form.patchable or frozenset()
    for name in fields:
        if name not in allowed:
            message = f"The field '{name[:80]}' cannot be overridden."
            problems.add(name, "not_patchable", message, tuple(sorted(allowed)))
    given = {name: it for name, it in fields.items() if name in allowed}
    masked = MaskedBody(given, form.secrets, problems)
    values = {name: it for name, it in masked.body.items() if it is not None}
    check_fields(values, form.spec, problems, is_whole=False)
    problems.raise_if_any()
    cleared = {name: None for name, it in masked.body.items() if it is None}
    return {**masked.restore(dict(values)), **cleared}


def read_stored_body(form: WireForm, record_id: str, body: Mapping[str, Any]) -> Body:
    """Return the canonical stored form of a stored body that people wrote; secrets are references.

    Raises:
        InvalidConfig: The body is invalid; lists its problems, and repeats no value of a secret.
    """
    problems = Problems(f"{form.name}/{record_id[:128]}", {})
    _check_size(body, problems)
    _check_id(record_id, problems)
    problems.raise_if_any()
    fields = {form.id_field: record_id, **body}
    if fields[form.id_field] != record_id:
        problems.add(form.id_field, "invalid_id", "It is not the id under which the record stands.")
    _check_written_secrets(form, fields, problems)
    masked = MaskedBody(fields, form.secrets, problems)
    check_fields(masked.body, form.spec, problems)
    problems.raise_if_any()
    spec = decode_masked(masked.body, form.spec, problems)
    if spec is not None:
        form.check(spec, problems)
    problems.raise_if_any()
    return _without_texts(form, masked.restore(encode_stored(spec, lambda it: it.reveal())))


def read_written_patch(form: WireForm, record_id: str, body: Mapping[str, Any]) -> Body:
    """Return the stored form of a patch that people wrote; secrets are references.

    Raises:
        InvalidConfig: A field may not be patched, or does not fit.
    """
    problems = Problems(f"{form.name}/{record_id[:128]}", {})
    _check_size(body, problems)
    _check_id(record_id, problems)
    problems.raise_if_any()
    fields, allowed = dict(body), form.patchable or frozenset()
    if form.is_patch_only:
        # Their two forms are the same, and what a patch may have is checked there.
        form.read(fields, problems)
    for name in fields:
        if name not in allowed:
            message = f"The field '{name[:80]}' cannot be overridden."
            problems.add(name[:80], "not_patchable", message, tuple(sorted(allowed)))
    given = {name: it for name, it in fields.items() if name in allowed}
    _check_written_secrets(form, given, problems)
    masked = MaskedBody(given, form.secrets, problems)
    values = {name: it for name, it in masked.body.items() if it is not None}
    check_fields(values, form.spec, problems, is_whole=False)
    problems.raise_if_any()
    cleared = {name: None for name, it in masked.body.items() if it is None}
    return {**_without_texts(form, masked.restore(dict(values))), **cleared}


def _check_written_secrets(form: WireForm, body: Body, problems: Problems) -> None:
    """Refuse secrets that are written as texts, and references that are malformed."""
    for found in find_secret_problems(body, form.secrets):
        way_out = ""
        if found.code == "plain_secret":
            way_out = '; write {"$secret": "env:NAME"}'
        problems.add(found.path, found.code, f"{found.message}{way_out}.")


def _without_texts(form: WireForm, body: Body) -> Body:
    """Drop the marks of secrets that are absent; there is no text left to lift."""
    return lift_literals(body, form.secrets, lambda path: path)[0]


def _take_fields(form: WireForm, body: Mapping[str, Any], problems: Problems) -> Body:
    fields = {
        name: value
        for name, value in body.items()
        if name not in form.shown_only and name not in _ALWAYS_DROPPED
    }
    for name in form.rust_only:
        if name in fields and not is_empty(fields.pop(name)):
            problems.add(name, "unsupported_field", f"The field '{name}' must be empty here.")
    if "id" in fields and form.id_field != "id":
        fields[form.id_field] = fields.pop("id")
    form.read(fields, problems)
    return fields


def is_empty(value: Any) -> bool:
    """Whether a value of a field says nothing."""
    return value is None or value is False or value in ("", [], {})


def _check_size(body: Mapping[str, Any], problems: Problems) -> None:
    try:
        size = len(encode_canonical(body))
    except UnicodeEncodeError:
        problems.add("", "invalid", "A text is not valid Unicode.")
    except (TypeError, ValueError, RecursionError):
        problems.add("", "invalid", "It is no JSON object, or nested too deeply.")
    else:
        if size > BODY_BYTES_MAX:
            problems.add("", "too_large", f"It has more than {BODY_BYTES_MAX} bytes.")


def _check_id(record_id: object, problems: Problems) -> None:
    if record_id is None:
        problems.add("id", "missing", "missing 'id' field in body")
    elif not isinstance(record_id, str) or _ID.fullmatch(record_id) is None:
        problems.add("id", "invalid_id", "An id has 1 to 128 of A-Z a-z 0-9 . _ : @ - only.")
    elif record_id in RESERVED_IDS:
        problems.add("id", "invalid_id", f"'{record_id}' is a word of the API, and no id.")
