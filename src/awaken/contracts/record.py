"""The two shapes every contract value has: frozen data, with or without a wire tag.

Also the type variables of what agents are generic in. Each stands for anything unless it is given;
only type checkers need that default, which Python has from 3.13 on.
"""

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import typing_extensions

    DepsT = typing_extensions.TypeVar("DepsT", default=Any, covariant=True)
    ContextT = typing_extensions.TypeVar("ContextT", default=Any)
    OutputT = typing_extensions.TypeVar("OutputT", default=Any, covariant=True)
else:
    DepsT, ContextT, OutputT = TypeVar("DepsT"), TypeVar("ContextT"), TypeVar("OutputT")

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
