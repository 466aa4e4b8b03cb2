"""Reads agents, models and providers for a runtime from one JSON or YAML document."""

from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts.config.secret_fields import bind_references
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, ProviderSpec
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import decode_secret, encode_reference
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.managed.secrets import SecretResolver
from awaken.services.document_files import FILE_BYTES_MAX as FILE_BYTES_MAX
from awaken.services.document_files import (
    decode_document,
    explain_refusal,
    invalid_file,
    read_bytes,
)

_SECRETS = {
    "agents": ("endpoint/auth/!type", "endpoint/options/env/*"),
    "providers": ("api_key",),
    "remotes": ("auth/!type",),
}
"""Where a document may have a reference: `{"$secret": "env:NAME"}`."""


class AgentFile(StrictRecord, frozen=True, kw_only=True):
    """The content of a document. Tools, plugins and clients are code, and are named by id."""

    agents: tuple[AgentSpec, ...] = ()
    models: tuple[ModelSpec, ...] = ()
    pools: tuple[ModelPool, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    remotes: tuple[RemoteRegistry, ...] = ()

    def __post_init__(self) -> None:
        for field, ids in (
            ("agents", [it.id for it in self.agents]),
            ("models", [*(it.id for it in self.models), *(it.id for it in self.pools)]),
            ("providers", [it.id for it in self.providers]),
            ("remotes", [it.name for it in self.remotes]),
        ):
            if repeated := {it for it in ids if ids.count(it) > 1}:
                message = f"{field} has two of one id: {', '.join(sorted(repeated))}"
                raise ValueError(message)

    def arguments(self) -> dict[str, Any]:
        """The document as arguments: `AgentRuntime(**file.arguments())`."""
        everything = {
            "agents": self.agents,
            "models": (*self.models, *self.pools),
            "providers": {it.id: it for it in self.providers},
            "remotes": self.remotes,
        }
        return {name: value for name, value in everything.items() if value}

    def as_json(self) -> bytes:
        """The document as JSON; a secret is its reference, or a marker if its text is in code."""
        return msgspec.json.encode(self, enc_hook=encode_reference)


def read_agent_file(path: str | Path) -> AgentFile:
    """Read a document; JSON if its name ends with `.json`, else YAML.

    Raises:
        InvalidSpec: It cannot be read or accepted; names the file and the place in it, and repeats
            no value.
    """
    file = Path(path)
    return parse_agent_file(read_bytes(file, file.name), file.name)


def parse_agent_file(data: bytes, name: str) -> AgentFile:
    """Parse the bytes of a file of this name, as `read_agent_file` does.

    Raises:
        InvalidSpec: It cannot be accepted.
    """
    document = decode_document(data, name)
    try:
        return msgspec.convert(_bind(document), AgentFile, dec_hook=decode_secret)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise invalid_file(name, explain_refusal(error)) from error


def _bind(document: Any) -> Any:
    """Return a document in which each reference is a secret that is read when it is used."""
    if not isinstance(document, dict):
        return document
    resolver, bound = SecretResolver(), dict(document)
    for field, paths in _SECRETS.items():
        records = document.get(field)
        if isinstance(records, list):
            bound[field] = [
                bind_references(it, paths, resolver.bind) if isinstance(it, dict) else it
                for it in records
            ]
    return bound
