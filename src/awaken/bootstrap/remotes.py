"""Checks the remote registries that a developer passes to a runtime."""

from typing import Any

import msgspec

from awaken.contracts.secrets import encode_secret
from awaken.contracts.specs.agents import decode_spec
from awaken.contracts.specs.remote_registries import RemoteRegistry

from .arguments import check_members, listed


def checked_remotes(remotes: Any) -> tuple[RemoteRegistry, ...]:
    """Check registries that were made in code as if they were read from a file.

    Raises:
        InvalidInput: It is not a list of registries.
        InvalidSpec: A field of one of them does not fit.
    """
    found = listed("remotes", remotes, "RemoteRegistry(…)")
    check_members("remotes", found, RemoteRegistry, "write RemoteRegistry(name=…, base_url=…)")
    written = (msgspec.to_builtins(it, enc_hook=encode_secret) for it in found)
    return tuple(decode_spec(it, RemoteRegistry) for it in written)
