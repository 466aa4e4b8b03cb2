"""Files that forget what was not synced, as a disk does when the power goes.

An APSW VFS keeps, for every file, what is on the disk for sure and what was written since. A cut
applies any part of the latter, in order, and tears one write at a sector: that is the image which
the machine finds afterwards. Directory entries are taken as durable.
"""

import random
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
NAME = "power"

_Change = tuple[int, bytes | None]
"""Where and what was written; without bytes, the file was cut to that length."""


class Disk:
    """Every file of one VFS."""

    def __init__(self) -> None:
        self.synced: dict[str, bytearray] = {}
        self.pending: dict[str, list[_Change]] = {}
        self.events = 0
        """Writes and syncs so far."""
        self.on_event: Any = None
        """Called before each write and each sync."""

    def about_to_change(self) -> None:
        """Something is about to happen to a file."""
        self.events += 1
        if self.on_event is not None:
            self.on_event()

    def opened(self, name: str) -> None:
        """A file is there from now on."""
        self.synced.setdefault(name, bytearray())
        self.pending.setdefault(name, [])

    def change(self, name: str, change: _Change) -> None:
        """Write, or cut."""
        self.about_to_change()
        self.pending[name].append(change)

    def sync(self, name: str) -> None:
        """Make durable what was written to a file."""
        self.about_to_change()
        for change in self.pending[name]:
            _apply(self.synced[name], change)
        self.pending[name].clear()

    def removed(self, name: str) -> None:
        """A file is gone."""
        self.synced.pop(name, None)
        self.pending.pop(name, None)

    def image(self, dice: random.Random) -> dict[str, bytes]:
        """What the disk holds if the power goes now."""
        return {name: self._after_cut(name, dice) for name in self.synced}

    def _after_cut(self, name: str, dice: random.Random) -> bytes:
        content = bytearray(self.synced[name])
        kept = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for change in self.pending[name]:
            if dice.random() < kept:
                _apply(content, _torn(change, dice))
        return bytes(content)


class PowerVFS(apsw.VFS):
    """Passes everything on to the real files, and tells the disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        super().__init__(NAME, "")

    def xOpen(self, name: Any, flags: list[int]) -> "PowerFile":
        """Open a file."""
        return PowerFile(self.disk, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        """Remove a file."""
        super().xDelete(name, sync_folder)
        self.disk.removed(Path(name).name)


class PowerFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if hasattr(name, "filename") else name or "").name
        disk.opened(self._name)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Write, not durably."""
        self._disk.change(self._name, (offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        """Cut, not durably."""
        self._disk.change(self._name, (size, None))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        """Make all that was written durable."""
        self._disk.sync(self._name)
        super().xSync(flags)


def _torn(change: _Change, dice: random.Random) -> _Change:
    """Now and then only the first sectors of a write reach the disk."""
    offset, data = change
    if data is None or dice.random() > 0.1:
        return change
    first = SECTOR - offset % SECTOR
    ends = range(first, len(data), SECTOR)
    return (offset, data[: dice.choice(ends)]) if ends else change


def _apply(content: bytearray, change: _Change) -> None:
    offset, data = change
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
