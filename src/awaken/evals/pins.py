"""The publications that the variants of an eval run on."""

from typing import Protocol

from awaken.contracts.evals.worlds import Variant
from awaken.contracts.record import Record


class PinnedConfig(Record, frozen=True, kw_only=True):
    """A publication that runs can be pinned to, and the hash of its manifest."""

    publication: int
    manifest_hash: str


class SnapshotSource(Protocol):
    """Finds the publications that variants run on; managed configuration has it."""

    async def pin_live(self) -> PinnedConfig | None:
        """Return the live publication; None if nothing was published."""
        ...

    async def pin_publication(self, publication: int) -> PinnedConfig:
        """Return a publication.

        Raises:
            AwakenError: There is no such publication.
        """
        ...

    async def pin_draft(self, draft_id: str, actor: str) -> PinnedConfig:
        """Write an ephemeral publication of a draft, and return it.

        Raises:
            AwakenError: There is no such draft, or it does not compile.
        """
        ...


def has_changes(variant: Variant) -> bool:
    """Whether a variant changes its agent, beyond the publication that it runs on."""
    changed = (variant.model_id, variant.instructions)
    return any(it is not None for it in changed) or bool(
        variant.tool_descriptions or variant.changes
    )
