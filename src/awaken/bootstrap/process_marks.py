"""Marks of processes: with a mark, another process on the same machine detects a dead process.

A mark has the boot id of the machine, the pid namespace, the user, the pid and the start time of
the process. A pid or a host name alone proves nothing: both are reused. Where the system does not
provide all of these, there is no mark, and a process counts as alive.
"""

import os
from hashlib import blake2s
from pathlib import Path

_PROC = Path("/proc")
_SIGN = "@"
_STATE, _THREADS, _STARTED = 0, 17, 19
"""Field indexes in `/proc/<pid>/stat` after the name of the program."""
_ENDED = ("Z", "X", "x")


def mark_worker(name: str, proc: Path = _PROC) -> str:
    """Make a worker's id: its name and, if there is one, the mark of this process."""
    mark = _own_mark(proc)
    return name if mark is None else f"{name}{_SIGN}{mark}"


def is_gone(worker_id: str, proc: Path = _PROC) -> bool:
    """Whether the process of a worker has ended for certain; a stopped one has not."""
    own = _own_mark(proc)
    _, sign, mark = worker_id.rpartition(_SIGN)
    place, _, rest = mark.rpartition("/")
    pid, _, started = rest.partition("-")
    if own is None or not sign or not pid.isdecimal() or place != own.rpartition("/")[0]:
        # It belongs to another machine, boot, container or user: nothing is known of it here.
        return False
    try:
        fields = _read_stat(proc, pid)
    except OSError:
        # The system does not answer, which proves nothing.
        return False
    if fields is None or fields[_STARTED] != started:
        return True
    # The first thread may have ended while other threads still run.
    return fields[_STATE] in _ENDED and fields[_THREADS] in ("0", "1")


def _own_mark(proc: Path) -> str | None:
    """The mark of this process; None without a `/proc` of its own pid namespace."""
    pid = str(os.getpid())
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = os.readlink(proc / "self/ns/pid").strip("pid:[]")
        is_own_view = os.readlink(proc / "self") == pid
        fields = _read_stat(proc, pid)
    except (OSError, UnicodeDecodeError):
        return None
    if fields is None or not (boot and namespace and is_own_view):
        return None
    place = f"{boot}/{namespace}/{os.geteuid()}".encode()
    # Every claim stores the mark, so it is short; two machines collide once in 2 ** 48.
    return f"{blake2s(place, digest_size=6).hexdigest()}/{pid}-{fields[_STARTED]}"


def _read_stat(proc: Path, pid: str) -> list[str] | None:
    """Read the stat fields of a process; None when there is no process of that pid.

    Raises:
        OSError: The system does not answer; that proves nothing.
    """
    try:
        text = (proc / pid / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name is in parentheses and may contain anything.
    return text.rpartition(")")[2].split()
