"""Kinds: the namespaces of managed records, and how each is written, checked and compared."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from awaken.contracts.record import Record
from awaken.contracts.secrets import SECRET_KEY as SECRET_KEY

RESERVED_NAMESPACES = frozenset(
    {
        "drafts", "publications", "diagnostics", "diff", "plan", "apply", "export", "switches",
        "head", "secrets", "rollback", "canary",
    }
)  # fmt: skip
"""Words of the API that can be no namespace."""


class RecordMeta(Record, frozen=True, kw_only=True):
    """What is known of a record besides its body. `source` is `code` for one without an entry."""

    namespace: str
    id: str
    source: str
    owner: str = "code"
    """`code`, `user`, `override`, or `file:` and the name of the files."""
    revision: int = 0
    hash: str = ""
    is_hidden: bool = False
    has_drift: bool = False
    created_at: int | None = None
    updated_at: int | None = None
    updated_by: str = ""
    publication: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKind:
    """One namespace of records.

    The stored form of a record is the JSON of `spec` without defaults, in which each secret is a
    reference. The HTTP form may differ: `to_wire` and `from_wire` convert between the two.
    """

    name: str
    spec: type
    to_wire: Callable[[Mapping[str, Any], RecordMeta], dict[str, Any]]
    """The HTTP form of a stored body; it has no secret, only whether there is one."""
    from_wire: Callable[[Mapping[str, Any]], dict[str, Any]]
    """The stored form of an HTTP body: aliases are read, unknown fields raise InvalidConfig.

    A secret that is written as a plain text stays one; the caller moves it into the secret store.
    """
    read_stored: Callable[[str, Mapping[str, Any]], dict[str, Any]]
    """The canonical stored form of a stored body that people wrote under an id, as in files.

    Raises InvalidConfig with every problem; a secret that is written as a text is one of them.
    """
    wire_schema: Mapping[str, Any]
    references: Callable[[Any], Iterable[tuple[str, str, str]]]
    """The records that a spec names: path of the field, namespace, id."""
    secrets: tuple[str, ...] = ()
    """The paths of secret fields; `*` stands for every key: `adapter_options/headers/*`."""
    patchable: frozenset[str] | None = None
    """The fields that a patch on a record of the code may have; None: none at all."""
    patch_from_wire: Callable[[str, Mapping[str, Any]], dict[str, Any]] | None = None
    """The stored form of the HTTP form of a patch on the record of an id: null clears a field.

    Raises InvalidConfig like `from_wire`. None: no record can be patched.
    """
    read_stored_patch: Callable[[str, Mapping[str, Any]], dict[str, Any]] | None = None
    """The canonical form of a stored patch that people wrote; like `read_stored`."""
    id_field: str = "id"
    """The field of the stored form that holds the id."""
    is_patch_only: bool = False
    """Whether records exist in code only, and are only patched: tools."""
    version: int = 1
    """Of the stored form."""
    migrate: Callable[[int, dict[str, Any]], dict[str, Any]] | None = None
    """Brings a body of an older version up to `version`."""
