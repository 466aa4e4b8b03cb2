"""Isolates scripts: builds a command line for the strongest isolation that the platform permits.

Bubblewrap hides the file system, the network and all processes, and lets a script write only to its
own copy of the skill: nothing less counts as isolation. If the configuration requires none, Linux
namespaces are enough; they hide the network, the memory and environment of the server and, where
permitted, all processes, but no files. Only if the network is allowed as well, a script may run
without either. The resource limits of the process always apply.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from .config import ScriptsConfig
from .problems import SkillProblem
from .processes import run_process

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where interpreters are searched; also the PATH of scripts."""
PROBE_SECONDS = 10

_INSIDE = "/skill"
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs")
"""Files that name resolution and certificate checks need."""
_LIMITS = 'ulimit -c 0 -t "$1" -v "$2" -f "$3" -u "$4" -n 256 || exit 126; shift 4; exec "$@"'
_USER = ("--user", "--map-root-user")
_PROCESSES = ("--pid", "--fork", "--kill-child", "--mount-proc")


class Sandbox:
    """Detects once which isolation the platform permits, and builds command lines with it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    async def command(
        self, config: ScriptsConfig, work: Path, command: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Build the command line that runs a command in a directory, limited and isolated.

        Raises:
            SkillProblem: The platform cannot isolate it, or cannot disable the network.
        """
        if sys.platform != "linux":
            raise SkillProblem(
                kind="unsupported_operation", message="Scripts of skills need Linux."
            )
        isolation = await self._means(config)
        if not isolation and (problem := _refusal(config)):
            raise problem
        return (*_fill_work_path(isolation, work), *_limit_command(config), *command)

    async def _means(self, config: ScriptsConfig) -> tuple[str, ...]:
        wanted = (config.network, config.isolation)
        if not self._found.get(wanted):
            # A failed detection is repeated each time: the system may only have been slow.
            self._found[wanted] = await _strongest(config)
        return self._found[wanted]


def script_environment(config: ScriptsConfig, work: Path) -> dict[str, str]:
    """The environment of a script: the basics and the allowed variables only."""
    basics = {"PATH": SEARCH_PATH, "HOME": str(work), "TMPDIR": str(work), "LANG": "C.UTF-8"}
    allowed = {name: os.environ[name] for name in config.environment if name in os.environ}
    return {**basics, **allowed}


async def _strongest(config: ScriptsConfig) -> tuple[str, ...]:
    for means in _candidates(config):
        if await _is_permitted(means):
            return means
    return ()


def _refusal(config: ScriptsConfig) -> SkillProblem | None:
    """Why a script is not run without isolation; None if it may be."""
    if config.isolation == "required":
        problem = (
            "Scripts cannot be isolated from the server here: install bubblewrap and permit user "
            "namespaces, or set scripts.isolation to 'none' if scripts may read and write what "
            "the server may."
        )
        return SkillProblem(kind="isolation_unavailable", message=problem)
    if config.network == "forbid":
        problem = (
            "The network of scripts cannot be disabled here: install bubblewrap, permit user "
            "namespaces, or set scripts.network to 'allow'."
        )
        return SkillProblem(kind="unsupported_operation", message=problem)
    return None


def _candidates(config: ScriptsConfig) -> list[tuple[str, ...]]:
    """Command prefixes that isolate enough, strongest first."""
    found: list[tuple[str, ...]] = []
    if bubblewrap := shutil.which("bwrap"):
        found.append(_bubblewrap(bubblewrap, config.network))
    # Namespaces alone do not hide files: a script reads and writes as the server's user.
    if config.isolation == "none" and (unshare := shutil.which("unshare")):
        alone = ("--net",) if config.network == "forbid" else ()
        found.append((unshare, *_USER, *alone, *_PROCESSES, "--"))
        found.append((unshare, *_USER, *alone, "--"))
    return found


def _bubblewrap(program: str, network: str) -> tuple[str, ...]:
    is_open = network == "allow"
    shown = (*_SYSTEM, *(_NETWORK if is_open else ()))
    places = [part for path in shown for part in ("--ro-bind-try", path, path)]
    return (
        program, "--unshare-all", *(("--share-net",) if is_open else ()), "--die-with-parent",
        "--new-session", "--cap-drop", "ALL", *places, "--proc", "/proc", "--dev", "/dev",
        "--bind", _WORK, _INSIDE, "--bind", _WORK, "/dev/shm", "--symlink", _INSIDE, "/tmp",
        # Only the copy is writable: otherwise a script could fill the root, which is memory, and
        # a script that runs as root could change kernel settings.
        "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/",
        "--chdir", _INSIDE, "--setenv", "HOME", _INSIDE, "--setenv", "TMPDIR", _INSIDE, "--",
    )  # fmt: skip


_WORK = "{work}"
"""A placeholder for the private copy of the skill; each call has its own."""


def _fill_work_path(means: tuple[str, ...], work: Path) -> tuple[str, ...]:
    return tuple(str(work) if part == _WORK else part for part in means)


def _limit_command(config: ScriptsConfig) -> tuple[str, ...]:
    limits = (config.cpu_s, config.memory_mb * 1_024, config.file_mb * 1_024, config.processes)
    bash = ("bash", "--noprofile", "--norc", "-c", _LIMITS, "limits")
    return (*bash, *map(str, limits))


async def _is_permitted(means: tuple[str, ...]) -> bool:
    work = Path(tempfile.gettempdir())
    try:
        done = await run_process(
            (*_fill_work_path(means, work), "true"),
            cwd=work,
            env={"PATH": SEARCH_PATH},
            timeout_s=PROBE_SECONDS,
            output_bytes=1_024,
        )
    except (OSError, TimeoutError):
        return False
    return done.exit_code == 0
