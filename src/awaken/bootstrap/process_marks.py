"""Marks of processes: by its mark another process of the same machine tells that one is gone.

A mark has the boot of the machine, the pid namespace, the user, the pid and when the process
began. A pid or a host name alone proves nothing: both are used again. Where the system does not
say all of it, there is no mark, and a process is taken for alive.
"""

import os
from hashlib import blake2s
from pathlib import Path

_PROC = Path("/proc")
_SIGN = "@"
_STATE, _THREADS, _STARTED = 0, 17, 19
"""Places in `/proc/<pid>/stat` behind the name of the program."""
_ENDED = ("Z", "X", "x")


def mark_worker(name: str, proc: Path = _PROC) -> str:
    """A worker's id: its name and the mark of this process, as far as there is one."""
    mark = _own_mark(proc)
    return name if mark is None else f"{name}{_SIGN}{mark}"


def is_gone(worker_id: str, proc: Path = _PROC) -> bool:
    """Whether the process of a worker has ended for certain; a stopped one has not."""
    own = _own_mark(proc)
    _, sign, mark = worker_id.rpartition(_SIGN)
    place, _, rest = mark.rpartition("/")
    pid, _, started = rest.partition("-")
    if own is None or not sign or not pid.isdecimal() or place != own.rpartition("/")[0]:
        # Of another machine, boot, container or user: nothing is known of it here.
        return False
    try:
        fields = _read_stat(proc, pid)
    except OSError:
        # The system does not say, which proves nothing.
        return False
    if fields is None or fields[_STARTED] != started:
        return True
    # The first thread may have ended while others still work.
    return fields[_STATE] in _ENDED and fields[_THREADS] in ("0", "1")


def _own_mark(proc: Path) -> str | None:
    """The mark of this process; None where `/proc` is not there, or is that of others."""
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
    # Every claim has the mark, so it is short; two places that look the same are one in 2 ** 48.
    return f"{blake2s(place, digest_size=6).hexdigest()}/{pid}-{fields[_STARTED]}"


def _read_stat(proc: Path, pid: str) -> list[str] | None:
    """What the system says of a process; None when it has none of that pid.

    Raises:
        OSError: The system does not say; that proves nothing.
    """
    try:
        text = (proc / pid / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name is in parentheses and may have anything in it.
    return text.rpartition(")")[2].split()
