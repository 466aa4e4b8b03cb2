"""The clock of leases: it runs while the machine runs and cannot be set.

Processes that share a file share the machine, so they all see the same clock. It starts again
when the machine does; `boot_id` then changes.
"""

import time
from pathlib import Path

from awaken.stores.sql.session import Moment

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return an id of this start of the machine; blank if the system has none."""
    return _BOOT_ID.read_text("utf-8").strip() if _BOOT_ID.exists() else ""


_HAS_BOOT_CLOCK = bool(boot_id()) and hasattr(time, "CLOCK_BOOTTIME")


def moment() -> Moment:
    """Return the time of the machine's clocks."""
    wall_ms = time.time_ns() // 1_000_000
    if not _HAS_BOOT_CLOCK:
        return Moment(wall_ms=wall_ms, lease_ms=wall_ms)
    lease_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return Moment(wall_ms=wall_ms, lease_ms=lease_ms)
