"""The tools of a server: named, checked, pinned, and the same objects while unchanged."""

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from awaken.authoring.json_schemas import JsonSchema
from awaken.authoring.schema import sanitize_schema
from awaken.authoring.schema_tools import ArgumentSchema
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record
from awaken.contracts.specs.skills import SkillArgument
from awaken.contracts.tools import tool as tools
from awaken.contracts.tools.context import ToolContext
from awaken.patterns import compile_tool_glob

from .config import McpConfig, McpServer
from .errors import ServerFailed
from .status import Drift, McpToolStatus

ID_MAX = 64
SERVER = "mcp.server"
_OTHERS = re.compile(r"[^A-Za-z0-9]+")
_ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf"})
_SHOWN = 80

Perform = Callable[["McpTool", dict[str, Any], ToolContext], Awaitable[tools.ToolOutput]]


class OfferedTool(Record, frozen=True, kw_only=True, rename="camel"):
    """A tool as its server describes it."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")

    @property
    def ui_uri(self) -> str | None:
        """The UI resource that shows the tool's results."""
        ui = self.meta.get("ui")
        uri = ui.get("resourceUri") if isinstance(ui, dict) else None
        return uri if isinstance(uri, str) and uri.startswith("ui://") else None

    @property
    def hash(self) -> str:
        """A hash of everything that a model, a policy or a client relies on."""
        fields = (*msgspec.structs.astuple(self)[:-1], self.ui_uri)
        data = msgspec.json.encode(fields, order="sorted")
        return hashlib.blake2b(data, digest_size=16).hexdigest()


class OfferedPrompt(Record, frozen=True, kw_only=True):
    """A prompt as its server describes it."""

    name: str
    description: str = ""
    arguments: tuple[SkillArgument, ...] = ()


class Listing(Record, frozen=True, kw_only=True):
    """The lists of a server at one time."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    has_resources: bool = False
    problems: tuple[str, ...] = ()
    protocol_version: str | None = None


class ServerOffers(Record, frozen=True, kw_only=True):
    """Everything that a server offers, in its own words."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[dict[str, Any], ...] = ()


class McpTool:
    """A tool that a server executes.

    Raises:
        ToolInternalError: Its schema cannot be compiled.
    """

    def __init__(self, offered: OfferedTool, made: tools.ToolDescriptor, perform: Perform) -> None:
        self.descriptor = made
        self.name, self.hash, self.ui_uri = offered.name, offered.hash, offered.ui_uri
        self._schema = ArgumentSchema(offered.input_schema)
        self._perform = perform
        output = offered.output_schema
        try:
            self._output = None if output is None else JsonSchema(output, what="the output schema")
        except InvalidSpec as error:
            raise tools.ToolInternalError(str(error)) from error

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments unchanged; null means no arguments.

        Raises:
            InvalidArguments: They do not match the schema.
        """
        arguments = self._schema.validate(arguments)
        if not isinstance(arguments, dict):
            raise tools.InvalidArguments("they must be an object")
        return arguments

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> tools.ToolOutput:
        """Have the server execute the call.

        Raises:
            ToolError: The call failed.
        """
        return await self._perform(self, arguments, context)

    def check_output(self, reply: dict[str, Any]) -> None:
        """Check a result against the tool's output schema.

        Raises:
            ServerFailed: It does not match; the text names the place and no value.
        """
        if self._output is None or reply.get("isError"):
            return
        if violations := self._output.violations(reply.get("structuredContent")):
            problem = f"the result of '{self.name}' does not match its schema: {violations[0]}"
            raise ServerFailed(problem)


@dataclass(frozen=True, slots=True)
class McpCatalog:
    """The usable tools of a listing, and why others are not usable."""

    tools: Mapping[str, McpTool] = field(default_factory=dict)
    """The tools for agents, by the server's names; drifted ones as they were pinned."""
    drift: Mapping[str, Drift] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def usable_tools(self) -> tuple[McpTool, ...]:
        """The tools, sorted by name."""
        return tuple(self.tools[name] for name in sorted(self.tools))

    def statuses(self) -> tuple[McpToolStatus, ...]:
        """The status of each tool."""
        described = (
            (it.descriptor.id, it.name, it.hash, it.name in self.drift) for it in self.usable_tools
        )
        return tuple(
            McpToolStatus(id=id_, name=name, hash=hash_, state="drifted" if is_other else "offered")
            for id_, name, hash_, is_other in described
        )


def catalog_of(
    listing: Listing, server: McpServer, pins: dict[str, str], before: McpCatalog, perform: Perform
) -> McpCatalog:
    """Build the catalogue of a listing; unchanged tools of the previous catalogue are reused.

    `pins` are the hashes that tools must have; the hashes of new tools are added to it.
    """
    refused = dict(_find_refused_names(server, listing))
    usable: dict[str, McpTool] = {}
    drift: dict[str, Drift] = {}
    for offered in listing.tools:
        if offered.name in refused:
            continue
        known = before.tools.get(offered.name)
        tool = known if known is not None and known.hash == offered.hash else None
        try:
            tool = tool or McpTool(offered, _descriptor(offered, server), perform)
        except tools.ToolInternalError as error:
            refused[offered.name] = str(error)
            continue
        if server.pin == "first_seen":
            pins.setdefault(offered.name, offered.hash)
        pinned = pins.get(offered.name, "none" if server.pin == "configured" else offered.hash)
        if pinned != offered.hash:
            drift[offered.name] = Drift(tool=offered.name, pinned=pinned, offered=offered.hash)
            if server.on_drift == "refuse":
                tool = known if known is not None and known.hash == pinned else None
        if tool is not None:
            usable[offered.name] = tool
    refusals = (f"tool '{name[:_SHOWN]}' is refused: {why}" for name, why in refused.items())
    problems = (*listing.problems, *refusals)
    return McpCatalog({} if problems and server.strict else usable, drift, problems)


def build_exclusion(config: McpConfig) -> Callable[[str, str | None], bool]:
    """Build the check whether this section withholds a tool or prompt, by its id and server.

    Raises:
        PatternError: A glob of the section is malformed.
    """
    allowed = None if config.allow is None else [compile_tool_glob(it) for it in config.allow]
    excluded = [compile_tool_glob(it) for it in config.exclude]

    def is_withheld(id_: str, server: str | None) -> bool:
        is_of_server = server is None or config.servers is None or server in config.servers
        is_allowed = allowed is None or any(it(id_) for it in allowed)
        return not (is_of_server and is_allowed) or any(it(id_) for it in excluded)

    return is_withheld


def component(text: str) -> str:
    """A part of a tool id: ASCII letters and digits, joined by single underscores."""
    return _OTHERS.sub("_", text).strip("_")


def tool_id(server: str, tool: str) -> str:
    """The id of a server's tool; the end of a too long id is replaced by a digest."""
    whole = f"mcp__{component(server)}__{component(tool)}"
    if len(whole) <= ID_MAX:
        return whole
    digest = hashlib.blake2b(tool.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{whole[: ID_MAX - 9]}_{digest}"


def _find_refused_names(server: McpServer, listing: Listing) -> Iterator[tuple[str, str]]:
    # All tools that collide are refused: the order of a listing must not choose between them.
    counts = Counter(tool_id(server.name, it.name) for it in listing.tools)
    for offered in listing.tools:
        id_ = tool_id(server.name, offered.name)
        if not component(offered.name):
            yield offered.name, "its name has neither letters nor digits"
        elif counts[id_] > 1:
            yield offered.name, f"its id '{id_}' is also the id of another tool"


def _descriptor(offered: OfferedTool, server: McpServer) -> tools.ToolDescriptor:
    limits, schema = server.limits, offered.input_schema
    size = len(msgspec.json.encode([schema, offered.output_schema]))
    if size > limits.schema_bytes or len(offered.description or "") > limits.description_chars:
        raise tools.ToolInternalError("its schema or its description is too long")
    if schema.get("type") != "object" or _ALTERNATIVES & schema.keys():
        raise tools.ToolInternalError("its schema is not a plain object")
    return tools.ToolDescriptor(
        id=tool_id(server.name, offered.name),
        name=(offered.title or offered.name)[:_SHOWN],
        description=offered.description or f"MCP tool {offered.name}",
        parameters=sanitize_schema(schema),
        category=server.name,
        effect=_effect(server, offered),
        # The call has its own deadline, after which it tells the server; this one covers the rest.
        timeout_ms=server.call_ms + server.connect_ms,
        metadata={SERVER: server.name, "mcp.tool": offered.name, "mcp.transport": server.kind},
    )


def _effect(server: McpServer, offered: OfferedTool) -> tools.ToolEffect:
    # Annotations are claims of the server.
    hints = offered.annotations if server.trusted else {}
    if hints.get("readOnlyHint") is True:
        return tools.ToolEffect.NONE
    is_idempotent = hints.get("idempotentHint") is True
    return tools.ToolEffect.IDEMPOTENT if is_idempotent else tools.ToolEffect.ONCE
