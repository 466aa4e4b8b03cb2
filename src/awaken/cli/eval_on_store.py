"""Evals on a store: with its publications and drafts, and durable as those of a server."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import InvalidInput
from awaken.contracts.evals.worlds import Variant
from awaken.contracts.storage.store import Store
from awaken.evals.evaluating import Dataset, EvalResult, build_spec, try_spec
from awaken.evals.runner import EvalRunner

from .apps import App
from .stores import check_exists, store_at

T = TypeVar("T")


async def with_runner(
    app: App,
    named: Store | str | None,
    use: Callable[[EvalRunner], Awaitable[T]],
    *,
    is_managed: bool = False,
) -> T:
    """Use the evals of a store, with the agents of an app.

    With `is_managed` the publications and drafts of the store count, and this process is one of
    the workers of the store meanwhile.

    Raises:
        InvalidInput: There is no store, or the app has no agent.
    """
    store = store_at(named)
    await check_exists(store)
    options: dict[str, Any] = {"store": store, "has_worker": is_managed}
    if is_managed and not (app.runtime is not None and app.runtime.given.get("managed")):
        options["managed"] = True
    if app.runtime is not None:
        runtime = app.runtime.with_options(**options)
    elif app.agents:
        runtime = AgentRuntime(app.agents, **options)
    else:
        raise InvalidInput(what="--app", problem=f"'{app.place}' has no agent")
    async with runtime:
        try:
            return await use(runtime.evals)
        finally:
            await runtime.evals.close()


def is_on_store(variants: Sequence[Variant]) -> bool:
    """Whether a variant runs on a publication or a draft, which only the store has."""
    return any(it.publication is not None or it.draft_id is not None for it in variants)


async def try_on_store(
    app: App,
    named: Store | str | None,
    dataset: Dataset,
    variants: Sequence[Variant],
    options: dict[str, Any],
    baseline: EvalResult | None = None,
) -> EvalResult:
    """Try a dataset of a store with its publications and drafts; the eval stays in the store.

    Raises:
        InvalidInput: The store does not exist.
        EvalError: The eval cannot be planned or compared; nothing was spent.
    """
    spec = build_spec(dataset, variants, options)

    async def use(runner: EvalRunner) -> EvalResult:
        return await try_spec(runner, spec, dataset, baseline)

    return await with_runner(app, named, use, is_managed=True)
