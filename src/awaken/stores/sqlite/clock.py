"""The clock of leases: it runs while the machine runs, and nobody can set it.

Processes that share a file share the machine, so this clock means the same to all of them. It
begins anew when the machine does, which `boot_id` tells.
"""

import time
from pathlib import Path

from awaken.stores.sql.session import Moment

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What tells one start of the machine from another; blank where nothing does."""
    return _BOOT_ID.read_text("utf-8").strip() if _BOOT_ID.exists() else ""


_HAS_BOOT_CLOCK = bool(boot_id()) and hasattr(time, "CLOCK_BOOTTIME")


def moment() -> Moment:
    """Now, by the machine's clocks."""
    wall_ms = time.time_ns() // 1_000_000
    if not _HAS_BOOT_CLOCK:
        return Moment(wall_ms=wall_ms, lease_ms=wall_ms)
    lease_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return Moment(wall_ms=wall_ms, lease_ms=lease_ms)
