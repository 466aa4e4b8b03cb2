"""Managed configuration of `awaken serve` and `worker`: on, off, from a folder, or pinned."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import InvalidInput, RefusedInput

if TYPE_CHECKING:
    from awaken.bootstrap.runtime_options import RuntimeOptions

IsUnmanaged = Annotated[
    bool,
    typer.Option("--no-managed", help="Take no configuration from the store, and change none."),
]
ConfigFolder = Annotated[
    Path | None,
    typer.Option("--config", help="Apply this folder first; refuse to start on problems."),
]
ConfigPublication = Annotated[
    int | None,
    typer.Option(
        "--config-publication", min=1, help="Stay on this publication and publish nothing."
    ),
]


@dataclass(frozen=True, slots=True)
class ManagedStart:
    """How a process takes part in managed configuration.

    Raises:
        InvalidInput: The options contradict each other.
    """

    is_managed: bool = True
    folder: Path | None = None
    publication: int | None = None

    def __post_init__(self) -> None:
        if self.folder is not None and self.publication is not None:
            problem = "it cannot be combined with --config-publication, which publishes nothing"
            raise InvalidInput(what="--config", problem=problem)
        if not self.is_managed and (self.folder is not None or self.publication is not None):
            raise InvalidInput(what="--no-managed", problem="it leaves no configuration to use")

    def options(self) -> "RuntimeOptions":
        """The options of a runtime that is made for the command."""
        if not self.is_managed:
            return {}
        if self.publication is None:
            return {"managed": True}
        # Only a process that needs it loads it.
        from awaken.bootstrap.runtime_options import ManagedOptions  # noqa: PLC0415

        return {"managed": ManagedOptions(publication=self.publication)}

    def check_own_runtime(self, place: str, runtime: AgentRuntime) -> None:
        """Refuse options that the runtime of an app must set itself.

        Raises:
            InvalidInput: An option is one of those.
        """
        what = f"the runtime in '{place}'"
        if self.publication is not None:
            problem = f"{what} sets it; pass managed=ManagedOptions(publication=…) there"
            raise InvalidInput(what="--config-publication", problem=problem)
        if self.folder is not None and runtime.managed is None:
            raise InvalidInput(what="--config", problem=f"{what} needs managed=True")
        if not self.is_managed and runtime.managed is not None:
            raise InvalidInput(
                what="--no-managed", problem=f"{what} has managed=…; remove it there"
            )

    async def apply(self, runtime: AgentRuntime) -> None:
        """Check the publication, or apply the folder, in a runtime that is open.

        Raises:
            RefusedInput: The publication cannot be used, or the files have problems.
            ConfigError: The files cannot be published.
        """
        if runtime.managed is None:
            return
        if self.publication is not None and (problem := runtime.managed.live.applied.problem):
            raise RefusedInput(what="--config-publication", problem=problem)
        if self.folder is not None:
            await _apply_folder(runtime.managed, self.folder)

    def describe(self, runtime: AgentRuntime) -> str:
        """What people should know of the configuration when the process is ready."""
        if runtime.managed is None:
            return ""
        if self.publication is not None:
            return f"; stays on publication {self.publication}"
        return "" if runtime.store.is_shared else "; configuration that is changed is lost at exit"


async def _apply_folder(managed: Any, folder: Path) -> None:
    from awaken.bootstrap.config_files import read_config_files  # noqa: PLC0415
    from awaken.contracts.config.errors import InvalidConfig  # noqa: PLC0415
    from awaken.managed.documents import name_files  # noqa: PLC0415
    from awaken.managed.files import ApplyOptions, DriftChoice  # noqa: PLC0415
    from awaken.managed.parts import Author  # noqa: PLC0415

    from .config_context import format_problems  # noqa: PLC0415

    found = read_config_files(folder, managed.parts.kinds)
    problems, options = found.problems, ApplyOptions(drift=DriftChoice.KEEP)
    if not problems:
        try:
            await managed.files.apply(found.files, options, Author(id="serve"))
        except InvalidConfig as error:
            problems = name_files(error.problems, found.places)
    if problems:
        lines = " ".join(format_problems(problems))
        raise RefusedInput(what="--config", problem=f"'{folder}' cannot be applied. {lines}")
