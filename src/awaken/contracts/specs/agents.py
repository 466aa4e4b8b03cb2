"""Declarative specs, written in code or in config files. Unknown fields are errors."""

from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import InvalidSpec, KeyCodecError
from awaken.contracts.identity import RESERVED_IDS
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ContextWindowPolicy, ReasoningEffort
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString, decode_secret

T = TypeVar("T")


class MaxRounds(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="max_rounds"):
    """Stop after this many inferences."""

    rounds: int


class Timeout(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="timeout"):
    """Stop when the run has taken this long."""

    seconds: int


class TokenBudget(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="token_budget"):
    """Stop when prompt and completion tokens together exceed this."""

    max_total: int


class ConsecutiveErrors(
    StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="consecutive_errors"
):
    """Stop after this many failed steps in a row: every tool call of the step failed."""

    max: int


class StopOnTool(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="stop_on_tool"):
    """Stop after the model called this tool."""

    tool_name: str


class ContentMatch(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="content_match"):
    """Stop when the answer matches this RE2 pattern."""

    pattern: str


class LoopDetection(
    StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="loop_detection"
):
    """Stop when the last `window` steps requested exactly the same tool calls."""

    window: int


StopCondition = (
    MaxRounds
    | Timeout
    | TokenBudget
    | ConsecutiveErrors
    | StopOnTool
    | ContentMatch
    | LoopDetection
)


class RemoteEndpoint(StrictRecord, frozen=True, kw_only=True):
    """Where a remote agent runs.

    Its secrets are never shown: the values of `auth` except its type, and the values of `env` in
    `options`, are kept as `RedactedString`s.
    """

    base_url: str
    backend: str = "a2a"
    auth: dict[str, Any] | None = None
    target: str | None = None
    timeout_ms: int = 300_000
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in ("backend", "base_url"):
            if not getattr(self, name).strip():
                message = f"endpoint {name} must not be empty"
                raise ValueError(message)
        if isinstance(self.auth, dict):
            msgspec.structs.force_setattr(self, "auth", _redact_values(self.auth, but="type"))
        # An endpoint built in code may have any value here; types are checked later.
        options: Any = self.options
        if isinstance(options, dict) and isinstance(env := options.get("env"), dict):
            options = {**options, "env": _redact_values(env)}
            msgspec.structs.force_setattr(self, "options", options)


def _redact_values(values: dict[str, Any], but: str | None = None) -> dict[str, Any]:
    return {
        name: RedactedString(value) if isinstance(value, str) and name != but else value
        for name, value in values.items()
    }


class AgentSpec(StrictRecord, frozen=True, kw_only=True):
    """An agent as data."""

    id: str
    model_id: str = ""
    """The model that answers; only an agent with an endpoint needs none."""
    system_prompt: str = ""
    description: str = ""
    max_rounds: int = 16
    max_continuation_retries: int = 2
    context_policy: ContextWindowPolicy | None = None
    reasoning_effort: ReasoningEffort | None = None
    plugin_ids: tuple[str, ...] = ()
    active_hook_filter: tuple[str, ...] = ()
    """Empty: the hooks of every plugin run; otherwise only those of these plugins."""
    allowed_tools: tuple[str, ...] | None = None
    """Ids or glob patterns; absent allows all."""
    excluded_tools: tuple[str, ...] | None = None
    """Ids or glob patterns; exclusion wins."""
    stop_conditions: tuple[StopCondition, ...] = ()
    budgets: tuple[Budget, ...] = ()
    """What a run, a thread or a tenant may spend with this agent."""
    parallel_tools: bool = True
    """Run the calls of one step concurrently; otherwise one after another."""
    frontend_tools_may_replace: bool = False
    """Whether a client's tool replaces a tool of the agent with the same name."""
    endpoint: RemoteEndpoint | None = None
    delegates: tuple[str, ...] = ()
    sections: dict[str, Any] = {}
    """Per-plugin configuration, as JSON."""
    registry: str | None = None

    def __post_init__(self) -> None:
        if not self.id.strip() or self.id != self.id.strip():
            message = "an agent id must not be empty or padded with spaces"
            raise ValueError(message)
        if RESERVED_IDS.get(self.id) in ("", "agent_id"):
            message = f"an agent cannot have the id '{self.id}': no URL could name it"
            raise ValueError(message)
        if not self.model_id and self.endpoint is None:
            message = f"agent '{self.id}': it needs a model_id, or an endpoint where it executes"
            raise ValueError(message)
        if self.max_rounds < 0 or self.max_continuation_retries < 0:
            message = f"agent '{self.id}': limits must not be negative"
            raise ValueError(message)

    def config(self, section: str, type_: type[T]) -> T:
        """Return a typed config section, or the type's default when it is absent.

        Raises:
            KeyCodecError: The section does not fit the type.
        """
        if section not in self.sections:
            return type_()
        try:
            return msgspec.convert(self.sections[section], type_)
        except (msgspec.ValidationError, TypeError) as error:
            raise KeyCodecError(key=section, problem=str(error)) from error

    def with_config(self, section: str, config: Any) -> "AgentSpec":
        """Return the spec with one section replaced by the JSON form of `config`."""
        sections = {**self.sections, section: msgspec.to_builtins(config)}
        return msgspec.structs.replace(self, sections=sections)


def decode_spec(data: bytes | str | dict[str, Any], type_: type[T]) -> T:
    """Decode a spec from JSON or from a mapping.

    Raises:
        InvalidSpec: It is malformed, has an unknown field, or breaks a rule.
    """
    try:
        if isinstance(data, dict):
            return msgspec.convert(data, type_, dec_hook=decode_secret)
        return msgspec.json.decode(data, type=type_, dec_hook=decode_secret)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidSpec(what=type_.__name__, problem=str(error)) from error
