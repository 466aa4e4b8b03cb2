"""Loads apps by name: `FILE.py`, `FILE.py:NAME`, `package.module` or `package.module:NAME`.

All commands load users' code here. The folder of a file, or the current folder for a module, is
added to the import path; a name refers to a runtime, to agents, or to a function that makes them.
"""

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from awaken.authoring.agents import Agent
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import InvalidInput, RefusedInput

from .output import plain

T = TypeVar("T")

FORMS = "FILE.py, FILE.py:NAME or package.module:NAME"
_OURS = (os.path.dirname(__file__), os.path.dirname(importlib.__file__), "<frozen importlib")
_MAKE = "assign an awaken.Agent or AgentRuntime to a name in it, or name a function"


class AppFailed(RefusedInput):
    """The user's code raised while it was loaded; `trace` begins in that code."""

    trace: str


@dataclass(frozen=True, slots=True)
class App:
    """A loaded app: its runtime if it has one, else its agents."""

    place: str
    values: Mapping[str, Any]
    """Everything that its module defines, by name."""
    runtime: AgentRuntime | None
    agents: tuple[Agent, ...]
    """Its own agents, or those of its runtime, as they were written."""


def load_app(place: str) -> App:
    """Load the app that a place names.

    Raises:
        AppFailed: Its code raised.
        InvalidInput: There is no such file, module or name, or it has no agent and no runtime.
    """
    source, name = split_place(place)
    module = _import_file(Path(source)) if _is_file(source) else _import_module(source)
    values = vars(module)
    found = _only_runtime(source, values) if name is None else _find_named(module, source, name)
    if isinstance(found, AgentRuntime):
        return App(place, values, found, _agents_of(found))
    return App(place, values, None, tuple(_agents_among(values, source, name, found)))


def is_place(text: str) -> bool:
    """Whether a word on the command line is an app rather than the name of an agent."""
    source, name = split_place(text)
    if source.endswith(".py"):
        # "What is in app.py" is a text.
        return not any(map(str.isspace, source)) or Path(source).is_file()
    return name is not None and _is_dotted(source)


def file_of(place: str) -> Path:
    """The file of an app.

    Raises:
        InvalidInput: There is no such module.
    """
    source, _ = split_place(place)
    if _is_file(source):
        return Path(source)
    _add_import_path(Path.cwd())
    try:
        spec = importlib.util.find_spec(source)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise _no_module(source)
    return Path(spec.origin)


def split_place(place: str) -> tuple[str, str | None]:
    """Split a place into the file or module and the name after the colon."""
    source, colon, name = place.rpartition(":")
    return (source, name) if colon and source and _is_dotted(name) else (place, None)


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _is_file(source: str) -> bool:
    return source.endswith(".py") or not _is_dotted(source) or Path(source).is_file()


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        problem = f"'{path}' is not a file; name an app as {FORMS}."
        raise RefusedInput(what="app", problem=problem)
    if path.suffix != ".py":
        problem = f"'{path}' is no Python file; its name must end with .py."
        raise RefusedInput(what="app", problem=problem)
    file = path.resolve()
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        # A file of a package is imported as a module of it, so that relative imports work.
        parts.insert(0, folder.name)
        folder = folder.parent
    _add_import_path(folder)
    if len(parts) > 1:
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return _load(str(path), lambda: importlib.import_module(name))
    return _load(str(path), lambda: _execute_file(file))


def _execute_file(file: Path) -> ModuleType:
    """Execute a file as a module, under its own name unless another module has that name."""
    known = sys.modules.get(file.stem)
    is_free = known is None or getattr(known, "__awaken_app__", False)
    name = file.stem if is_free else f"awaken_app_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__awaken_app__"] = True
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str) -> ModuleType:
    _add_import_path(Path.cwd())
    try:
        is_there = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        is_there = not name.startswith(f"{error.name}")
    except (Exception, SystemExit) as error:
        # Finding a module imports its parent packages.
        raise _load_error(name, error) from error
    if not is_there:
        raise _no_module(name)
    return _load(name, lambda: importlib.import_module(name))


def _no_module(name: str) -> InvalidInput:
    problem = f"no module of that name can be imported from {Path.cwd()}; name an app as {FORMS}"
    return InvalidInput(what=f"'{name}'", problem=problem)


def _add_import_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _load(source: str, load: Callable[[], T]) -> T:
    """Call `load`; an error of the user's code becomes `AppFailed` with its traceback."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise _load_error(source, error) from error


def _load_error(source: str, error: BaseException) -> AppFailed:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        # A script that is run, not imported; its exit code means nothing here.
        reason = f"it calls sys.exit({error.code!r}); do so only under `if __name__ == '__main__':`"
    problem = f"'{source}' cannot be imported: {reason}"
    return AppFailed(what="app", problem=problem, trace=_trace(error))


def _trace(error: BaseException) -> str:
    """The traceback of an error, from the first line of the user's code."""
    begin: TracebackType | None = error.__traceback__
    while begin is not None and begin.tb_frame.f_code.co_filename.startswith(_OURS):
        begin = begin.tb_next
    report = traceback.TracebackException(type(error), error, begin, compact=True)
    kept = [frame for frame in report.stack if not frame.filename.startswith(_OURS)]
    report.stack = traceback.StackSummary.from_list(kept)
    lines = "".join(report.format()).rstrip("\n").split("\n")
    return "\n".join(map(plain, lines))


def _find_named(module: ModuleType, source: str, name: str) -> Any:
    """Find what a name in a module refers to; a function is called."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            problem = f"there is no '{name}' in '{source}', so it is no agent and no runtime"
            raise InvalidInput(what=f"'{name}'", problem=problem)
        found = getattr(found, part)
    if not callable(found) or isinstance(found, Agent | AgentRuntime):
        return found
    make = found
    return _load(f"{source}:{name}", lambda: _await_result(make()))


def _await_result(made: Any) -> Any:
    """Return a value; a coroutine is run first, in an event loop of its own."""
    if not inspect.iscoroutine(made):
        return made
    results: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(asyncio.run(made))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)

    # A thread: some commands load apps while their own event loop runs.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _only_runtime(source: str, values: Mapping[str, Any]) -> AgentRuntime | None:
    runtimes = {name: it for name, it in values.items() if isinstance(it, AgentRuntime)}
    if len({id(it) for it in runtimes.values()}) > 1:
        names = ", ".join(runtimes)
        problem = f"it has several runtimes: {names}; name one, as {source}:{next(iter(runtimes))}"
        raise InvalidInput(what=f"'{source}'", problem=problem)
    return next(iter(runtimes.values()), None)


def _agents_among(
    values: Mapping[str, Any], source: str, name: str | None, found: Any
) -> list[Agent]:
    if name is None:
        agents: list[Any] = list(
            {id(it): it for it in values.values() if isinstance(it, Agent)}.values()
        )
        problem = f"'{source}' defines no agent and no runtime; {_MAKE}: {FORMS}."
    else:
        given = [found] if isinstance(found, Agent) else found
        agents = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
        problem = (
            f"'{name}' in '{source}' is no agent and no runtime; name an awaken.Agent, a list of "
            "them, an awaken.AgentRuntime, or a function that returns one of these."
        )
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        raise RefusedInput(what="app", problem=problem)
    return agents


def _agents_of(runtime: AgentRuntime) -> tuple[Agent, ...]:
    sources = runtime.registry.snapshot().registries.agents.values()
    return tuple(it.written for it in sources if isinstance(it.written, Agent))
