"""The front of the package explains every argument: agents, tools, the runtime and its handles."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from awaken import Agent, AgentRuntime, RunHandle, RuntimeOptions, tool
from awaken.tools import ToolOptions

IMPLIED = {"self", "_type", "_error", "_traceback"}


def list_explained(text: str | None) -> set[str]:
    """The names that the section `Args:` of a docstring explains."""
    section = inspect.cleandoc(text or "").partition("Args:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"^ {4}\**(\w+): \S", section, re.MULTILINE))


def list_unexplained(function: Any, text: str | None) -> set[str]:
    parameters = inspect.signature(function).parameters.keys() - IMPLIED
    return parameters - list_explained(text)


def list_callables() -> Iterator[tuple[str, Any, str | None]]:
    yield "tool", tool, tool.__doc__
    yield "Agent", Agent, Agent.__doc__
    yield "AgentRuntime", AgentRuntime.__init__, AgentRuntime.__doc__
    for kind in (AgentRuntime, RunHandle):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", member, member.__doc__


def test_every_argument_is_explained() -> None:
    missing = {name: list_unexplained(it, text) for name, it, text in list_callables()}
    assert {name: found for name, found in missing.items() if found} == {}


def test_every_public_member_says_what_it_does() -> None:
    for kind in (Agent, AgentRuntime, RunHandle):
        members = inspect.getmembers(
            kind, lambda it: inspect.isfunction(it) or isinstance(it, property)
        )
        silent = [name for name, it in members if not name.startswith("_") and not it.__doc__]
        assert silent == [], kind


@pytest.mark.parametrize(
    ("options", "owner"), [(ToolOptions, tool), (RuntimeOptions, AgentRuntime)]
)
def test_every_option_is_explained_where_it_is_given(options: type, owner: Any) -> None:
    assert get_type_hints(options).keys() <= list_explained(owner.__doc__)
