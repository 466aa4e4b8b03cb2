"""What a test may cost its own process: open files, sockets and memory."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def list_open_files() -> Counter[str]:
    """The files and sockets of this process, where the system shows them."""
    place = Path("/proc/self/fd")
    links = place.iterdir() if place.exists() else ()
    return Counter(os.readlink(it) for it in links if it.is_symlink())


def read_resident_bytes() -> int:
    """The memory of this process, where the system shows it."""
    place = Path("/proc/self/statm")
    return int(place.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if place.exists() else 0


@contextmanager
def bound_memory(growth_max: int, every_s: float) -> Iterator[None]:
    """Fail when the process grows by more bytes than this at any moment of the block."""
    over, most, first = threading.Event(), 0, read_resident_bytes()

    def look() -> None:
        nonlocal most
        while not over.wait(every_s):
            most = max(most, read_resident_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert most - first < growth_max, f"{(most - first) >> 20} MiB"
