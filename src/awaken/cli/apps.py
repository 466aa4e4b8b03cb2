"""Agents from a Python file that a person names."""

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from awaken.authoring.agents import Agent
from awaken.contracts.errors import InvalidInput


def agents_at(place: str) -> list[Agent]:
    """The agents of `FILE.py`, or those under one name of it: `FILE.py:NAME`.

    Raises:
        InvalidInput: The file does not exist, cannot be imported, or has no agent there.
    """
    path, name = _split(place)
    if name is None:
        return agents_in(path)
    module = imported(path)
    value = getattr(module, name, None)
    found = [value] if isinstance(value, Agent) else value
    agents = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else []
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        message = f"'{name}' in '{path}' is no agent; name an awaken.Agent or a list of them."
        raise InvalidInput(message)
    return agents


def agents_in(path: Path) -> list[Agent]:
    """Import a Python file and return the agents it defines, in order.

    Raises:
        InvalidInput: The file does not exist, cannot be imported, or defines no agent.
    """
    agents = [value for value in vars(imported(path)).values() if isinstance(value, Agent)]
    if not agents:
        message = f"'{path}' defines no agent; assign an awaken.Agent to a name in it."
        raise InvalidInput(message)
    return agents


def imported(path: Path) -> ModuleType:
    """Import a Python file.

    Raises:
        InvalidInput: The file does not exist, or its code fails.
    """
    if not path.is_file():
        message = f"'{path}' is not a file; pass a Python file that defines agents."
        raise InvalidInput(message)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        message = f"'{path}' is no Python file; its name must end with .py."
        raise InvalidInput(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        message = f"'{path}' cannot be imported: {type(error).__name__}: {error}"
        raise InvalidInput(message) from error
    return module


def _split(place: str) -> tuple[Path, str | None]:
    path, colon, name = place.rpartition(":")
    return (Path(path), name) if colon and name.isidentifier() else (Path(place), None)
