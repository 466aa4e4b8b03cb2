"""Work spread over processes, and folders that vanish: in memory where the machine allows it."""

import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MEMORY = Path("/dev/shm")


def spread(work: Callable[[Sequence[T]], R], items: Sequence[T], lanes: int) -> list[R]:
    """Deal the items to forked processes, and return what each made of its share."""
    shares = [share for lane in range(lanes) if (share := items[lane::lanes])]
    if len(shares) < 2:
        return [work(share) for share in shares]
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(shares), mp_context=forking) as pool:
        return list(pool.map(work, shares))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
