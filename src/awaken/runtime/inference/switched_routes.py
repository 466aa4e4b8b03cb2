"""The models that may be asked while an operator has disabled some."""

from awaken.contracts.models.errors import ModelDisabled
from awaken.contracts.models.model_specs import ModelSpec
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.run import Run
from awaken.runtime.switches import CompiledSwitches


def enabled_routes(
    run: Run, routes: tuple[ModelRoute, ...], switched: CompiledSwitches
) -> tuple[ModelRoute, ...]:
    """Return those routes that may be asked, in order.

    A model that a run names by its upstream name is disabled if a disabled model has that name.

    Raises:
        ModelDisabled: All of them are disabled.
    """
    if not (switched.models or switched.providers):
        return routes
    known = run.pinned.registries.models
    disabled = [it for name in switched.models if isinstance(it := known.get(name), ModelSpec)]
    upstream = {(it.provider_id, it.upstream_model) for it in disabled}
    found = tuple(
        route
        for route in routes
        if not switched.is_model_disabled(route.id, route.spec.provider_id)
        and (route.spec.provider_id, route.spec.upstream_model) not in upstream
    )
    if not found and routes:
        names = ", ".join(f"'{route.id}'" for route in routes)
        raise ModelDisabled(f"No model can be asked: {names} disabled by the operator.")
    return found
