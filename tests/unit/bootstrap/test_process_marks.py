"""Whether a process is gone is told by what cannot be used again, never by pid or host alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awaken.bootstrap.process_marks import is_gone, mark_worker

HAS_PROC = Path("/proc/self/ns/pid").exists()
pytestmark = pytest.mark.skipif(not HAS_PROC, reason="this system has no /proc")
CODE = "from awaken.bootstrap.process_marks import mark_worker; print(mark_worker('w'), flush=True)"


def started() -> tuple[subprocess.Popen[str], str]:
    """A process that waits, and its worker id."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{CODE}; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_process_is_gone_when_it_was_killed_and_not_when_it_is_stopped() -> None:
    process, worker_id = started()
    try:
        assert not is_gone(worker_id)
        os.kill(process.pid, signal.SIGSTOP)
        assert not is_gone(worker_id), "it will go on"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(worker_id), "nobody has asked yet how it ended"
    finally:
        process.kill()
        process.communicate()
    assert is_gone(worker_id)


def test_another_process_of_the_same_pid_is_another_one() -> None:
    own = mark_worker("w")
    assert not is_gone(own)
    before, _, began = own.rpartition("-")
    assert is_gone(f"{before}-{int(began) - 1}")


def fake_proc(folder: Path, boot: str, namespace: str) -> Path:
    """A `/proc` of a machine that knows this process and no other."""
    pid = str(os.getpid())
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text(f"{boot}\n", "ascii")
    (folder / pid / "ns").mkdir(parents=True)
    (folder / pid / "ns/pid").symlink_to(f"pid:[{namespace}]")
    (folder / pid / "stat").write_text(Path(f"/proc/{pid}/stat").read_text("utf-8"), "utf-8")
    (folder / "self").symlink_to(pid)
    return folder


@pytest.mark.parametrize("other", ["boot", "namespace", "user"])
def test_of_other_machines_containers_and_users_nothing_is_known(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fake_proc(tmp_path / "here", "boot", "1")
    there = fake_proc(
        tmp_path / "there",
        "boot2" if other == "boot" else "boot",
        "2" if other == "namespace" else "1",
    )
    with monkeypatch.context() as patched:
        if other == "user":
            patched.setattr(os, "geteuid", lambda: 4321)
        marked = mark_worker("w", there)
    ended = f"{marked.rpartition('/')[0]}/999999999-1"
    assert not is_gone(ended, here)
    same = f"{mark_worker('w', here).rpartition('/')[0]}/999999999-1"
    assert is_gone(same, here), "of the same place it is known"


@pytest.mark.parametrize(
    "worker_id",
    ["", "w", "host:1:abc", "w@", "w@x", "w@a/b/c/d", "w@///", f"host:{os.getpid()}:x@/1-2"],
    ids=range(8),
)
def test_an_id_without_a_mark_proves_nothing(worker_id: str) -> None:
    assert not is_gone(worker_id)


def test_where_the_system_says_nothing_everybody_is_alive(tmp_path: Path) -> None:
    assert mark_worker("w", tmp_path) == "w"
    assert not is_gone(mark_worker("w"), tmp_path)
