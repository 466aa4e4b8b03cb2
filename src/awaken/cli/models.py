"""`awaken models`: lists providers, tests a model, and shows the health of models."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.providers import (
    Connections,
    ProviderClient,
    apply_base_url,
    find_key,
    find_missing_extra,
    find_missing_settings,
    key_names,
    needs_key,
    provider_clients,
)
from awaken.bootstrap.registries import registry_set
from awaken.bootstrap.stores import profiles_of
from awaken.contracts.clock import SystemClock
from awaken.contracts.errors import RefusedInput, UsageError
from awaken.contracts.models.errors import (
    ModelError,
    ModelTimeout,
    ProviderFailed,
    ProviderUnusable,
    Unauthorized,
)
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.runtime.model_health.breaker import Breaker
from awaken.runtime.resolution.models import route_of
from awaken.services.model_status import list_breakers, retry_time

from .apps import FORMS, App, load_app
from .command_context import CommandContext, store_command
from .command_line import new_app
from .model_hints import NOT_FOUND, suggest_known_model
from .model_trial import Trial, try_model
from .output import as_json, facts, moment, plain, print_stdout, table
from .reports import IsJson, report_errors
from .spinner import show_spinner

app = new_app("Providers, and whether their models answer.")


AppPlace = Annotated[
    str | None, typer.Option("--app", help=f"Also the agents and providers of an app: {FORMS}.")
]


@app.command("list")
def list_providers(app_place: AppPlace = None, *, is_json: IsJson = False) -> None:
    """List the providers, and what each needs on this machine."""
    with report_errors(is_json=is_json):
        app = None if app_place is None else load_app(app_place)
        specs = {} if app is None else _specs(app)
        clients = provider_clients(specs, Connections())
        providers = [provider_facts(it) for it in clients.values() if type(it) is ProviderClient]
        agents = [] if app is None else _agent_models(app, specs)
    if is_json:
        print_stdout(as_json({"providers": providers, "agents": agents}))
        return
    head = ("PROVIDER", "ADAPTER", "BASE URL", "KEY", "LACKS")
    print_stdout(table(head, (_provider_row(it) for it in providers)))
    if agents:
        rows = ((it["agent_id"], it["model_id"], it["provider_id"]) for it in agents)
        print_stdout("\n" + table(("AGENT", "MODEL", "PROVIDER"), rows))


def provider_facts(client: ProviderClient) -> dict[str, Any]:
    """Describe a provider on this machine; says whether there is a key, never the key."""
    spec, problem = client.spec, None
    try:
        spec = apply_base_url(spec)
    except ProviderUnusable as error:
        problem = str(error)
    try:
        has_key = find_key(spec) is not None
    except Unauthorized:
        has_key = False
    return {
        "id": spec.id,
        "adapter": spec.adapter,
        "base_url": spec.base_url,
        "has_key": has_key,
        "needs_key": needs_key(spec),
        "key_names": key_names(spec),
        "missing_extra": find_missing_extra(spec),
        "missing_settings": find_missing_settings(spec),
        "problem": problem,
    }


def _provider_row(known: Mapping[str, Any]) -> tuple[object, ...]:
    wanted = f"no, set {' or '.join(known['key_names'])}"
    install = f"pip install 'awaken[{known['missing_extra']}]'" if known["missing_extra"] else ""
    setting = f"set {known['missing_settings'][0]}" if known["missing_settings"] else ""
    key = "yes" if known["has_key"] else wanted if known["needs_key"] else "not needed"
    return (
        known["id"],
        known["adapter"],
        known["base_url"] or "",
        key,
        ", ".join(filter(None, (install, setting, known["problem"]))),
    )


def _specs(app: App) -> dict[str, ProviderSpec]:
    """The providers of an app: those of its runtime, and specs or mappings in its module."""
    values: list[object] = []
    for value in app.values.values():
        values += value.values() if isinstance(value, dict) else (value,)
    found = {value.id: value for value in values if isinstance(value, ProviderSpec)}
    if app.runtime is None:
        return found
    clients = app.runtime.registry.snapshot().registries.providers.items()
    return found | {name: it.spec for name, it in clients if isinstance(it, ProviderClient)}


def _agent_models(app: App, specs: Mapping[str, ProviderSpec]) -> list[dict[str, str]]:
    runtime = app.runtime or AgentRuntime(app.agents, providers=specs)
    snapshot = runtime.registry.snapshot()
    return [
        {"agent_id": name, "model_id": route.id, "provider_id": route.spec.provider_id}
        for name in snapshot.registries.agents
        for route in snapshot.resolve(name).models
    ]


@app.command("test")
def ask_model(
    model: Annotated[str, typer.Argument(metavar="PROVIDER:MODEL", help="Such as openai:gpt-5.")],
    app_place: AppPlace = None,
    *,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, help="How many seconds it may take.")
    ] = 60,
    is_json: IsJson = False,
) -> None:
    """Ask a model one small question with one tool, and show its features and its speed."""
    with report_errors(is_json=is_json):
        specs = {} if app_place is None else _specs(load_app(app_place))
        with show_spinner(f"Asks {plain(model)}…"):
            trial = asyncio.run(_try_named_model(model, specs, timeout_s))
        if not (trial.has_text or trial.has_tool_call):
            raise ProviderFailed(f"model '{model}' answered with nothing")
    print_stdout(as_json(trial) if is_json else _trial_text(trial))


async def _try_named_model(
    model: str, specs: Mapping[str, ProviderSpec], timeout_s: float
) -> Trial:
    connections = Connections()
    try:
        registries = registry_set([], [], [], provider_clients(specs, connections), {})
        route = route_of(registries, model)
        async with asyncio.timeout(timeout_s):
            return await try_model(route, SystemClock())
    except UsageError as error:
        raise RefusedInput(what="model", problem=str(error)) from error
    except ModelError as error:
        hint = suggest_known_model(model) if error.code == NOT_FOUND else ""
        raise type(error)(f"model '{model}': {error} {hint}".rstrip()) from error
    except TimeoutError as error:
        message = f"model '{model}' gave no whole answer within {timeout_s:g} s"
        raise ModelTimeout(message) from error
    finally:
        await connections.close()


def _trial_text(trial: Trial) -> str:
    features = ("text", "tool_call", "reasoning", "usage", "cached_tokens")
    usage = trial.usage or TokenUsage()
    first, speed = trial.first_token_ms, trial.tokens_per_s
    return facts(
        [
            ("model", trial.model),
            ("first token", None if first is None else f"{first} ms"),
            ("total", f"{trial.total_ms} ms"),
            ("tokens per second", speed),
            ("tokens", f"{usage.prompt_tokens or 0} in, {usage.completion_tokens or 0} out"),
            *(
                (name.replace("_", " "), "yes" if getattr(trial, f"has_{name}") else "no")
                for name in features
            ),
        ]
    )


@app.command("health")
@store_command()
async def show_health(context: CommandContext) -> None:
    """Show the circuit breakers that the processes of a store share."""
    breakers = await list_breakers(profiles_of(context.store))
    document = [{"model_id": name, **_breaker_facts(it)} for name, it in breakers]
    head = ("MODEL", "STATE", "FAILURES", "LAST ERROR", "SINCE", "ASK AGAIN")
    rows = ((name, *_breaker_row(it)) for name, it in breakers)
    text = table(head, rows) if breakers else "No model has failed often enough to be noticed."
    context.show({"items": document}, text)


def _breaker_facts(breaker: Breaker) -> dict[str, Any]:
    return {
        **{name: getattr(breaker, name) for name in breaker.__struct_fields__},
        "retry_at": retry_time(breaker),
    }


def _breaker_row(breaker: Breaker) -> tuple[object, ...]:
    return (
        breaker.state,
        breaker.failures,
        breaker.error,
        moment(breaker.changed_at),
        moment(retry_time(breaker)),
    )
