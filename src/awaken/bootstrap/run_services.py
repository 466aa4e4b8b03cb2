"""Builds the services that all runs of one runtime share, from the runtime's options."""

from typing import TYPE_CHECKING, Any

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.store import Store
from awaken.providers.pricing import KnownPrices
from awaken.runtime.limits import Limits, ToolSlots
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.run import Services

from .arguments import check_message_sink
from .requests import check_budgets

if TYPE_CHECKING:
    from awaken.runtime.primitives.dependencies import Dependencies


def build_services(
    options: Any,
    limits: Limits,
    clock: Clock,
    ids: IdSource,
    profile: ProfileStore,
    store: Store,
) -> Services:
    """Build the services of an engine; `options` are those of the runtime.

    Raises:
        InvalidInput: A budget or the message sink is malformed.
    """
    return Services(
        clock=clock,
        ids=ids,
        limits=limits,
        tool_slots=ToolSlots(),
        profile=profile,
        health=ModelHealth(clock, profile if store.is_shared else None),
        prices=options.get("prices") or KnownPrices(clock),
        budgets=check_budgets(options.get("budgets", ())),
        message_sink=check_message_sink(options.get("message_sink")),
        dependencies=_build_dependencies(options.get("deps")),
        may_rest=store.is_shared or options.get("has_worker", True),
    )


def _build_dependencies(given: Any) -> "Dependencies | None":
    if given is None:
        return None
    # Loaded by the first runtime that has some.
    from awaken.runtime.primitives.dependencies import Dependencies  # noqa: PLC0415

    return Dependencies(given)
