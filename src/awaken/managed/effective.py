"""From stored records to specs: reads publications and applies patches to the code's records."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from awaken.contracts.config.compiler import ConfigProblem, EffectiveConfig, EffectiveRecord
from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.config.publications import (
    OVERRIDE,
    Manifest,
    ManifestEntry,
    Publication,
    encode_canonical,
    hash_object,
)
from awaken.contracts.config.secret_fields import decode_stored_spec
from awaken.contracts.config.store import ConfigStore
from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.secrets import RedactedString, to_builtins_with_secrets

from .change_sets import CodeRecords

PUBLICATIONS_KEPT = 16
BODY_BYTES_KEPT = 32 * 1024 * 1024
READ_AT_ONCE = 50
"""How many records are read before the event loop gets a turn."""
OLD_RECORDS_KEPT = 100
"""How many specs are kept besides those of the publication that was read last.

Bodies and specs never change, so they are only dropped for room.
"""

NO_PUBLICATION = Publication()
"""What is live before the first publication: nothing is managed."""


class PublicationReader:
    """Reads publications and their records; keeps what it has read, because none of it changes."""

    def __init__(
        self,
        store: ConfigStore,
        kinds: Mapping[str, ConfigKind],
        bind: Callable[[str], RedactedString],
    ) -> None:
        self._store = store
        self._kinds = kinds
        self.bind = bind
        """Makes the secret that a reference names."""
        self._publications: OrderedDict[int, Publication] = OrderedDict()
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._records: dict[tuple[Any, ...], EffectiveRecord] = {}

    async def load_publication(self, no: int | None) -> Publication:
        """Return a publication; of None, the empty one.

        Raises:
            UnknownPublication: It does not exist, or was purged.
        """
        if no is None:
            return NO_PUBLICATION
        found = self._publications.get(no)
        if found is None:
            found = await self._store.load_publication(no)
            if found is None:
                raise UnknownPublication(no=no)
            _keep(self._publications, no, found, PUBLICATIONS_KEPT)
        return found

    def add_objects(self, objects: Mapping[str, bytes]) -> None:
        """Keep bodies that are about to be written, so that a candidate can be read."""
        brought = sum(map(len, objects.values()))
        for name, body in objects.items():
            self._kept_bytes += len(body) - len(self._bodies.pop(name, b""))
            self._bodies[name] = body
        # Those that came last stay, however large they are: they may not be stored yet.
        while self._kept_bytes > max(BODY_BYTES_KEPT, brought):
            _, dropped = self._bodies.popitem(last=False)
            self._kept_bytes -= len(dropped)

    async def load_bodies(self, hashes: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the bodies of objects as builtins, by hash; those that are gone are left out."""
        wanted = set(hashes)
        found = {name: self._bodies[name] for name in wanted if name in self._bodies}
        if missing := wanted - found.keys():
            stored = await self._store.load_objects(missing)
            self.add_objects(stored)
            found |= stored
        return {name: msgspec.json.decode(body) for name, body in found.items()}

    async def read_effective(
        self, manifest: Manifest, code: CodeRecords, publication: int | None = None
    ) -> EffectiveConfig:
        """Return the records of a manifest as specs; what cannot be read becomes a problem.

        A record that has not changed since the last call is the same object.
        """
        keys = {
            (namespace, record_id): _record_key(namespace, record_id, entry, code)
            for namespace, entries in manifest.items()
            for record_id, entry in entries.items()
        }
        missing = [name for name, key in keys.items() if key not in self._records]
        bodies = await self.load_bodies(manifest[ns][record_id].hash for ns, record_id in missing)
        problems: list[ConfigProblem] = []
        records: dict[str, dict[str, EffectiveRecord]] = {}
        for at, ((namespace, record_id), key) in enumerate(keys.items()):
            if at % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            found = self._records.get(key)
            if found is None:
                entry = manifest[namespace][record_id]
                made = self._make_record(namespace, record_id, entry, bodies, code)
                if isinstance(made, ConfigProblem):
                    problems.append(made)
                    continue
                if made is None:
                    continue
                found = self._records[key] = made
            records.setdefault(namespace, {})[record_id] = found
        if len(self._records) > len(keys) + OLD_RECORDS_KEPT:
            current = set(keys.values())
            self._records = {key: it for key, it in self._records.items() if key in current}
        return EffectiveConfig(publication=publication, records=records, problems=tuple(problems))

    def _make_record(
        self,
        namespace: str,
        record_id: str,
        entry: ManifestEntry,
        bodies: Mapping[str, dict[str, Any]],
        code: CodeRecords,
    ) -> EffectiveRecord | ConfigProblem | None:
        """Decode one record; None for a patch whose record the code no longer has."""
        path, kind, body = (
            f"{namespace}/{record_id}",
            self._kinds.get(namespace),
            bodies.get(entry.hash),
        )
        if kind is None:
            message = "This version of awaken does not know the namespace."
            return ConfigProblem(path=path, code="unknown_namespace", message=message)
        if body is None:
            return ConfigProblem(path=path, code="object_lost", message="Its body is gone.")
        try:
            if entry.source != OVERRIDE:
                spec: Any = decode_stored_spec(body, kind.spec, kind.secrets, self.bind)
                return EffectiveRecord(
                    spec=spec, hash=entry.hash, source=entry.source, is_hidden=entry.is_hidden
                )
            base = code.records.get(namespace, {}).get(record_id)
            if base is None:
                return None
            spec = apply_patch(base, body, kind, self.bind)
        except AwakenError as error:
            problem = error.problem if isinstance(error, InvalidSpec) else str(error)
            return ConfigProblem(path=path, code="invalid_record", message=problem)
        # The code's record is part of what the spec is made of.
        made_of = [entry.hash, code.hashes.get(path, "")]
        return EffectiveRecord(
            spec=spec,
            hash=hash_object(encode_canonical(made_of)),
            source=entry.source,
            is_hidden=entry.is_hidden,
        )


def apply_patch(
    base: Any, patch: Mapping[str, Any], kind: ConfigKind, bind: Callable[[str], RedactedString]
) -> Any:
    """Return the code's record with a patch: a value replaces, None clears, `sections` merge.

    Raises:
        InvalidSpec: A value does not fit its field.
    """
    body = to_builtins_with_secrets(base)
    for name, value in patch.items():
        if value is None:
            body.pop(name, None)
        elif name == "sections":
            merged = {**body.get("sections", {}), **value}
            body["sections"] = {key: it for key, it in merged.items() if it is not None}
        else:
            body[name] = value
    return decode_stored_spec(body, kind.spec, kind.secrets, bind)


def _record_key(
    namespace: str, record_id: str, entry: ManifestEntry, code: CodeRecords
) -> tuple[Any, ...]:
    base = code.hashes.get(f"{namespace}/{record_id}") if entry.source == OVERRIDE else None
    return namespace, record_id, entry.hash, entry.source, entry.is_hidden, base


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any, limit: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > limit:
        cache.popitem(last=False)
