"""The two shapes every contract value has: frozen data, with or without a wire tag."""

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

EMPTY: Mapping[Any, Any] = MappingProxyType({})
"""Cannot be changed, so all objects with a mapping that mostly stays empty share it."""


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    forbid_unknown_fields=False,
):
    """A frozen value whose fields at their default are left out of its JSON form."""


class StrictRecord(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record written by people: an unknown field is an error, never ignored."""


def always(default: T) -> T:
    """A default that is also written to JSON, because readers of the wire expect the field."""
    # Both in C: a lambda would be one more call for each value that is made.
    field: T = msgspec.field(default_factory=partial(itemgetter(0), (default,)))
    return field
