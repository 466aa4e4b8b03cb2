"""The rendered surfaces of a thread, against which later calls are checked."""

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.state.keys import StateKey, StateScope

SURFACES_MAX = 32
"""How many surfaces a thread may show at the same time."""
REMEMBERED_MAX = 2_000
"""How many components all surfaces of a thread may have."""
DELETED_MAX = 64
"""How many deleted surfaces are remembered."""


class Surface(Record, frozen=True, kw_only=True):
    """One surface: the tree of its components, by id."""

    version: str
    root: str | None = None
    """The outermost component; absent until the surface is shown."""
    children: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The children of each component, by id."""
    is_deleted: bool = False


Surfaces = dict[str, Surface]

SURFACES: StateKey[Surfaces, Surfaces] = StateKey(
    "generative_ui.surfaces", default={}, type=Surfaces, scope=StateScope.THREAD
)
"""Stored in the thread: a surface outlives the run and the agent that rendered it."""


def forget_old_surfaces(surfaces: Surfaces) -> Surfaces:
    """The surfaces without those that were deleted long ago."""
    gone = [name for name, surface in surfaces.items() if surface.is_deleted]
    forgotten = set(gone[:-DELETED_MAX])
    return {name: surface for name, surface in surfaces.items() if name not in forgotten}
