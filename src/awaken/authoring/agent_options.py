"""What `Agent` takes, as its type checker sees it; no program loads this."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypedDict

from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ContextWindowPolicy, ModelClient, ReasoningEffort
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.record import ContextT
from awaken.contracts.specs.agents import RemoteEndpoint, StopCondition
from awaken.contracts.tools.tool import Tool

from .run_contexts import RunContext
from .typed_delegates import Delegate, NamedAgent

Instructions = str | Callable[[RunContext[Any, ContextT]], str | Awaitable[str]]


class AgentOptions(TypedDict, total=False):
    """What `Agent` takes besides its types and instructions."""

    model: str | ModelSpec | ModelPool | ModelClient
    endpoint: RemoteEndpoint | None
    tools: Sequence[Tool | Callable[..., Any]]
    plugins: Sequence[Plugin]
    output_validators: Sequence[Callable[..., Any]]
    output_retries: int | None
    description: str
    max_rounds: int
    stop: Sequence[StopCondition]
    budgets: Sequence[Budget]
    parallel_tools: bool
    frontend_tools_may_replace: bool
    allowed_tools: Sequence[str] | None
    excluded_tools: Sequence[str] | None
    delegates: Sequence[str | NamedAgent | Delegate]
    config: Mapping[str, Any] | Sequence[Any]
    reasoning_effort: ReasoningEffort | str | None
    context_policy: ContextWindowPolicy | None
    max_continuation_retries: int
