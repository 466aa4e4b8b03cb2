"""Tools of the code with another description, and those that are disabled."""

from collections.abc import Awaitable
from typing import Any

import msgspec

from awaken.contracts.config.specs import ToolOverride
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    Reconcilable,
    Tool,
    ToolDescriptor,
    ToolOutput,
    approval_of,
    check_of,
)

from .build import LayerBuild
from .code_records import AGENT_PREFIX, PLUGIN_PREFIX


class DescribedTool:
    """A tool with another description for models; everything else is the tool's own."""

    def __init__(self, tool: Tool, description: str) -> None:
        self._tool = tool
        self.approval = approval_of(tool)
        self.check_arguments = check_of(tool)
        self.delegates_to = getattr(tool, "delegates_to", None)
        self.hands_off_to = getattr(tool, "hands_off_to", None)
        self._descriptor = msgspec.structs.replace(tool.descriptor, description=description)

    @property
    def descriptor(self) -> ToolDescriptor:
        """The descriptor; always the same object."""
        return self._descriptor

    def validate(self, arguments: Any) -> Any:
        """Return the arguments in the form that `execute` takes."""
        return self._tool.validate(arguments)

    def execute(self, arguments: Any, context: ToolContext) -> Awaitable[ToolOutput]:
        """Run one call with validated arguments."""
        return self._tool.execute(arguments, context)


class DescribedReconcilableTool(DescribedTool):
    """The same for a tool that can find the outcome of a lost call."""

    def reconcile(self, arguments: Any, context: ToolContext) -> Awaitable[ToolOutput | None]:
        """Return the lost call's output, or None when it never took effect."""
        assert isinstance(self._tool, Reconcilable)
        return self._tool.reconcile(arguments, context)


class ToolCache:
    """Described tools; the same object while tool and description stay."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Tool, str, DescribedTool]] = {}

    def describe(self, tool: Tool, description: str) -> Tool:
        """Return a tool with another description."""
        tool_id = tool.descriptor.id
        known = self._made.get(tool_id)
        if known is not None and known[0] is tool and known[1] == description:
            return known[2]
        is_reconcilable = isinstance(tool, Reconcilable)
        kind = DescribedReconcilableTool if is_reconcilable else DescribedTool
        made = kind(tool, description)
        self._made[tool_id] = (tool, description, made)
        return made


def add_tools(build: LayerBuild, cache: ToolCache) -> None:
    """Apply the overrides of tools."""
    for name, record in build.records("tools").items():
        override: ToolOverride = record.spec
        declared: ToolOverride | None = build.code.records["tools"].get(name)
        if declared is None:
            build.warn(f"tools/{name}", "orphan_override", f"There is no tool '{name}' here.")
            continue
        if not override.enabled or record.is_hidden:
            build.disabled_tools.add(name)
        text = override.description
        if text is not None and text != declared.description:
            _describe(build, cache, declared, text)


def _describe(build: LayerBuild, cache: ToolCache, declared: ToolOverride, text: str) -> None:
    name, source, registries = declared.id, declared.source, build.code.registries
    if source.startswith(PLUGIN_PREFIX):
        owner = source.removeprefix(PLUGIN_PREFIX)
        message = f"Plugin '{owner}' describes this tool itself; it can only be disabled."
        build.refuse(f"tools/{name}/description", "not_patchable", message)
    elif source.startswith(AGENT_PREFIX):
        owner = source.removeprefix(AGENT_PREFIX)
        build.own_tools[name] = cache.describe(registries.agents[owner].tools[name], text)
    else:
        build.tools[name] = cache.describe(registries.tools[name], text)
