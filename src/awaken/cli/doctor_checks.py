"""The checks of `awaken doctor` that need no store. None of them changes anything."""

import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from http.client import HTTPConnection, HTTPException
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import awaken
from awaken import __version__
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.bootstrap.providers import list_missing_keys
from awaken.contracts.clock import SystemClock
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.record import Record
from awaken.extensions.skills.config import ScriptsConfig
from awaken.extensions.skills.problems import SkillProblem
from awaken.extensions.skills.sandbox import Sandbox
from awaken.server.addresses import check_exposure
from awaken.server.config import ServerConfig
from awaken.server.environment import with_environment

from .apps import App
from .environment_file import VARIABLE, environment_file, list_loaded, read_environment_file
from .listen_address import ListenAddress, open_listener, resolve_address

PYTHON_MIN = (3, 11)
_HEALTH_S = 2.0
_NOT_FOR_USERS = frozenset({"all", "dev"})
_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+)[^;]*;.*extra\s*==\s*["']([a-z0-9-]+)["']""")


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    ABSENT = "absent"
    """Something optional is not there."""
    WARNING = "warning"
    FAILED = "failed"


class MachineCheck(Record, frozen=True, kw_only=True):
    """One line of the report."""

    name: str
    status: CheckStatus = CheckStatus.OK
    detail: str = ""
    remedy: str = ""
    """What to do about it; empty if there is nothing to do."""


def check_versions() -> Iterator[MachineCheck]:
    """Report the versions of awaken and of Python."""
    yield MachineCheck(name="awaken", detail=f"{__version__} in {Path(awaken.__file__).parent}")
    is_new_enough = sys.version_info[:2] >= PYTHON_MIN
    yield MachineCheck(
        name="python",
        status=CheckStatus.OK if is_new_enough else CheckStatus.FAILED,
        detail=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        remedy="" if is_new_enough else "install Python 3.11 or newer",
    )


def check_extras() -> Iterator[MachineCheck]:
    """Report which extras are installed, with the version of the package of each."""
    try:
        needs = distribution("awaken").requires or []
    except PackageNotFoundError:
        return
    packages: dict[str, list[str]] = {}
    for need in needs:
        if (found := _EXTRA.match(need)) and found[2] not in _NOT_FOR_USERS:
            packages.setdefault(found[2], []).append(found[1])
    for extra, names in packages.items():
        installed = {name: _find_version(name) for name in names}
        is_there = all(installed.values())
        detail = ", ".join(f"{name} {it}" for name, it in installed.items() if it)
        yield MachineCheck(
            name=f"extra {extra}",
            status=CheckStatus.OK if is_there else CheckStatus.ABSENT,
            detail=detail if is_there else f"pip install 'awaken[{extra}]'",
        )


def check_environment_file() -> MachineCheck:
    """Report the file of variables; names only."""
    try:
        path = environment_file()
        if path is None:
            return MachineCheck(name=".env", status=CheckStatus.ABSENT, detail="no file is read")
        read_environment_file(path)
    except InvalidInput as error:
        remedy = f"mend it, or set {VARIABLE} to another file, or to nothing to read none"
        return MachineCheck(
            name=".env", status=CheckStatus.FAILED, detail=str(error), remedy=remedy
        )
    names = ", ".join(sorted(list_loaded())) or "none that the environment does not have already"
    return MachineCheck(name=".env", detail=f"{path} sets {names}")


def check_keys() -> Iterator[MachineCheck]:
    """Report which providers have a key, by the names of the variables."""
    loaded, is_any = list_loaded(), False
    for provider, known in KNOWN_PROVIDERS.items():
        name = next((it for it in known.keys if os.environ.get(it, "").strip()), None)
        if name is None:
            continue
        is_any = True
        value = os.environ[name].strip()
        is_sound = value.isascii() and value.isprintable() and " " not in value
        yield MachineCheck(
            name=f"key {provider}",
            status=CheckStatus.OK if is_sound else CheckStatus.FAILED,
            detail=f"{name} is set, in {'.env' if name in loaded else 'the environment'}",
            remedy="" if is_sound else "it has characters that no key has; copy it again",
        )
    if not is_any:
        detail = "no provider has one; `scripted` and models on this machine need none"
        yield MachineCheck(name="keys", status=CheckStatus.ABSENT, detail=detail)


def check_agents(app: App) -> Iterator[MachineCheck]:
    """Report whether the agents of an app resolve, and whether their models have a key."""
    try:
        runtime = app.runtime or AgentRuntime(app.agents)
        snapshot = runtime.registry.snapshot()
        problems = list_missing_keys(snapshot)
    except Exception as error:  # noqa: BLE001 - plugins and providers are the user's code
        kind = "" if isinstance(error, AwakenError) else f"{type(error).__name__}: "
        yield MachineCheck(name="agents", status=CheckStatus.FAILED, detail=f"{kind}{error}")
        return
    yield MachineCheck(name="agents", detail=", ".join(snapshot.registries.agents))
    for problem in problems:
        yield MachineCheck(name="agent's key", status=CheckStatus.FAILED, detail=problem)


def check_port(host: str | None, port: int | None) -> MachineCheck:
    """Report whether `awaken serve` could listen."""
    try:
        address = resolve_address(host, port)
        check_exposure(address.host, with_environment(ServerConfig(), os.environ))
    except AwakenError as error:
        return MachineCheck(name="port", status=CheckStatus.FAILED, detail=str(error))
    where = f"{address.host}:{address.port}"
    try:
        open_listener(address).close()
    except InvalidInput as error:
        if _is_served(address):
            return MachineCheck(
                name="port", detail=f"{where}: a server of awaken answers there already"
            )
        return MachineCheck(name="port", status=CheckStatus.FAILED, detail=str(error))
    return MachineCheck(name="port", detail=f"{where} is free")


def check_clock() -> MachineCheck:
    """Report whether the clock of this process can be right at all."""
    now_s = SystemClock().now_ms() / 1000
    installed_s = Path(awaken.__file__).stat().st_mtime
    if now_s < installed_s:
        return MachineCheck(
            name="clock",
            status=CheckStatus.WARNING,
            detail=f"it is {installed_s - now_s:.0f} s before awaken was installed",
            remedy="set the clock: certificates and deadlines need it",
        )
    return MachineCheck(name="clock", detail="plausible")


async def check_sandbox() -> MachineCheck:
    """Report whether scripts of skills can be isolated."""
    try:
        await Sandbox().command(ScriptsConfig(), Path(tempfile.gettempdir()), ("true",))
    except SkillProblem as problem:
        return MachineCheck(name="sandbox", status=CheckStatus.ABSENT, detail=problem.message)
    return MachineCheck(name="sandbox", detail="bubblewrap isolates the scripts of skills")


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _is_served(address: ListenAddress) -> bool:
    """Whether what listens there is a server of awaken."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    connection = HTTPConnection(host, address.port, timeout=_HEALTH_S)
    try:
        connection.request("GET", "/health")
        reply = connection.getresponse()
        return reply.status in (200, 503) and b'"status"' in reply.read(10_000)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
