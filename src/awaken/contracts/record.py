"""The two shapes every contract value has: frozen data, with or without a wire tag."""

import msgspec


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
    """A record written by people: an unknown field is a mistake, never ignored."""
