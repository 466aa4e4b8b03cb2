"""Reads which real runs are scored from the live publication."""

import msgspec

from awaken.contracts.config.specs import LiveScoringSpec
from awaken.managed.configuration import ManagedConfig

NAMESPACE = "scorers"


class ScoringSpecs:
    """The records of the namespace `scorers`; read again when another publication is live."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._publication: int | None = None
        self._specs: tuple[LiveScoringSpec, ...] = ()

    async def load(self) -> tuple[LiveScoringSpec, ...]:
        """Return the records of the live publication that are switched on."""
        head = await self._managed.parts.read_head()
        if head.publication != self._publication:
            found = await self._managed.records.list_records(NAMESPACE)
            specs = [_read(it.wire) for it in found]
            self._specs = tuple(it for it in specs if it.enabled)
            self._publication = head.publication
        return self._specs


def _read(wire: dict[str, object]) -> LiveScoringSpec:
    fields = LiveScoringSpec.__struct_fields__
    return msgspec.convert({name: wire[name] for name in fields if name in wire}, LiveScoringSpec)
