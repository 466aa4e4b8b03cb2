"""Writes the generated parts of `reference/*.md`; with `--check` it only compares.

A generated part stands between `<!-- generated:NAME -->` and `<!-- /generated -->`. Everything
around it is written by hand. A field, an event or a command without a description is an error.
"""

import ast
import asyncio
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import typer.main

import awaken
from awaken import (
    Agent,
    AgentEvent,
    AgentResolver,
    AgentRuntime,
    AgentSpec,
    AwakenError,
    Budget,
    ContextWindowPolicy,
    ErrorEvent,
    Limits,
    ListingResolver,
    MailboxConfig,
    ModelPool,
    ModelSpec,
    PoolMember,
    ProviderSpec,
    ReasoningDelta,
    RemoteEndpoint,
    RunHandle,
    RunOptions,
    RunRequest,
    RunResult,
    RuntimeOptions,
    StateKey,
    StopCondition,
    SubmitReceipt,
    TextDelta,
    ToolContext,
    tool,
)
from awaken.bootstrap.config_kinds import config_kinds
from awaken.bootstrap.decisions import DecisionOptions
from awaken.bootstrap.known_providers import ADAPTERS, KNOWN_PROVIDERS
from awaken.bootstrap.requests import DeliveryOptions
from awaken.cli.examples import EXAMPLES
from awaken.cli.main import app
from awaken.contracts.config import drafts, specs
from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.errors import PROBLEMS_MAX, ConfigError, HeadMoved
from awaken.contracts.config.heads import CanaryPlan, Guardrails
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.plugins import loop_state
from awaken.errors import AllModelsUnavailable, ModelError
from awaken.events import LIVE_EVENTS, MessagesSnapshot, StateDelta
from awaken.extensions.deferred_tools import DeferredToolsConfig, DiscountedBeta, LoadRule
from awaken.extensions.generative_ui import GenerativeUiConfig, JsonRenderConfig, OpenUiConfig
from awaken.extensions.guardrails import GuardrailsConfig, GuardRule
from awaken.extensions.mcp import (
    ClientCredentials,
    Http,
    Login,
    McpConfig,
    McpLimits,
    McpServer,
    Restart,
    Root,
    Stdio,
)
from awaken.extensions.memory import EmbeddingSpec, MemoryConfig, MemoryLimits
from awaken.extensions.observability import ObservabilityConfig
from awaken.extensions.observability.statistics import RuntimeStatistics
from awaken.extensions.permission import PermissionConfig, RuleConfig
from awaken.extensions.reminder import (
    FieldMatch,
    OutputMatch,
    ReminderConfig,
    ReminderMessage,
    ReminderRule,
)
from awaken.extensions.skills import ScriptsConfig, SkillsConfig
from awaken.managed import change_sets, followers, heads, live, secrets
from awaken.managed.drafts import RECORDS_MAX as DRAFT_RECORDS_MAX
from awaken.models import CompactionConfig, InferenceOverride, ModelPrices, RetryPolicy, TokenUsage
from awaken.plugins import ScheduledActionSpec
from awaken.protocols.native.bodies import (
    MailboxItem,
    NewInput,
    NewMessage,
    RunInputs,
    StartRun,
    TicketDecision,
)
from awaken.providers.anthropic.codec import AnthropicOptions
from awaken.providers.gemini.codec import GeminiOptions
from awaken.providers.openai_chat.encode import ChatOptions
from awaken.providers.openai_responses.encode import ResponsesOptions
from awaken.runtime.model_health.breaker import BreakerPolicy
from awaken.runtime.primitives.system import SystemClock
from awaken.scoring import SCORERS
from awaken.scoring.gates import CasesRule, CompareRule, Gate, GateTerms, RequireRule
from awaken.scoring.marks import ScorerKind
from awaken.server import (
    FreezeWindow,
    JwtConfig,
    PublishRules,
    RateLimit,
    RememberedAnswers,
    RequiredEval,
    ServerConfig,
    ServerLimits,
    TokenSpec,
)
from awaken.server.auth import LOCAL
from awaken.server.observations import Observations, ToolLabels
from awaken.stores import RunDispatch
from awaken.tools import ToolCallResume, ToolDescriptor, ToolOptions, ToolState
from awaken.transport.problems import _STATUSES as STATUSES
from awaken.transport.routes import ApiRoute, RouteCall

REFERENCE = Path(__file__).parent / "reference"

OUT_OF_DATE = "out of date, run docs/generate_reference.py"
LINE_LENGTH = 100
PROSE_WIDTH = 140
PUBLIC_MODULES = (
    "awaken",
    "awaken.backends",
    "awaken.errors",
    "awaken.evals",
    "awaken.events",
    "awaken.messages",
    "awaken.models",
    "awaken.plugins",
    "awaken.server",
    "awaken.stores",
    "awaken.testing",
    "awaken.tools",
)
"""With one module for each extension."""
LONG_TEXT = 60
"""A longer default is not shown."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
DELEGATES = "Ids of agents that it may ask; each becomes a tool `agent_run_<id>`."
UNLOGGED = (*LIVE_EVENTS, ErrorEvent, StateDelta, MessagesSnapshot)
"""Events that never get into the log today: by rule, or because nothing writes them."""

MEANINGS: dict[str, dict[str, str]] = {
    "AgentSpec": {
        "id": "The agent's name. Runs, delegation and handoffs use it.",
        "model_id": "`provider:model`, the id of a `ModelSpec` or a pool, or a provider alone. "
        "Only an agent with an endpoint needs none.",
        "system_prompt": "Instructions, sent before the conversation. `{context.name}` stands for "
        "a field of the run's context.",
        "description": "What the agent is for. Clients and agents that may delegate to it read it.",
        "max_rounds": "At most this many inferences in a run. 0 means no limit.",
        "max_continuation_retries": "How often an answer cut off at the output limit is continued.",
        "context_policy": "How much history a request may carry; see below.",
        "reasoning_effort": "`none`, `low`, `medium`, `high`, `max`, or a budget of tokens.",
        "plugin_ids": "The agent's plugins, in the order of their hooks.",
        "stop_conditions": "Checked between steps, in order.",
        "endpoint": "The remote server that executes the agent. Settings of the local loop, such "
        "as `system_prompt` and `delegates`, are refused beside it.",
        "delegates": DELEGATES,
        "registry": "The remote registry that it was found in; the runtime fills it in.",
    },
    "ModelSpec": {
        "id": "The name that agents use.",
        "provider_id": "A known provider, a key of `AgentRuntime(providers=…)`, or `scripted`.",
        "upstream_model": "The model's name at the provider.",
        "context_window": "Tokens of request and answer. A context policy stays within it.",
        "max_output_tokens": "Sent as the limit of every answer; no override exceeds it.",
        "modalities": "What the model reads and writes. For people; it is not enforced.",
        "knowledge_cutoff": "`YYYY-MM` or `YYYY-MM-DD`. For people.",
        "prices": "What its tokens cost; see below. They override the extra `pricing`.",
    },
    "ModelPrices": {
        "input": "Tokens of the request.",
        "output": "Tokens of the answer, including reasoning.",
        "cache_read": "Tokens of the request that the vendor had in its cache.",
        "cache_write": "Tokens of the request that the vendor put into its cache.",
    },
    "ModelPool": {
        "id": "The name that agents use.",
        "members": "The models; `failover_only` ones are asked in this order.",
        "routing": "`sticky`: a thread keeps its model. `round_robin`: they take turns.",
    },
    "PoolMember": {
        "model_id": "`provider:model` or the id of a `ModelSpec`; not a pool.",
        "weight": "How often it is asked first, compared with the others.",
        "role": "`member`, or `failover_only`: asked after all members.",
    },
    "ProviderSpec": {
        "id": "The key under which it is passed: `providers={id: spec}`.",
        "adapter": "The wire format; see below.",
        "api_key": "A `RedactedString`. Absent: looked up in the environment for every call.",
        "base_url": "The address of the server. Absent: the vendor's own.",
        "timeout_ms": "How long the connection may be silent.",
        "adapter_options": "What the server does differently; see below.",
    },
    "RetryPolicy": {
        "backoff_base_ms": "The first pause; it doubles with every further call.",
        "overloaded_backoff_base_ms": "The first pause after `overloaded`.",
        "backoff_cap_ms": "The longest pause, without its jitter of up to a quarter.",
    },
    "BreakerPolicy": {
        "cooldown_ms": "How long an open breaker refuses every call.",
    },
    "CompactionConfig": {
        "system_prompt": "The instructions of the model that writes the summary.",
        "summary_max_tokens": "How long a summary may be.",
        "timeout_ms": "How long a summary may take.",
    },
    "Budget": {
        "scope": "`run`, `thread` or `tenant`: which spending is added up.",
        "cost_usd": "US dollars. Every model of the run must have a price.",
        "soft": "Ask a person, with a ticket, instead of stopping the run.",
    },
    "TokenUsage": {
        "completion_tokens": "All tokens of the answer.",
        "total_tokens": "As the provider counts them.",
        "cache_read_tokens": "Part of the prompt tokens: what the vendor had in its cache.",
        "cache_creation_tokens": "Part of the prompt tokens: what the vendor put into its cache.",
    },
    "ChatOptions": {
        "max_tokens_field": "What the server calls the limit of an answer.",
        "system_role": "The role of instructions.",
    },
    "AnthropicOptions": {
        "version": "The header `anthropic-version`.",
        "betas": "The header `anthropic-beta`.",
        "cache_ttl": "How long the vendor keeps the cached prompt. Absent: the vendor's default.",
    },
    "GeminiOptions": {
        "api_version": "The first part of the path, `v1` or `v1beta`.",
    },
    "RemoteEndpoint": {
        "base_url": "The address of the remote server; `stdio:` for a program over ACP.",
        "backend": "`a2a`, `acp`, or a key of `AgentRuntime(backends=…)`.",
        "auth": "A2A: `{'type': 'bearer', 'token': …}`. ACP takes none.",
        "target": "A2A: which agent at the address; the protocol calls it a tenant. "
        "ACP takes none.",
        "timeout_ms": "How long a turn may take; over ACP the whole run.",
        "options": "Options of the backend, such as `command` and `cwd` for ACP. Unknown ones are "
        "refused.",
    },
    "ToolDescriptor": {
        "id": "What the model calls the tool.",
        "name": "A name for people.",
        "description": "What the model reads about the tool.",
        "parameters": "The JSON Schema of the arguments.",
        "category": "For people and policies.",
        "kind": "`execute`, `read`, `edit`, `search` or `other`. Gates see it; inferred if absent.",
        "effect": "`none`, `idempotent` or `once`: whether a call may run again.",
        "timeout_ms": "How long one call may take. Absent uses the runtime's limit.",
        "metadata": "Data of your own. Never shown to the model.",
    },
    "SubmitReceipt": {
        "dispatch_id": "Names this delivery; `awaken dispatches show` finds it.",
        "thread_id": "The thread that it goes to.",
        "status": "The status of the delivery when the receipt was made.",
        "mode": "`queue`, `steer`, `interrupt` or `resume`.",
        "is_duplicate": "Whether the same request was submitted before under the same dedupe key.",
    },
    "RunDispatch": {
        "dispatch_id": "Names the delivery.",
        "thread_id": "The thread that it goes to.",
        "request": "The request of the run.",
        "mode": "`queue`, `steer`, `interrupt` or `resume`.",
        "status": "`queued`, `claimed`, `acked`, `cancelled`, `superseded` or `dead_letter`.",
        "available_at": "When it is due.",
        "max_attempts": "How often it is executed before it becomes a dead letter.",
        "last_error": "Why the last attempt failed, or why it is a dead letter.",
        "claim_token": "The claim under which it is executed.",
        "claimed_by": "The worker that claimed it.",
        "lease_until": "When the claim expires without a heartbeat, as of the claim.",
        "completed_at": "When the delivery ended.",
        "created_at": "When it was queued.",
        "updated_at": "When it last changed.",
    },
    "Limits": {
        "calls_per_step": "Tool calls run in one step. The rest get an error result.",
        "tool_output_chars": "Characters of a result that the model sees, unless the tool says.",
        "tool_timeout_ms": "How long one call may take, unless the tool says.",
        "phase_rounds": "Rounds of scheduled actions in one phase.",
        "inbox_messages": "Messages that wait for an active run. More are refused.",
    },
    "ContextWindowPolicy": {
        "max_context_tokens": "Request and answer together. Never more than the model's window.",
        "max_output_tokens": "Tokens reserved for the answer. Not sent as a limit.",
        "min_recent_messages": "How many of the newest messages are always sent.",
        "enable_prompt_cache": "Sets cache marks for vendors that need them.",
        "autocompact_threshold": "From this many tokens on, a summary is written. Absent: never.",
        "compaction_mode": "`keep_recent_raw_suffix`, or `compact_to_safe_frontier`: up to now.",
        "compaction_raw_suffix_messages": "How many of the newest messages are not summarised.",
    },
    "InferenceOverride": {
        "upstream_model": "Another model of the same provider.",
        "temperature": "Passed to the provider.",
        "max_tokens": "The limit of an answer. The model's own limit is never exceeded.",
        "top_p": "Passed to the provider.",
        "reasoning_effort": "`none`, `low`, `medium`, `high`, `max`, or a budget of tokens.",
    },
    "RunRequest": {
        "messages": "The input of the run.",
        "overrides": "Inference parameters for this run.",
        "frontend_tools": "Tools that the caller executes: a call waits for a decision.",
        "origin": "The kind of caller: `user`, `subagent`, `internal` or `mcp`.",
        "run_mode": "How the run is executed: for a caller, from a queue, and so on.",
        "adapter": "The protocol the request came through.",
        "parent_run_id": "The run that started this one.",
        "parent_thread_id": "The thread of the run that started this one.",
        "parent_tool_call_id": "The call of that run that started this one.",
        "continue_run_id": "A run of this thread that has not ended, to continue.",
        "run_id_hint": "The id of the new run.",
        "dispatch_id_hint": "Also an id for the new run, from a queue.",
        "dispatch_id": "Kept in the record.",
        "session_id": "Kept in the record.",
        "transport_request_id": "Kept in the record.",
    },
    "RunOptions": {
        "messages": "What the new thread begins with, answers included; nothing is executed.",
        "context": "The context of a new run: a mapping, or a value of the agent's context type.",
    },
    "RunResult": {
        "run_id": "The run's id.",
        "thread_id": "The thread it was on.",
        "agent_id": "The agent that spoke last.",
        "status": "`waiting` or `done`.",
        "termination": "How the run ended, or `Suspended` while it waits.",
        "steps": "Steps taken, in the whole run.",
        "usage": "Tokens used and what they cost, in the whole run.",
    },
    "AgentRuntime": {
        "registry": "Everything that can be named: agents, tools, models, providers, plugins.",
        "store": "Where threads, runs, messages, tickets and events are kept.",
        "remembered": "Decisions that also hold for later calls; see `RememberedAnswers`.",
        "memory": "Facts about users and projects, in the store of this runtime.",
        "knowledge": "Documents that agents search, in the store of this runtime.",
    },
    "ToolContext": {
        "run": "The ids of the run: `run_id`, `thread_id`, `agent_id` and more.",
        "agent": "The `AgentSpec` of the agent that made the call.",
        "call_id": "The id of this call.",
        "tool_name": "The id of the tool.",
        "idempotency_key": "The same each time this call is run.",
        "state": "Typed state; see `ToolState`.",
        "profile": "Values shared between threads and agents.",
        "resume": "The decision, when a suspended call continues.",
        "suspension_id": "The id of the suspension that was decided.",
        "suspension_reason": "The action of the suspension that was decided.",
        "prepared": "What the plugin that offers the tool has prepared for the agent.",
    },
    "ToolCallResume": {
        "decision_id": "The same decision twice counts once. Derived unless given.",
        "action": "`resume` or `cancel`.",
        "result": "The answer of the person. Its meaning depends on the ticket's mode.",
        "reason": "Shown to the model when the call is declined without a result.",
        "decided_by": "Checked against the ticket's `deciders`.",
        "updated_at": "When the decision was made, in milliseconds.",
    },
    "ServerConfig": {
        "limits": "Limits of concurrency, rate and size; see below.",
        "tokens": "Bearer tokens; see below. If there are any, every caller needs one.",
        "jwt": "Signed tokens; see below. Needs the extra `jwt`.",
    },
    "ServerLimits": {
        "streams": "How many streams are open at once.",
        "requests_per_caller": "How many of the requests one caller may have at once.",
        "streams_per_caller": "How many of the streams one caller may have at once.",
        "header_count": "How many headers a request may have.",
        "header_bytes": "How long its headers may be together.",
        "submits": "POST requests of one caller, decisions left out.",
        "decisions": "Decisions of one caller.",
    },
    "RateLimit": {
        "per_s": "How many in a second, in the long run.",
    },
    "TokenSpec": {
        "id": "The name of the caller; decisions record it.",
        "access": "The scopes: `read`, `invoke`, `decide`, `admin`.",
        "token": "The token itself.",
    },
    "JwtConfig": {
        "issuer": "The claim `iss`.",
        "audience": "The claim `aud`.",
        "algorithms": "All of public keys, or all HMAC.",
        "principal_claim": "The claim that names the caller.",
        "scope_claim": "The scopes: words in a text, or a list. Unknown words are ignored.",
    },
    "PublishRules": {
        "requires_message": "Whether every publication needs a message.",
        "freeze": "Times in which nothing is published; see below.",
    },
    "FreezeWindow": {
        "begin": "When it begins, in milliseconds since 1970.",
        "end": "When it ends.",
        "reason": "What the refusal says.",
    },
    "RequiredEval": {
        "dataset_id": "The dataset, whose own gate judges.",
        "max_age_ms": "How long ago the eval may have ended, in milliseconds.",
    },
    "CanaryPlan": {
        "percent": "The share of new runs: above 0, at most 100.",
        "by": "What stays on one side: `thread`, `user` or `tenant`.",
        "guardrails": "What ends it; see below.",
    },
    "Guardrails": {
        "window_ms": "How far back runs count.",
        "max_error_rate": "The largest share of failed runs, 0 to 1.",
        "max_p95_ms": "The longest duration of 95 % of the runs.",
        "max_cost_usd_per_run": "The highest average cost of a run.",
    },
    "RulesetSpec": {
        "id": "The name under which agents include it: `sections.permission.include`.",
        "rules": "A list of `{tool, behavior, scope}`.",
    },
    "BudgetSpec": {
        "id": "Its name.",
        "scope": "`runtime`: each run. `tenant`: all runs of a tenant together.",
        "tokens": "Tokens of requests and answers.",
        "cost_usd": "US dollars. Every model of the runs must have a price.",
        "time_ms": "Time, in milliseconds.",
        "soft": "Ask a person, with a ticket, instead of stopping the run.",
    },
    "ToolOverride": {
        "id": "What the model calls the tool.",
        "name": "A name for people.",
        "description": "What the model reads about the tool.",
        "category": "For people and policies.",
        "parameters_schema": "The JSON Schema of the arguments.",
        "enabled": "Whether models are offered the tool.",
    },
    "ManagedSkill": {
        "id": "Its name.",
        "description": "What it is for; models read it.",
        "body": "The instructions.",
        "when_to_use": "More of what models read.",
        "arguments": "What it takes, as a list of `{name, description, required}`.",
        "argument_hint": "A hint for people who type it.",
        "allowed_tools": "Tools that it grants while it is active.",
        "user_invocable": "Whether people may activate it.",
        "model_invocable": "Whether models may activate it.",
        "context": "`inline`, or `fork`: in a run of its own.",
        "agent": "The agent of that run.",
        "paths": "The files that it is about; models read them.",
    },
    "NewMessage": {
        "role": "`user` or `system`.",
        "content": "Text, or a list of blocks: `text`, `image`, `document`, `audio`, `video`.",
        "id": "Under which id it is stored. Absent: a new one.",
    },
    "StartRun": {
        "agent_id": "The agent that answers.",
        "thread_id": "Absent: a new thread. A thread that does not exist is created.",
        "messages": "At least one.",
    },
    "NewInput": {
        "messages": "At least one.",
        "mode": "How they reach the thread; see below.",
        "agent_id": "Absent: the agent that spoke last, else `default`.",
    },
    "RunInputs": {
        "messages": "At least one.",
        "mode": "How they reach the run's thread. `queue` becomes `resume` for a suspended run.",
    },
    "MailboxItem": {
        "payload": "A text, an object with `text`, or anything else, which is sent as JSON.",
    },
    "TicketDecision": {
        "action": "`resume` or `cancel`.",
        "tool_call_id": "The call. One of the two ids is needed.",
        "ticket_id": "The ticket, or the id of its suspension.",
        "reason": "Why; the model reads it if the call is declined.",
    },
}

KEY_MEANINGS: dict[str, str] = {
    "TOOL_GRANTS": "Calls that a plugin, such as skills, allows for the rest of the run.",
    "WANTED_TOOLS": "Tools that the run needs in full; the plugin that defers tools reads it.",
    "STEP_ANSWER": "The answer of the next step, instead of one of the model; used once.",
    "RUN_LIFECYCLE": "Where the run is. A plugin ends the run by updating it with `End`.",
    "ACTIVE_AGENT": "The active agent of the thread. Setting it hands over at the next step.",
    "REQUEST_OPTIONS": "The run's overrides, frontend tools and budgets, for when it continues.",
    "PENDING_ACTIONS": "Scheduled actions that wait for their phase.",
    "FAILED_ACTIONS": "Scheduled actions that failed.",
    "CONTEXT_THROTTLE": "When a context message was last injected.",
    "PRIVATE_CONTEXT": "Context messages that no store keeps and no client sees.",
    "CONTEXT_MESSAGES": "Context messages for the coming request, and those that stay.",
    "TOOL_FILTER": "Hides tools from the coming request: `excluded`, or all but `include_only`.",
    "STEP_OVERRIDE": "Inference parameters for this step.",
    "STOP_STATS": "The counters that stop conditions check.",
    "TOOL_REFUSALS": "How often each tool with `retries` refused its arguments in a row.",
    "CONTEXT_STATE": "The part of a thread's history that is not sent, and its summary.",
    "RUN_LEDGER": "What the run has spent besides its usage, for budgets.",
    "THREAD_LEDGER": "What the runs of a thread have spent, for budgets.",
    "BACKGROUND_TASKS": "The background tasks of a thread whose result was not delivered yet.",
    "REMOTE_TARGETS": "The work at remote backends: tasks, contexts, states.",
    "BACKEND_OUTPUT": "The output of the latest run at a remote backend.",
}

ACTION_MEANINGS: dict[str, str] = {
    "ADD_CONTEXT_MESSAGE": "Put a message into the coming request, not into the transcript.",
    "SET_INFERENCE_OVERRIDE": "Change inference parameters for this step.",
}

VARIABLES: dict[str, str] = {
    "A2A_BEARER_TOKEN": "Demo: the token that the agent `a2a` sends to its server.",
    "A2A_REMOTE_URL": "Demo: adds an agent `a2a` that executes at this A2A server.",
    "AWAKEN_ENV_FILE": "The file of variables that commands read instead of `.env`; empty: none.",
    "AWAKEN_EVAL_MODULES": "Modules whose functions may score in evals, separated by commas.",
    "AWAKEN_LOG_FORMAT": "`json` writes one JSON object a line, with run and thread ids.",
    "AWAKEN_SECRET_DIRS": "Folders whose files may be secrets, as `file:/path`, separated by `:`.",
    "AWAKEN_SECRET_KEYS": (
        "The keys for stored secrets: `id:base64` of 32 bytes, separated by commas. The first "
        "encrypts, all decrypt."
    ),
    "AWAKEN_SECRET_KEYS_FILE": "A file with these keys instead, one a line.",
    "MCP_SERVER_CMD": "Demo: a program whose MCP tools the first agent gets.",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": (
        "What traces have of messages: `no_content` (the default), `span_only`, `event_only` or "
        "`span_and_event`; always redacted and cut."
    ),
    "AWAKEN_ADMIN_API_BEARER_TOKEN": "A token that allows everything, for all tenants.",
    "AWAKEN_ADMIN_CORS_ALLOWED_ORIGINS": "`cors_origins` as a comma list; replaces them.",
    "AWAKEN_TOKENS_FILE": "A JSON file with a list of tokens, added to those of the code.",
    "AWAKEN_JWT_FILE": "A JSON file with the `jwt` settings; replaces those of the code.",
    "AWAKEN_HTTP_ADDR": "The address of `awaken serve`, as `HOST:PORT`; its options override it.",
    "AWAKEN_STORE": "The store's URL, where `--store` is absent.",
    "AWAKEN_BUS": "What carries signals between processes, where `--bus` is absent.",
    "AWAKEN_STORAGE_DIR": "The folder of `awaken.db`, where no store is named.",
    "AWAKEN_SEED_PROFILE": "`minimal`: the demo has only its first agent. `demo`: all of them.",
    "AGENT_ID": "The id of the demo's first agent; `default` unless given.",
    "AGENT_MODEL": "Its model, as `provider:model`, or a model of OpenAI.",
    "AGENT_MAX_ROUNDS": "How many inferences a run of it may make; 8 unless given.",
    "AGENT_SYSTEM_PROMPT": "Its instructions.",
    "AGENT_REASONING_EFFORT": "`none`, `low`, `medium`, `high` or `max`.",
    "OPENAI_API_KEY": "With it, the demo asks a model of OpenAI instead of the scripted one.",
    "OPENAI_BASE_URL": "Another server that speaks OpenAI's format, for the demo.",
    "OPENAI_ADAPTER": "How it is asked: `openai_chat` (also `openai`) or `openai_responses`.",
}
OWN_VARIABLES = ("AWAKEN_SERVE_FD",)
"""What a process only tells itself."""
_VARIABLE = re.compile(r"(AWAKEN|AGENT|OPENAI)_[A-Z_]+")

REFUSALS: dict[str, str] = {
    "console_is_built": "The console is being built anew; ask again in a moment.",
    "unknown_namespace": "There is no such namespace of the configuration.",
    "server_timeout": "The server that is to be tested did not answer in time.",
    "login_failed": "A server refused the login, or a server could not be reached.",
    "no_console": "A login begins in this server's own console, over https or on this machine.",
    "body_too_large": "The body is longer than `body_bytes`, or has over `body_values` values.",
    "memory_used_up": "Active requests hold `held_bytes` together; retry later.",
    "authentication_failed": "`authenticate` raised, or returned something else; see the log.",
    "authentication_timeout": "`authenticate` took longer than `login_ms`.",
    "body_too_slow": "The body did not arrive within `body_ms`.",
    "cancel_pending": "The run has the cancel and has not stopped yet; ask again.",
    "cancelled": "OpenAI's routes: the run of a chat completion was cancelled.",
    "disconnected": "The client disconnected before its body was complete.",
    "forbidden": "The caller's scopes do not allow it.",
    "forbidden_host": "An open server was called by a name that is not its own.",
    "forbidden_origin": "A page of another origin called, or changed something with a cookie.",
    "given_twice": "A field is given in both spellings.",
    "has_children": "The thread has child threads; choose `detach` or `cascade`.",
    "headers_too_large": "The headers are too many or too long.",
    "internal_error": "A bug, or something unexpected; the log has more, under the request's id.",
    "invalid_action": "A decision is `resume` or `cancel`.",
    "invalid_config": "A record of the configuration is malformed.",
    "invalid_cursor": "The cursor of a list is malformed.",
    "invalid_header": "A header, such as `If-Match`, is malformed.",
    "not_overridable": "The record is not one of the code; write it whole.",
    "invalid_body": "The body is JSON and does not fit.",
    "invalid_file": "A picture, sound, film or document in a message is malformed or too large.",
    "invalid_part": "A part of an A2A message has none or several of text, raw, url and data.",
    "invalid_input": "A value in the request is invalid; the text says which.",
    "invalid_json": "A part of the body that should be JSON is not.",
    "invalid_path": "An id in the path is too long or cannot be printed.",
    "invalid_query": "The query does not fit.",
    "invalid_role": "Only messages of `user` and `system` are input.",
    "invalid_value": "OpenAI's routes: a value in the request is invalid.",
    "malformed_json": "The body is not JSON, or nested more than 100 deep.",
    "method_not_allowed": "The path exists, the method does not.",
    "missing_extra": "MCP without `awaken[mcp]`.",
    "missing_output": "OpenAI's routes: an answer to a call that the run waits for is missing.",
    "model_not_found": "OpenAI's routes: there is no such agent.",
    "not_deletable": "A response is deleted with its thread.",
    "not_found": "There is nothing at this path.",
    "nothing_new": "The chat has no new message and no answer.",
    "nothing_to_cancel": "Nothing executes, waits or is queued there.",
    "nothing_to_interrupt": "The same, for an interrupt.",
    "other_branch": "The cursor belongs to a branch that is not the chat's newest.",
    "revision_required": "A change names no revision in `If-Match`, on a route that demands one.",
    "fact_conflict": "The fact was changed since it was read; read it again.",
    "fixture_exists": "The dataset has a case with this id already.",
    "run_refused": "The webhook was verified, but its trigger may start no run.",
    "overloaded": "The server is at its limit; `Retry-After` says when to retry.",
    "previous_response_in_progress": "OpenAI's routes: a response is continued once it has ended.",
    "response_not_found": "OpenAI's routes: there is no such response.",
    "server_stopping": "The server drains; another one, or this one later, will answer.",
    "too_many_requests": "The caller has too many requests or streams, or sends too often.",
    "too_many_sessions": "MCP has reached its limit of sessions.",
    "unauthorized": "The caller is not authenticated.",
    "unknown_answer": "No such answer is remembered there, or it belongs to another caller.",
    "unknown_field": "The native API has no such field; the text names the nearest known one.",
    "unknown_run": "There is none, or it is another tenant's.",
    "unknown_session": "MCP: the session has ended, or belongs to another caller.",
    "unknown_ticket": "There is none, or it is another run's.",
    "unsupported_media_type": "Send `application/json`.",
}

KINDS: dict[str, str] = {
    "agents": (
        "Fields as in [AgentSpec](agent-spec.md#agentspec). They name models, pools, delegates, "
        "plugins, MCP servers (`sections.mcp.servers`) and rulesets "
        "(`sections.permission.include`)."
    ),
    "models": "Fields as in [ModelSpec](models.md#modelspec). A model names its provider.",
    "model-pools": "Fields as in [ModelPool](models.md#modelpool). A pool names its models.",
    "providers": "Fields as in [ProviderSpec](models.md#providerspec).",
    "mcp-servers": "Fields as in [McpServer](extensions.md#mcp-servers); the transport is flat.",
    "a2a-servers": "A server whose [agents are found](../how-to/remote-agents.md) by their cards.",
    "skills": (
        "Text only: no scripts. Files stand below `references/` and `assets/`. A skill may name an "
        "agent and a model."
    ),
    "tools": "Tools are code; overrides change what the model reads, and whether it is offered.",
    "rulesets": "[Permission rules](../how-to/permission.md) that several agents include.",
    "budgets": "[Budgets](../how-to/budgets.md) beside those of the code.",
    "scorers": "Which real runs are [scored after their end](../how-to/scorers-and-gates.md).",
}
HTTP_FIELDS: dict[str, str] = {
    "a2a-servers.base_url": "The address of the server.",
    "mcp-servers.connect_ms": "How long a connection may take to be made.",
    "mcp-servers.enabled": "Whether it is connected to at all.",
    "mcp-servers.limits": "How much it may send; see the extension.",
    "mcp-servers.on_drift": "What happens to a tool that has another hash than its pin.",
    "mcp-servers.transport": "How it is reached: `stdio` starts a program, `http` is an address.",
    "providers.id": "The name that models use.",
    "providers.timeout_secs": "How long the connection may be silent, in seconds.",
    "active_plugins": "Another name of `plugin_ids`.",
    "allow_private": "Of `http`: whether the address may be a private one.",
    "allowed_tool_patterns": "The globs of `allowed_tools`.",
    "api_key_ref": "The reference.",
    "args": "Of `stdio`: the arguments of the program.",
    "backend": 'Only `{"kind": "awaken"}`.',
    "cache_read_token_price_per_million_usd": "`prices.cache_read`.",
    "cache_write_token_price_per_million_usd": "`prices.cache_write`.",
    "command": "Of `stdio`: the program.",
    "config": "Must be empty.",
    "created_at": "When it was made.",
    "cwd": "Of `stdio`: the folder of the program.",
    "env": "Of `stdio`: the environment of the program.",
    "env_keys": "The names of its environment.",
    "excluded_tool_patterns": "The globs of `excluded_tools`.",
    "has_api_key": "Whether there is one.",
    "has_auth": "Whether there is one.",
    "has_env": "Whether there is any.",
    "has_headers": "Whether there are any.",
    "header_keys": "The names of its headers.",
    "headers": "Of `http`: sent with every request.",
    "id": "Its name.",
    "input_token_price_per_million_usd": "`prices.input`.",
    "instructions_md": "Another name of `body`.",
    "model_override": "The model of the skill.",
    "name": "The id.",
    "oauth": "Of `http`: `client_credentials` or `login`.",
    "output_token_price_per_million_usd": "`prices.output`.",
    "restart_policy": "Of `stdio`: when the program is started again.",
    "timeout_secs": "How long a call may take, in seconds; fractions are allowed.",
    "updated_at": "When it was changed last.",
    "url": "Of `http`: the address.",
}
AUDIT_MEANINGS: dict[str, str] = {
    "create": "A record was made.",
    "update": "A record, or the overrides of one, was changed.",
    "delete": "A record was deleted.",
    "restart": "An MCP server was started again.",
    "login": "A person logged in to an MCP server.",
    "publish": "Of Awaken for Rust; here a publish has one event for each record.",
    "restore": "A record was written as it was; `restored_from` says which version.",
    "seed_apply": "A record was written or deleted by files that were applied.",
    "apply_failed": "Of Awaken for Rust; here a refused change writes nothing.",
    "rollback": "A record was changed by a rollback; `restored_from` is the publication.",
    "canary": "A canary was begun, with its plan as `details`, or ended.",
    "promote": "A canary became live.",
    "switch": "A kill switch was set or released.",
    "secret_set": "A stored secret was set.",
    "secret_unset": "A stored secret was removed.",
    "repin": "A run was given another publication.",
    "reset": "A run of a workflow takes steps again.",
    "replay": "Effects of a replay or an eval were allowed to happen.",
    "fire": "A schedule was fired by hand.",
    "replay_dead": "A dead letter was queued again.",
    "breaker": "The breaker of a model was set by hand.",
    "purge": "Kept for later; nothing writes it yet.",
    "batch": "An action on many objects.",
    "cancel": "A delivery was cancelled.",
    "retry_outbox": "A command of the outbox was tried again.",
    "pin": "A run was kept from the purge.",
}
PROBLEMS: dict[str, str] = {
    "secret": "An unsaved agent has a secret as text; a preview takes references only.",
    "unresolved_secret": "A diagnostic: a reference to a variable or a file has no value here.",
    "bad_pattern": "A tool pattern cannot be read.",
    "drift": "A record of files was changed elsewhere since they were applied.",
    "duplicate_id": "Two records that share their names have the same id.",
    "invalid": "A value does not fit its field.",
    "invalid_id": "An id has other characters, is too long, or is a word of the API.",
    "invalid_record": "A stored record cannot be read here, such as one of a newer version.",
    "invalid_secret": "A reference to a secret is malformed, or names what may not be named.",
    "missing": "A field is required.",
    "missing_secret": "A stored secret does not exist.",
    "no_price": "Diagnostic: a model has no price, so that budgets of money cannot hold.",
    "not_a_secret": "A reference stands in a field that is no secret.",
    "not_overridable": "The record is not one of the code; write it whole.",
    "not_patchable": "This field cannot be overridden.",
    "object_lost": "The body of a record is gone from the store.",
    "orphan_override": "Diagnostic: the code has no longer what an override changes.",
    "owned_by_code": "The code declares a record of this id.",
    "owned_by_other": "Other files own the record.",
    "patch_only": "Records of this kind exist in code only; write their overrides.",
    "pattern_matches_nothing": "Diagnostic: a pattern of tools fits none.",
    "plain_secret": "A stored record has a secret as text.",
    "reserved": "The name is taken by the runtime itself.",
    "too_large": "A text or a record is too long.",
    "too_many_records": "The publication would have too many records.",
    "twice": "Files have a record twice.",
    "unknown_adapter": "There is no such adapter of providers.",
    "unknown_base": "The code declares no record of this id, so that nothing can be overridden.",
    "unknown_field": "There is no such field; `known` lists them.",
    "unknown_namespace": "There is no such namespace.",
    "unknown_reference": "A record names another that does not exist; `known` lists them.",
    "unseen_skill": "Diagnostic: no agent can see a skill.",
    "unsupported": "A part that it needs is not installed or not set up here.",
    "unsupported_field": "Only Awaken for Rust has this field; it must be empty.",
    "unusable_reference": "A record names another that cannot be used itself.",
    "warning": "Diagnostic: what else an agent's resolution warns about.",
}
_PROBLEM = re.compile(r"[a-z]+(_[a-z]+)*")


def event_table() -> str:
    """Every event in one line."""
    rows = []
    for kind in get_args(AgentEvent):
        tag = kind.__struct_config__.tag
        shown = f"[`{tag}`](#{tag})"
        rows.append((shown, kind.__name__, _logged(kind), summary(kind)))
    return table(("event_type", "class", "in the log", "meaning"), rows)


def _logged(kind: type) -> str:
    if kind in (TextDelta, ReasoningDelta):
        return "yes, joined"
    return "no" if kind in UNLOGGED else "yes"


def error_table() -> str:
    """Every error class of the package, by branch."""
    for module in pkgutil.walk_packages(awaken.__path__, "awaken."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    rows = [
        (f"`{kind.code}`", _import_path(kind), "yes" if kind.retryable else "no", summary(kind))
        for kind in sorted(_family(AwakenError), key=lambda kind: _lineage(kind))
    ]
    return table(("code", "class", "retryable", "meaning"), rows)


def _family(kind: type[AwakenError]) -> Iterator[type[AwakenError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__.startswith("awaken."):
            yield from _family(child)


def _lineage(kind: type) -> list[str]:
    return [base.__name__ for base in reversed(kind.__mro__)]


def _import_path(kind: type) -> str:
    """Where a class is imported from; a class that no public module has is shown by its name."""
    for module in sorted({*list_public_modules()} - {"awaken"}):
        if getattr(importlib.import_module(module), kind.__name__, None) is kind:
            return f"`{module}.{kind.__name__}`"
    return f"`{kind.__name__}`"


def list_public_modules() -> list[str]:
    """The modules that users import from, and no others."""
    packages = sorted(Path(*awaken.__path__).glob("extensions/*/__init__.py"))
    return [*PUBLIC_MODULES, *(f"awaken.extensions.{it.parent.name}" for it in packages)]


def public_modules() -> str:
    """Every public module: what it is for, and its names."""
    return "\n\n".join(_public_module(name) for name in list_public_modules())


def _public_module(name: str) -> str:
    module = importlib.import_module(name)
    names = ", ".join(f"`{it}`" for it in sorted(module.__all__))
    about = _first_line(inspect.getdoc(module) or "")
    return f"### {name}\n\n{about}\n\n{textwrap.fill(names, PROSE_WIDTH)}"


def struct_table(kind: type) -> str:
    """The fields of a contract: name, type, default, meaning."""
    rows = [
        (f"`{field.name}`", _type(field.type), _default(field), meaning(kind, field.name))
        for field in msgspec.structs.fields(kind)
    ]
    return table(("field", "type", "default", "meaning"), rows)


def section_tables(*kinds: type) -> str:
    """The records of an extension's configuration, the section itself first."""
    return "\n\n".join(_section_table(kind) for kind in kinds)


def _section_table(kind: type) -> str:
    told = {**attribute_texts(kind), **MEANINGS.get(kind.__name__, {})}
    rows = [
        (f"`{it.name}`", _type(it.type), _default(it), " ".join(told.get(it.name, "").split()))
        for it in msgspec.structs.fields(kind)
    ]
    head = f"**`{kind.__name__}`** · {summary(kind)}"
    return f"{head}\n\n{table(('field', 'type', 'default', 'meaning'), rows)}"


def scorer_tables() -> str:
    """Every scorer with its options, by family."""
    families: dict[str, list[str]] = {}
    for kind in SCORERS.values():
        families.setdefault(kind.family, []).append(_scorer_table(kind))
    parts = [f"### {name.title()}\n\n" + "\n\n".join(it) for name, it in families.items()]
    return "\n\n".join(parts)


def _scorer_table(kind: ScorerKind) -> str:
    told = attribute_texts(kind.options)
    rows = [
        (f"`{it.name}`", _choices(it.type), _default(it), " ".join(told.get(it.name, "").split()))
        for it in msgspec.structs.fields(kind.options)
    ]
    return f"**`{kind.name}`** · {kind.about}\n\n" + table(
        ("option", "type", "default", "meaning"), rows
    )


def _choices(type_: Any) -> str:
    """The values of an enumeration, else the type."""
    if isinstance(type_, type) and issubclass(type_, StrEnum):
        return ", ".join(f"`{it}`" for it in type_)
    return _type(type_)


def agent_table() -> str:
    """What `Agent` takes."""
    rows = []
    for field in dataclasses.fields(Agent):
        if field.init:
            facts = (_type(field.type), _dataclass_default(field), meaning(Agent, field.name))
            rows.append((f"`{field.name}`", *facts))
    return table(("argument", "type", "default", "meaning"), rows)


def options_table(kind: type, *, described_by: Any = None) -> str:
    """What a function takes by keyword; a contract or the function may describe it."""
    own = MEANINGS.get(kind.__name__, {})
    rows = [
        (f"`{name}`", _type(type_), own.get(name) or meaning(described_by or kind, name))
        for name, type_ in kind.__annotations__.items()
    ]
    return table(("option", "type", "meaning"), rows)


def stop_table() -> str:
    """Every stop condition."""
    rows = []
    for kind in get_args(StopCondition):
        (field,) = msgspec.structs.fields(kind)
        tag = kind.__struct_config__.tag
        form = f"`{kind.__name__}({field.name}=…)`"
        rows.append((f"`{tag}`", form, _type(field.type), summary(kind)))
    return table(("code", "condition", "type", "meaning"), rows)


def model_error_table() -> str:
    """Every way in which a model call fails, and what the runtime does about it."""
    kinds = [kind for kind in _family(ModelError) if kind.__module__ == ModelError.__module__]
    rows = [
        (
            f"`{kind.code}`",
            "yes" if kind.retryable else "no",
            "no" if kind.blames_request else "yes",
            summary(kind),
        )
        for kind in sorted(kinds, key=lambda kind: kind.code)
        if kind not in (ModelError, AllModelsUnavailable)
    ]
    return table(("code", "asked again", "another model of the pool", "meaning"), rows)


def provider_table() -> str:
    """The providers that need no configuration but their key."""
    rows = []
    for name, known in KNOWN_PROVIDERS.items():
        keys = " or ".join(f"`{key}`" for key in known.keys)
        needed = keys if known.needs_key else f"{keys}, if there is one" if keys else "none"
        extra = ADAPTERS[known.adapter].extra
        needs = f"`awaken[{extra}]`" if extra else ""
        rows.append((f"`{name}`", f"`{known.adapter}`", known.base_url or "", needed, needs))
    return table(("provider", "adapter", "address", "key", "extra"), rows)


def route_table(*tags: str, is_own_path: bool = False) -> str:
    """The routes of a protocol, in their order; paths of one agent alone may be left out."""
    rows = [
        (route.method, f"`{route.path}`", _scopes(route), _taken(route), route.summary)
        for route in AgentRuntime().asgi().routes
        if route.tag in tags and not (is_own_path and "{tenant}" in route.path)
    ]
    _required("routes" if rows else "", f"A protocol with the tags {tags}")
    return table(("method", "path", "scope", "takes", "what it does"), rows)


def _scopes(route: ApiRoute) -> str:
    return " and ".join(map(str, (route.access, *route.also)))


def _taken(route: ApiRoute) -> str:
    body = "" if route.body in (None, bytes) else f"`{route.body.__name__}`"
    fields = msgspec.structs.fields(route.query) if route.query is not None else ()
    query = [f"`?{field.encode_name}`" for field in fields if f"{{{field.name}}}" not in route.path]
    headers = [f"`{name}`" for name in route.headers]
    return ", ".join([*([body] if body else []), *query, *headers])


def metric_table() -> str:
    """Everything that `/metrics` tells, from what a server really says."""
    labels = {it.name: ", ".join(f"`{name}`" for name in it.labels) for it in _families()}
    text = asyncio.run(_exposition())
    found = re.findall(r"# HELP (\w+) (.*)\n# TYPE \w+ (\w+)", text)
    rows = [
        (f"`{name}`", kind, labels.get(name) or _shown_labels(name, text), about)
        for name, about, kind in found
    ]
    return table(("metric", "kind", "labels", "counts"), rows)


def _families() -> list[Any]:
    statistics = RuntimeStatistics(SystemClock())
    return list(Observations(ToolLabels(AgentRuntime().registry), statistics).families())


def _shown_labels(name: str, text: str) -> str:
    shown = re.search(rf"^{name}{{(.*)}}", text, re.MULTILINE)
    return ", ".join(f"`{it}`" for it in re.findall(r"(\w+)=", shown[1])) if shown else ""


async def _exposition() -> str:
    async with AgentRuntime() as runtime:
        app = runtime.asgi()
        (route,) = (it for it in app.routes if it.path == "/metrics")
        call = RouteCall(view=runtime.view("docs"), principal=LOCAL, path={}, headers={})
        reply: Any = await route.handle(call)
        return str(reply.body.decode())


def variable_table() -> str:
    """Every environment variable that the package reads, keys of model vendors left out."""
    found = {it for it in _constants() if _VARIABLE.fullmatch(it)} - {*OWN_VARIABLES}
    for name in found:
        _required(VARIABLES.get(name, ""), name)
    rows = [(f"`{name}`", about) for name, about in VARIABLES.items() if name in found]
    return table(("variable", "meaning"), rows)


def _constants() -> Iterator[str]:
    """Every text in the package that is a value of its own."""
    for node in _source():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _source() -> Iterator[ast.AST]:
    for path in sorted(Path(*awaken.__path__).rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def refusal_table() -> str:
    """The codes of refusals that are no errors of the package; A2A has names of its own."""
    found = {code: status for status, code in _refusals() if not code.isupper()}
    rows = [
        (f"`{code}`", str(found[code]), _required(REFUSALS.get(code, ""), f"Refusal '{code}'"))
        for code in sorted(found)
    ]
    return table(("code", "status", "meaning"), rows)


def _refusals() -> Iterator[tuple[int, str]]:
    for node in _source():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        match node.args[:2]:
            case [ast.Constant(int(status)), ast.Constant(str(code))] if (
                node.func.id == "HttpError"
            ):
                yield status, code


def status_table() -> str:
    """The statuses of errors: the first class that fits counts."""
    rows = [(f"`{kind.code}`", f"`{kind.__name__}`", str(status)) for kind, status in STATUSES]
    return table(("code", "class", "status"), rows)


def kind_tables() -> str:
    """Every kind of managed record, with its fields over HTTP."""
    return "\n\n".join(_kind_table(kind) for kind in config_kinds().values())


def _kind_table(kind: ConfigKind) -> str:
    told = {**HTTP_FIELDS, **attribute_texts(kind.spec), **MEANINGS.get(kind.spec.__name__, {})}
    required, rows = kind.wire_schema["required"], []
    for name, schema in kind.wire_schema["properties"].items():
        own = schema.get("description") or HTTP_FIELDS.get(f"{kind.name}.{name}")
        text = _required(own or told.get(name, ""), f"{kind.name}.{name}")
        default = "required" if name in required else _json_default(schema)
        note = _field_note(schema) + text.replace("; see below", "")
        rows.append((f"`{name}`", f"`{_json_type(schema)}`", default, note))
    facts = [_required(KINDS.get(kind.name, ""), f"Kind '{kind.name}'"), *_kind_facts(kind)]
    head = ("field", "JSON", "default", "meaning")
    return f"### {kind.name}\n\n{' '.join(facts)}\n\n{table(head, rows)}"


def _kind_facts(kind: ConfigKind) -> Iterator[str]:
    if kind.secrets:
        yield f"Secrets: {', '.join(f'`{it}`' for it in kind.secrets)}."
    if kind.patchable:
        yield f"Overridable: {', '.join(f'`{it}`' for it in sorted(kind.patchable))}."


def _field_note(schema: dict[str, Any]) -> str:
    text = "*Read only.* " if schema.get("readOnly") else ""
    return text or ("*Write only.* " if schema.get("writeOnly") else "")


def _json_default(schema: dict[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _json_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_json_type(it) for it in schema["anyOf"]))
    kinds = schema.get("type", "string")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    item = f" of {_json_type(schema['items'])}" if "items" in schema else ""
    return " or ".join(f"{it}{item}" if it == "array" else str(it) for it in kinds)


def audit_table() -> str:
    """What the audit calls what was done."""
    rows = [
        (f"`{it}`", _required(AUDIT_MEANINGS.get(it, ""), f"Audit action '{it}'"))
        for it in AuditAction
    ]
    return table(("action", "meaning"), rows)


def problem_table() -> str:
    """The codes of problems and diagnostics."""
    for code in _problem_codes():
        _required(PROBLEMS.get(code, ""), f"Problem '{code}'")
    stale = PROBLEMS.keys() - {*_constants()}
    _required("" if stale else "all are used", f"A problem that is not used any more, {stale},")
    return table(("code", "meaning"), [(f"`{it}`", about) for it, about in PROBLEMS.items()])


def _problem_codes() -> Iterator[str]:
    """The code of every problem that the package writes as a text of its own."""
    root = Path(*awaken.__path__)
    folders = ("managed", "contracts/config", "bootstrap/config_kinds", "bootstrap/config_layers")
    for path in (it for folder in folders for it in sorted((root / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from _problem_code(node)


def _problem_code(node: ast.Call) -> Iterator[str]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = node.args[1:2] if name in ("_problem", "add", "refuse", "warn") else []
    if name == "ConfigProblem":
        given = [it.value for it in node.keywords if it.arg == "code"]
    for code in given:
        if isinstance(code, ast.Constant) and _PROBLEM.fullmatch(str(code.value)):
            yield str(code.value)


def config_error_table() -> str:
    """The errors of managed configuration with their statuses."""
    rows = []
    for kind in sorted({*_family(ConfigError), HeadMoved}, key=lambda kind: kind.code):
        status = next(status for class_, status in STATUSES if issubclass(kind, class_))
        rows.append((f"`{kind.code}`", str(status), summary(kind)))
    return table(("code", "status", "meaning"), rows)


def config_limit_table() -> str:
    """The limits of managed configuration, with the values of the code."""
    rows = [
        ("the body of a record", f"{change_sets.BODY_BYTES_MAX:,} bytes"),
        ("records of a publication", f"{change_sets.RECORDS_MAX:,}"),
        ("records of a draft", f"{DRAFT_RECORDS_MAX:,}"),
        ("a draft without an edit", f"{drafts.DRAFT_LIFE_MS // 86_400_000} days"),
        ("problems of a refusal; then `problem_count`", f"{PROBLEMS_MAX:,}"),
        ("the description of a tool", f"{specs.DESCRIPTION_BYTES_MAX:,} bytes"),
        ("files of a skill", f"{specs.SKILL_FILES_MAX:,}"),
        ("the body and the files of a skill", f"{specs.SKILL_BYTES_MAX:,} bytes"),
        ("a secret", f"{secrets.SECRET_BYTES_MAX:,} bytes"),
        ("the reason of a switch", f"{heads.REASON_CHARS_MAX:,} characters"),
        ("the answer of a process to `require: all`", f"{followers.TRIAL_MS // 1000} seconds"),
        ("the pause between two looks at the head", f"{live.POLL_MS // 1000} seconds"),
    ]
    return table(("what", "at most"), rows)


def key_table() -> str:
    """The loop's state keys."""
    constants = {
        id(value): name for name, value in vars(loop_state).items() if isinstance(value, StateKey)
    }
    documented = attribute_texts(loop_state)
    rows = []
    for key in loop_state.LOOP_KEYS:
        constant = constants[id(key)]
        text = KEY_MEANINGS.get(constant) or _first_line(documented.get(constant, ""))
        stored = "yes" if key.persistent else "no"
        names = (f"`{constant}`", f"`{key.name}`")
        rows.append((*names, str(key.scope), str(key.merge), stored, _required(text, constant)))
    return table(("constant", "name", "scope", "merge", "stored", "meaning"), rows)


def action_table() -> str:
    """The loop's scheduled actions."""
    rows = [
        (f"`{name}`", str(spec.phase), _type(spec.payload_type), ACTION_MEANINGS[name])
        for name, spec in vars(loop_state).items()
        if isinstance(spec, ScheduledActionSpec)
    ]
    return table(("constant", "phase", "payload", "meaning"), rows)


def commands() -> str:
    """Every command with its arguments and options; after a group come its commands."""
    group: Any = typer.main.get_group(app)
    found = {name: group.commands[name] for name in sorted(group.commands)}
    return "\n\n".join(_with_children(name, command) for name, command in found.items())


def _with_children(name: str, command: Any) -> str:
    children = getattr(command, "commands", {})
    parts = [_with_children(f"{name} {child}", children[child]) for child in sorted(children)]
    return "\n\n".join([_command(name, command), *parts])


def _command(name: str, command: Any) -> str:
    rows = [(_usage(parameter), parameter.help or "") for parameter in command.params]
    rows = [row for row in rows if row[1]]
    parts = [f"### awaken {name}", (command.help or "").strip()]
    if name in EXAMPLES:
        parts.append(f"```console\n{EXAMPLES[name]}\n```")
    return "\n\n".join([*parts, table(("argument", "meaning"), rows)] if rows else parts)


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return " / ".join(f"`{name}`" for name in (parameter.opts[0], *parameter.secondary_opts))
    return f"`{parameter.metavar or parameter.name.upper()}`"


def attribute_table(kind: type) -> str:
    """The attributes of a class, as listed above."""
    rows = [(f"`{name}`", text) for name, text in MEANINGS[kind.__name__].items()]
    return table(("attribute", "meaning"), rows)


def class_text(kind: type) -> str:
    """What a class says about itself."""
    return _prose(inspect.getdoc(kind), kind.__name__)


def constructor(kind: type) -> str:
    """How an object of a class is made."""
    (node,) = (node for node in _functions(kind) if node.name == "__init__")
    return f"```text\n{_signature(node, kind.__name__)}\n```\n\n{class_text(kind)}"


def members(kind: type) -> str:
    """The public methods and properties of a class: signature and docstring."""
    ours = [it for it in kind.__mro__ if it is kind or it.__module__.startswith("awaken.bootstrap")]
    public = [node for it in ours for node in _functions(it) if not node.name.startswith("_")]
    return "\n\n".join(_member(node, f"{kind.__name__}.{node.name}") for node in public)


def _functions(kind: type) -> list[Function]:
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    found = [node for node in tree.body[0].body if isinstance(node, Function)]
    return [node for node in found if not any(map(_is_overload, node.decorator_list))]


def _is_overload(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "overload"


def _member(node: Function, title: str) -> str:
    about = _prose(ast.get_docstring(node), title)
    return f"### {title}\n\n```text\n{_signature(node, title)}\n```\n\n{about}"


def _signature(node: Function, title: str) -> str:
    returns = f" -> {_annotation(node.returns)}" if node.returns and node.name != "__init__" else ""
    if any(isinstance(it, ast.Name) and it.id == "property" for it in node.decorator_list):
        return f"{title}{returns}"
    start = "await " if isinstance(node, ast.AsyncFunctionDef) and not _yields(node) else ""
    parts = _parameters(node.args)
    line = f"{start}{title}({', '.join(parts)}){returns}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"{start}{title}(", *(f"    {part}," for part in parts), f"){returns}"])


def _parameters(arguments: ast.arguments) -> list[str]:
    """The parameters without `self`, as they are written."""
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    parts = [_parameter(one, default) for one, default in zip(plain, defaults, strict=True)][1:]
    if arguments.kwonlyargs:
        parts.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parts += [_parameter(one, default) for one, default in named]
    if arguments.kwarg is not None:
        parts.append(f"**{_parameter(arguments.kwarg, None)}")
    return parts


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    text = f"{parameter.arg}: {_annotation(parameter.annotation)}"
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _annotation(node: ast.expr | None) -> str:
    if node is None:
        return "Any"
    text = ast.unparse(node).strip("'")
    return text.removeprefix("Unpack[").removesuffix("]") if text.startswith("Unpack[") else text


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Yield) for part in ast.walk(node))


def _prose(text: str | None, what: str) -> str:
    """A docstring as Markdown; its arguments and what it raises become lists."""
    body, _, raised = (text or "").partition("Raises:\n")
    body = body.partition("Args:\n")[0]
    _required(body, what)
    arguments = [f"- `{name}`: {about}" for name, about in argument_texts(text).items()]
    errors = [
        line if line.startswith(" ") else f"- raises `{line}".replace(":", "`:", 1)
        for line in textwrap.dedent(raised).splitlines()
    ]
    lists = [*arguments, *(["", *errors] if arguments and errors else errors)]
    return "\n".join([body.rstrip(), "", *lists]).rstrip()


def argument_texts(text: str | None) -> dict[str, str]:
    """The arguments that a docstring explains; an argument that only names options is left out."""
    section = (text or "").partition("Args:\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for line in textwrap.dedent(section).splitlines():
        name, colon, about = line.partition(": ")
        if colon and not line.startswith(" "):
            found[name] = about
        elif found:
            found[list(found)[-1]] += f" {line.strip()}"
    return {name: about for name, about in found.items() if not about.endswith(":")}


def meaning(kind: Any, name: str) -> str:
    """What a field means: from the list above, else from its own text or its docstring."""
    text = (
        MEANINGS.get(kind.__name__, {}).get(name)
        or attribute_texts(kind).get(name)
        or argument_texts(inspect.getdoc(kind)).get(name, "")
    )
    return _required(text, f"{kind.__name__}.{name}")


def _required(text: str, what: str) -> str:
    if not text:
        raise SystemExit(f"{what} has no description; write one below it or in MEANINGS.")
    return " ".join(text.split())


def attribute_texts(owner: Any) -> dict[str, str]:
    """The strings that stand below assignments in the source of a class or a module."""
    tree: Any = ast.parse(inspect.getsource(owner))
    body = tree.body[0].body if isinstance(owner, type) else tree.body
    texts = {}
    for statement, following in pairwise(body):
        text = _constant_text(following)
        if isinstance(statement, ast.AnnAssign) and text:
            texts[ast.unparse(statement.target)] = text
    return texts


def _constant_text(node: ast.AST) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def _first_line(text: str) -> str:
    return text.split("\n", maxsplit=1)[0]


def summary(kind: type) -> str:
    """The first line of a class's docstring."""
    return _first_line(inspect.getdoc(kind) or "")


def _type(type_: Any) -> str:
    return "`" + type_text(type_).replace("|", "\\|") + "`"


def type_text(type_: Any) -> str:
    """A type as people write it; the same in every version of Python."""
    if type_ is StopCondition:
        return "StopCondition"
    if type_ in (None, NoneType):
        return "None"
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    parts = ["..." if part is Ellipsis else type_text(part) for part in arguments]
    if origin in (Union, UnionType):
        return " | ".join(parts)
    name = str(getattr(origin or type_, "__name__", type_))
    return f"{name}[{', '.join(parts)}]" if parts else name


def _default(field: Any) -> str:
    if field.required:
        return "required"
    if field.default is not msgspec.NODEFAULT:
        return _value(field.default)
    return _value(field.default_factory())


def _dataclass_default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return _value(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return _value(field.default_factory())
    return "required"


def _value(value: object) -> str:
    if isinstance(value, RateLimit):
        return f"`{value.per_s:g}` a second, `{value.burst}` at once"
    if isinstance(value, str):
        return f"`{str(value)!r}`" if len(value) <= LONG_TEXT else "a text"
    return f"`{value!r}`" if not isinstance(value, msgspec.Struct) else "its defaults"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(cells) for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "public-modules": public_modules,
    "event-table": event_table,
    "errors": error_table,
    "agent": agent_table,
    "agent-spec": lambda: struct_table(AgentSpec),
    "model-spec": lambda: struct_table(ModelSpec),
    "model-prices": lambda: struct_table(ModelPrices),
    "model-pool": lambda: struct_table(ModelPool),
    "pool-member": lambda: struct_table(PoolMember),
    "provider-spec": lambda: struct_table(ProviderSpec),
    "known-providers": provider_table,
    "openai-chat-options": lambda: struct_table(ChatOptions),
    "openai-responses-options": lambda: struct_table(ResponsesOptions),
    "anthropic-options": lambda: struct_table(AnthropicOptions),
    "gemini-options": lambda: struct_table(GeminiOptions),
    "model-errors": model_error_table,
    "retry-policy": lambda: struct_table(RetryPolicy),
    "breaker-policy": lambda: struct_table(BreakerPolicy),
    "compaction-config": lambda: struct_table(CompactionConfig),
    "budget": lambda: struct_table(Budget),
    "token-usage": lambda: struct_table(TokenUsage),
    "remote-endpoint": lambda: struct_table(RemoteEndpoint),
    "tool-options": lambda: options_table(ToolOptions, described_by=tool),
    "tool-descriptor": lambda: struct_table(ToolDescriptor),
    "limits": lambda: struct_table(Limits),
    "mailbox-config": lambda: struct_table(MailboxConfig),
    "delivery-options": lambda: options_table(DeliveryOptions),
    "submit-receipt": lambda: struct_table(SubmitReceipt),
    "run-dispatch": lambda: struct_table(RunDispatch),
    "stop-conditions": stop_table,
    "context-policy": lambda: struct_table(ContextWindowPolicy),
    "inference-override": lambda: struct_table(InferenceOverride),
    "run-options": lambda: options_table(RunOptions, described_by=RunRequest),
    "decision-options": lambda: options_table(DecisionOptions, described_by=ToolCallResume),
    "runtime-options": lambda: options_table(RuntimeOptions, described_by=AgentRuntime),
    "agent-runtime": lambda: constructor(AgentRuntime),
    "agent-runtime-attributes": lambda: attribute_table(AgentRuntime),
    "agent-runtime-members": lambda: members(AgentRuntime),
    "agent-resolver": lambda: "\n\n".join(
        [class_text(AgentResolver), members(AgentResolver), members(ListingResolver)]
    ),
    "run-handle": lambda: f"{class_text(RunHandle)}\n\n{members(RunHandle)}",
    "remembered": lambda: f"{class_text(RememberedAnswers)}\n\n{members(RememberedAnswers)}",
    "run-result": lambda: struct_table(RunResult),
    "run-result-members": lambda: members(RunResult),
    "run-request": lambda: struct_table(RunRequest),
    "tool-context": lambda: constructor(ToolContext),
    "tool-context-attributes": lambda: attribute_table(ToolContext),
    "tool-context-members": lambda: members(ToolContext),
    "tool-state": lambda: f"{class_text(ToolState)}\n\n{members(ToolState)}",
    "server-config": lambda: struct_table(ServerConfig),
    "server-limits": lambda: struct_table(ServerLimits),
    "rate-limit": lambda: struct_table(RateLimit),
    "token-spec": lambda: struct_table(TokenSpec),
    "jwt-config": lambda: struct_table(JwtConfig),
    "metrics": metric_table,
    "variables": variable_table,
    "refusals": refusal_table,
    "statuses": status_table,
    "routes-native": lambda: route_table("runs", "threads", "tickets", "agents"),
    "routes-ai-sdk": lambda: route_table("ai-sdk"),
    "routes-ag-ui": lambda: route_table("ag-ui"),
    "routes-a2a": lambda: route_table("a2a", is_own_path=True),
    "routes-mcp": lambda: route_table("mcp"),
    "routes-openai": lambda: route_table("openai"),
    "routes-operations": lambda: route_table("operations", "server", "console"),
    "routes-operators": lambda: route_table("operators"),
    "routes-schedules": lambda: route_table("schedules", "triggers"),
    "routes-memory": lambda: route_table("memory", "knowledge"),
    "body-start-run": lambda: struct_table(StartRun),
    "body-new-message": lambda: struct_table(NewMessage),
    "body-new-input": lambda: struct_table(NewInput),
    "body-run-inputs": lambda: struct_table(RunInputs),
    "body-mailbox-item": lambda: struct_table(MailboxItem),
    "body-decision": lambda: struct_table(TicketDecision),
    "section-permission": lambda: section_tables(PermissionConfig, RuleConfig),
    "section-memory": lambda: section_tables(MemoryConfig),
    "memory-limits": lambda: section_tables(MemoryLimits, EmbeddingSpec),
    "section-reminder": lambda: section_tables(
        ReminderConfig, ReminderRule, OutputMatch, FieldMatch, ReminderMessage
    ),
    "section-skills": lambda: section_tables(SkillsConfig, ScriptsConfig),
    "section-deferred": lambda: section_tables(DeferredToolsConfig, LoadRule, DiscountedBeta),
    "section-generative-ui": lambda: section_tables(
        GenerativeUiConfig, JsonRenderConfig, OpenUiConfig
    ),
    "section-observability": lambda: section_tables(ObservabilityConfig),
    "section-guardrails": lambda: section_tables(GuardrailsConfig, GuardRule),
    "section-mcp": lambda: section_tables(
        McpConfig, McpServer, Stdio, Http, ClientCredentials, Login, Restart, McpLimits, Root
    ),
    "routes-config": lambda: route_table("config", "audit"),
    "config-kinds": kind_tables,
    "config-audit": audit_table,
    "config-problems": problem_table,
    "config-errors": config_error_table,
    "config-limits": config_limit_table,
    "publish-rules": lambda: section_tables(PublishRules, FreezeWindow, RequiredEval),
    "canary-plan": lambda: section_tables(CanaryPlan, Guardrails),
    "scorers": scorer_tables,
    "gate": lambda: section_tables(Gate, GateTerms, RequireRule, CompareRule, CasesRule),
    "loop-keys": key_table,
    "loop-actions": action_table,
    "commands": commands,
}
_PART = re.compile(r"<!-- generated:(?P<name>[\w-]+) -->\n.*?<!-- /generated -->", re.DOTALL)


def regenerated(text: str) -> str:
    """Return a page with its generated parts written anew."""
    return _PART.sub(_part, text)


def _part(match: re.Match[str]) -> str:
    name = match["name"]
    return f"<!-- generated:{name} -->\n\n{PARTS[name]()}\n\n<!-- /generated -->"


def main(arguments: list[str]) -> int:
    """Write the pages, or say which of them are out of date."""
    is_check = "--check" in arguments
    stale = []
    for page in sorted(REFERENCE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        wanted = regenerated(text)
        if wanted == text:
            continue
        stale.append(page.name)
        if not is_check:
            page.write_text(wanted, encoding="utf-8")
    if stale:
        sys.stdout.write(f"{', '.join(stale)}: {OUT_OF_DATE if is_check else 'written'}\n")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
