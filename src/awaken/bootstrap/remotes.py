"""The remote registries of a runtime, as written."""

from typing import Any

import msgspec

from awaken.contracts.secrets import encode_secret
from awaken.contracts.specs.agents import decode_spec
from awaken.contracts.specs.remote_registries import RemoteRegistry

from .arguments import check_members, listed


def checked_remotes(remotes: Any) -> tuple[RemoteRegistry, ...]:
    """Return registries that were made in code as if they were read: their types are checked.

    Raises:
        InvalidInput: It is no list of registries.
        InvalidSpec: Something in one of them does not fit.
    """
    found = listed("remotes", remotes, "RemoteRegistry(…)")
    check_members("remotes", found, RemoteRegistry, "write RemoteRegistry(name=…, base_url=…)")
    written = (msgspec.to_builtins(it, enc_hook=encode_secret) for it in found)
    return tuple(decode_spec(it, RemoteRegistry) for it in written)
