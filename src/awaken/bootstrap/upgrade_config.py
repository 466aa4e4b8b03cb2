"""Upgrade safety of managed configuration: what a store keeps, compiled with new code."""

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.publications import OVERRIDE
from awaken.contracts.config.store import ConfigStore
from awaken.contracts.storage.store import Store

from .config_operator import ConfigOperator, OperatorCode
from .resumability import Resumability

ORPHAN = "orphan_override"
"""The code of a problem that strands nothing: the override waits for its record."""


class UpgradedConfig:
    """The configuration of an open store against new code. Only reads."""

    def __init__(self, store: Store, code: OperatorCode) -> None:
        self._operator = ConfigOperator(store, code)
        self._managed = self._operator.managed
        self._known: dict[int, Resumability] = {}

    async def find_live(self) -> int | None:
        """Return the publication that a new run takes; None before the first one."""
        return (await self._managed.heads.read_head()).publication

    async def check_publication(self, no: int) -> Resumability:
        """Return how runs on a publication would resume with the new code.

        Raises:
            UnknownPublication: It does not exist, or was purged.
        """
        if no not in self._known:
            parts = self._managed.parts
            publication = await parts.reader.load_publication(no)
            config = await parts.reader.read_effective(publication.manifest, parts.code, no)
            compiled = await parts.compiler.compile(config)
            snapshot = await self._operator.registry.prepare(compiled.layer)
            self._known[no] = Resumability(snapshot)
        return self._known[no]

    async def list_problems(self) -> tuple[ConfigProblem, ...]:
        """List records whose id the code has as well, and overrides without their record."""
        live = await self._managed.records.read_live()
        code, problems = self._managed.parts.code, []
        for namespace, entries in sorted(live.manifest.items()):
            for record_id, entry in sorted(entries.items()):
                path, is_code = f"{namespace}/{record_id}", code.has_record(namespace, record_id)
                if entry.source == OVERRIDE and not is_code:
                    message = "The code has no such record any more; its overrides do nothing."
                    problems.append(ConfigProblem(path=path, code=ORPHAN, message=message))
                elif entry.source != OVERRIDE and is_code:
                    message = "The code has a record of this id as well; rename one of them."
                    problems.append(ConfigProblem(path=path, code="owned_by_code", message=message))
        return tuple(problems)

    async def release(self) -> None:
        """Close what compiling opened; the store stays open."""
        await self._operator.release()


def open_upgraded_config(store: Store, code: OperatorCode | None) -> UpgradedConfig | None:
    """Return the configuration of a store; None if the store keeps none, or there is no code."""
    if code is None or not isinstance(store, ConfigStore):
        return None
    return UpgradedConfig(store, code)
