"""The tool `skill_script`: off unless configured; runs in a private copy of the skill."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from awaken.authoring.functions import tool
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool

from .config import SCRIPT, SECTION, ScriptsConfig, SkillsConfig
from .files import copy_skill, parse_path, read_file
from .library import Entry, SkillLibrary
from .problems import SkillProblem
from .processes import ProcessOutcome, run_process
from .resources import directory_of
from .sandbox import SEARCH_PATH, Sandbox, script_environment

MAX_ARGS = 64
MAX_ARG_BYTES = 8_192
MAX_ARGS_BYTES = 65_536
TOOL_SECONDS = 660
"""Beyond the longest timeout that can be configured."""

_RUNTIMES = {".sh": ("bash",), ".py": ("python3", "-B"), ".js": ("node",)}


def script_tool(library: SkillLibrary, sandbox: Sandbox) -> Tool:
    """The tool for the skills of a library."""

    @tool(id=SCRIPT, effect="once", kind="execute", timeout=TOOL_SECONDS)
    async def run(skill: str, script: str, ctx: ToolContext, args: list[str] | None = None) -> Any:
        """Run a script that belongs to a skill.

        Args:
            skill: The name of the skill.
            script: The script, for example `scripts/convert.py`.
            ctx: The call.
            args: Arguments for the script.
        """
        try:
            config = ctx.agent.config(SECTION, SkillsConfig)
            entry = library.find(skill, ctx.agent)
            return await _run_script(entry, script, args or [], _require_scripts(config), sandbox)
        except SkillProblem as problem:
            return ToolResult.error_with_code(ctx.tool_name, problem.kind, str(problem))

    return run


def _require_scripts(config: SkillsConfig) -> ScriptsConfig:
    if not config.scripts:
        raise SkillProblem(kind="unsupported_operation", message="Scripts of skills are off.")
    return config.scripts


async def _run_script(
    entry: Entry, script: str, args: list[str], config: ScriptsConfig, sandbox: Sandbox
) -> dict[str, Any]:
    directory = directory_of(entry)
    _check_args(args)
    parts = parse_path(script, ("scripts",))
    runtime = _runtime(script)
    # Reading one byte checks that it is a file of the skill, before anything is copied.
    await asyncio.to_thread(read_file, directory, parts, 1)
    place = tempfile.TemporaryDirectory(prefix="skill-", ignore_cleanup_errors=True)
    work = Path(place.name)
    try:
        await _copy_files(directory, work)
        command = await sandbox.command(config, work, (*runtime, script, *args))
        done = await _run_command(command, work, config)
    except OSError as error:
        raise SkillProblem(
            kind="io_error", message=f"The script cannot be run: {error.strerror}."
        ) from error
    finally:
        await asyncio.to_thread(place.cleanup)
    return _format_outcome(done)


async def _copy_files(directory: Path, work: Path) -> None:
    copying = asyncio.create_task(asyncio.to_thread(copy_skill, directory, work))
    try:
        await asyncio.shield(copying)
    except asyncio.CancelledError:
        # A thread cannot be stopped: it must finish writing before the directory is removed.
        await asyncio.wait({copying})
        raise


async def _run_command(
    command: tuple[str, ...], work: Path, config: ScriptsConfig
) -> ProcessOutcome:
    try:
        return await run_process(
            command,
            cwd=work,
            env=script_environment(config, work),
            timeout_s=config.timeout_ms / 1_000,
            output_bytes=config.output_bytes,
        )
    except TimeoutError as error:
        problem = f"The script did not finish within {config.timeout_ms} ms and was killed."
        raise SkillProblem(kind="script_timeout", message=problem) from error


def _runtime(script: str) -> tuple[str, ...]:
    suffix = Path(script).suffix
    if suffix not in _RUNTIMES:
        known = ", ".join(_RUNTIMES)
        raise SkillProblem(kind="unsupported_runtime", message=f"Scripts end in one of {known}.")
    name, *options = _RUNTIMES[suffix]
    program = shutil.which(name, path=SEARCH_PATH)
    if program is None:
        raise SkillProblem(
            kind="unsupported_runtime", message=f"There is no '{name}' in {SEARCH_PATH}."
        )
    return (program, *options)


def _check_args(args: list[str]) -> None:
    try:
        sizes = [len(arg.encode()) for arg in args]
        is_fit = (
            len(args) <= MAX_ARGS and sum(sizes) <= MAX_ARGS_BYTES and "\0" not in "".join(args)
        )
    except UnicodeEncodeError:
        is_fit, sizes = False, []
    if not is_fit or max(sizes, default=0) > MAX_ARG_BYTES:
        problem = (
            f"A script takes at most {MAX_ARGS} arguments of text without NUL, of {MAX_ARG_BYTES} "
            f"bytes each and {MAX_ARGS_BYTES} together."
        )
        raise SkillProblem(kind="invalid_arguments", message=problem)


def _format_outcome(done: ProcessOutcome) -> dict[str, Any]:
    return {
        "exit_code": done.exit_code,
        "stdout": done.stdout.kept.decode(errors="replace"),
        "stderr": done.stderr.kept.decode(errors="replace"),
        "stdout_truncated": done.stdout.is_cut,
        "stderr_truncated": done.stderr.is_cut,
    }
