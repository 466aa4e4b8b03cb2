"""`strace` on a forked child: it counts system calls, and kills at the one that is wanted."""

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

from .children import Child, Ended
from .lanes import scratch

SYSCALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "write", "fcntl")
ATTACH_S = 10.0
_CALL = re.compile(r"^(\d+)\s+(\w+)\(")


@cache
def is_usable() -> bool:
    """Whether this machine has strace and lets it attach to a child."""
    if shutil.which("strace") is None:
        return False
    try:
        counts(lambda fd: None)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def counts(work: Callable[[int], None]) -> dict[str, int]:
    """How often the busiest thread of a child makes each system call."""
    with scratch() as folder:
        out = folder / "trace"
        ended = _traced(work, ["-e", f"trace={','.join(SYSCALLS)}", "-o", str(out)])
        if not ended.is_done:
            raise ChildProcessError("strace could not attach, or the child broke")
        calls = Counter(
            match.groups() for line in out.read_text().splitlines() if (match := _CALL.match(line))
        )
    return {
        name: max((n for (_, it), n in calls.items() if it == name), default=0) for name in SYSCALLS
    }


def killed_at(work: Callable[[int], None], syscall: str, number: int) -> Ended:
    """Kill a child when a thread of it makes a system call for the n-th time, before it is done."""
    inject = f"inject={syscall}:signal=SIGKILL:when={number}"
    return _traced(work, ["-e", f"trace={syscall}", "-e", inject, "-o", "/dev/null"])


def failing_at(work: Callable[[int], None], syscall: str, error: str, when: str) -> Ended:
    """Let some system calls of a child fail; `when` is strace's own `FIRST..LAST`."""
    inject = f"inject={syscall}:error={error}:when={when}"
    return _traced(work, ["-e", f"trace={syscall}", "-e", inject, "-o", "/dev/null"])


def _traced(work: Callable[[int], None], options: list[str]) -> Ended:
    def patient(fd: int) -> None:
        _wait_until(lambda: _is_traced("self"))
        work(fd)

    child = Child(patient)
    command = ["strace", "-qq", "-f", "-p", str(child.pid), *options]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        return child.wait()
    finally:
        tracer.wait(ATTACH_S)


def _is_traced(pid: str) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text("ascii")


def _wait_until(is_true: Callable[[], bool]) -> None:
    for _ in range(int(ATTACH_S / 0.001)):
        if is_true():
            return
        time.sleep(0.001)
    raise TimeoutError
