"""Runs a Python program so that it sees one folder, no network and no other process."""

import shutil
import subprocess
import sys
from pathlib import Path

INSIDE = "/workspace"
"""Where the program finds the folder."""
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
PROBE_S = 10


def isolate(program: Path, folder: Path) -> tuple[str, ...]:
    """The command that runs a program with a folder as its argument, isolated if possible.

    Without bubblewrap, or where user namespaces are forbidden, the program runs as it is.
    """
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is not None:
        cage = (bubblewrap, *_restrict(program, folder))
        if _succeeds((*cage, sys.executable, "-c", "")):
            return (*cage, sys.executable, str(program), INSIDE)
    return (sys.executable, str(program), str(folder))


def _restrict(program: Path, folder: Path) -> tuple[str, ...]:
    # Python may be installed anywhere; a virtual environment needs the one that it was made of.
    shown = (*SYSTEM, sys.base_prefix, sys.prefix, str(program))
    visible = (part for path in shown for part in ("--ro-bind-try", path, path))
    return (
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        *("--cap-drop", "ALL"),
        *("--proc", "/proc"),
        *("--dev", "/dev"),
        *("--tmpfs", "/tmp"),
        *visible,
        *("--bind", str(folder), INSIDE),
        *("--chdir", INSIDE),
        "--",
    )


def _succeeds(command: tuple[str, ...]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=PROBE_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
