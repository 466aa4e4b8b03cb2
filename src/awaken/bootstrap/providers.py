"""Makes clients for providers by name or spec; a client is created at its first call."""

import importlib
import importlib.util
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from awaken.contracts.errors import InvalidInput, NotServedHere, UsageError
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.models.errors import ModelError, ProviderUnusable, Unauthorized
from awaken.contracts.models.inference import InferenceRequest, ModelClient, ModelEvent
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString, SecretUnresolved
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .known_providers import ADAPTERS, KNOWN_PROVIDERS
from .registries import check_spec

_CALL_PATH = re.compile(r"(/chat/completions|/responses|(/v1)?/messages)/*$")


class Connections:
    """The connection pool that the providers of one runtime share; created by the first call."""

    def __init__(self) -> None:
        self._pool: Any = None

    def pool(self) -> Any:
        """The pool; the first use imports aiohttp."""
        if self._pool is None:
            self._pool = importlib.import_module("awaken.outbound.pool").HttpPool()
        return self._pool

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._pool is not None:
            await self._pool.close()


class ProviderClient:
    """A provider by its spec. Nothing is imported, looked up or connected before the first call."""

    __slots__ = ("_client", "_connections", "name", "needs_model", "spec")

    def __init__(self, spec: ProviderSpec, connections: Connections) -> None:
        self.name = spec.id
        self.spec = spec
        self.needs_model = spec.id in KNOWN_PROVIDERS
        """Whether an agent must name a model as well: a vendor has many models."""
        self._connections = connections
        self._client: ModelClient | None = None

    def __repr__(self) -> str:
        return f"ProviderClient({self.name!r})"

    def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Call the model and yield its answer as it arrives.

        Raises:
            ProviderUnusable: The adapter's extra is not installed, or a setting is wrong.
            ModelError: The call failed, or there is no key for it.
        """
        return self._get_client().stream(request)

    @property
    def server(self) -> ServerAddress | None:
        """The server that is called; None if it is unknown, or if the call itself will fail."""
        try:
            client = self._get_client()
        except ModelError:
            return None
        return getattr(client, "server", None)

    def _get_client(self) -> ModelClient:
        if self._client is None:
            self._client = _make_client(self.spec, self._connections)
        return self._client


def provider_clients(
    given: Mapping[str, ModelClient | ProviderSpec], connections: Connections
) -> dict[str, ModelClient]:
    """Make clients for every known provider and for the given ones, which take precedence.

    Raises:
        InvalidInput: A spec names an adapter that does not exist, or a malformed address.
        InvalidSpec: Something else in a spec does not fit.
    """
    clients: dict[str, ModelClient] = {
        name: ProviderClient(_spec_of_known(name), connections) for name in KNOWN_PROVIDERS
    }
    for name, provider in given.items():
        if isinstance(provider, ProviderSpec):
            clients[name] = ProviderClient(
                complete_spec(name, check_spec("provider", provider)), connections
            )
        else:
            clients[name] = provider
    return clients


def key_names(spec: ProviderSpec) -> tuple[str, ...]:
    """The environment variables in which the key of a provider may be, best first."""
    if known := KNOWN_PROVIDERS.get(spec.id):
        return known.keys
    # The vendor's own key is sent to the vendor and to no other address.
    vendors = ADAPTERS[spec.adapter].keys if spec.base_url is None else ()
    return (_own_key_name(spec.id), *vendors)


@lru_cache(maxsize=256)
def _own_key_name(provider_id: str) -> str:
    # Asked for by every call.
    return re.sub(r"[^A-Z0-9]", "_", provider_id.upper()) + "_API_KEY"


def find_key(spec: ProviderSpec) -> RedactedString | None:
    """Find the current key of a provider; None if it needs none.

    Raises:
        Unauthorized: There is none, or it is malformed; names the variable to set.
    """
    try:
        key = spec.read_key()
    except SecretUnresolved as error:
        raise Unauthorized(f"provider '{spec.id}' has no key: {error}") from None
    if key is not None:
        return key
    names = key_names(spec)
    for name in names:
        text = os.environ.get(name, "").strip()
        if text and not (text.isascii() and text.isprintable()):
            message = f"the key in {name} has characters that no key has; copy it again"
            raise Unauthorized(message)
        if text:
            return RedactedString(text)
    if names and needs_key(spec):
        message = (
            f"provider '{spec.id}' has no key: set {' or '.join(names)}, or pass "
            f"providers={{'{spec.id}': ProviderSpec(…, api_key=…)}}"
        )
        raise Unauthorized(message)
    return None


def list_missing_keys(snapshot: RegistrySnapshot) -> list[str]:
    """List the key problems of the providers that agents use, one per provider."""
    problems: dict[str, str] = {}
    for agent_id in snapshot.registries.agents:
        try:
            models = snapshot.resolve(agent_id).models
        except NotServedHere:
            # The process serves its other agents; the log says why it cannot use this one.
            continue
        for route in models:
            client = route.client
            if not isinstance(client, ProviderClient) or client.name in problems:
                continue
            try:
                find_key(apply_base_url(client.spec))
            except (Unauthorized, ProviderUnusable) as error:
                problems[client.name] = f"Agent '{agent_id}' cannot ask its model: {error}"
    return list(problems.values())


def needs_key(spec: ProviderSpec) -> bool:
    """Whether the provider is at its vendor's own address; a configured one may need no key."""
    known = KNOWN_PROVIDERS.get(spec.id)
    if known is None:
        return spec.base_url is None
    return known.needs_key and spec.base_url == known.base_url


def base_url_name(provider_id: str) -> str:
    """The environment variable that overrides the address of a known provider."""
    return re.sub(r"[^A-Z0-9]", "_", provider_id.upper()) + "_BASE_URL"


def find_missing_extra(spec: ProviderSpec) -> str | None:
    """The extra that must be installed before the provider can be used, if any."""
    adapter = ADAPTERS[spec.adapter]
    is_there = adapter.requires is None or importlib.util.find_spec(adapter.requires) is not None
    return None if is_there else adapter.extra


def find_missing_settings(spec: ProviderSpec) -> tuple[str, ...]:
    """The environment variables of which one must be set before the provider can be used."""
    options = spec.adapter_options
    for name, variables in ADAPTERS[spec.adapter].settings.items():
        if not options.get(name) and not any(os.environ.get(it) for it in variables):
            return variables
    return ()


def _spec_of_known(name: str) -> ProviderSpec:
    known = KNOWN_PROVIDERS[name]
    return ProviderSpec(
        id=name,
        adapter=known.adapter,
        base_url=known.base_url,
        adapter_options=known.options,
    )


def complete_spec(name: str, spec: ProviderSpec) -> ProviderSpec:
    """Add the defaults of its vendor to a spec whose types are checked; no secret is read.

    Raises:
        InvalidInput: It names an adapter that does not exist, or a malformed address.
        AwakenError: The adapter refuses its options.
    """
    what = f"provider '{name}'"
    if spec.id != name:
        raise InvalidInput(what=what, problem=f"its spec is that of '{spec.id}'")
    if spec.adapter not in ADAPTERS:
        problem = f"there is no adapter '{spec.adapter}'; known: {', '.join(sorted(ADAPTERS))}"
        raise InvalidInput(what=what, problem=problem)
    if spec.base_url is not None and (problem := _address_problem(spec.base_url)):
        raise InvalidInput(what=what, problem=problem)
    adapter, known = ADAPTERS[spec.adapter], KNOWN_PROVIDERS.get(name)
    if adapter.is_codec and spec.adapter_options:
        # A codec refuses unknown options; better now than in the first run.
        _import_class(adapter.module, adapter.class_name)(spec.adapter_options)
    if known is None:
        return spec
    # Without the vendor's address its key would be sent to the vendor of the wire format.
    usual = known.options if spec.adapter == known.adapter else {}
    return msgspec.structs.replace(
        spec,
        base_url=spec.base_url or known.base_url,
        adapter_options={**usual, **spec.adapter_options},
    )


def _address_problem(base_url: str) -> str:
    """Why a text cannot be the address of a provider; empty if it can be one."""
    try:
        parts = urlsplit(base_url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        return "its base_url is no http:// or https:// address"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "its base_url has a user, a query or a fragment; a key belongs into api_key"
    if found := _CALL_PATH.search(parts.path):
        return f"its base_url ends with '{found[0]}', which is added to it for a call; leave it off"
    return ""


def _make_client(spec: ProviderSpec, connections: Connections) -> ModelClient:
    adapter, placed = ADAPTERS[spec.adapter], apply_base_url(spec)
    make = _import_class(adapter.module, adapter.class_name)
    try:
        client: ModelClient
        if adapter.is_codec:
            http = _import_class("http.client", "HttpModelClient")
            codec = make(spec.adapter_options, _origin(spec, make))
            pool, setting = connections.pool(), _address_setting(spec)
            client = http(placed, codec, pool, lambda: find_key(placed), setting)
        else:
            client = make(placed, connections.pool()) if adapter.has_pool else make(placed)
    except UsageError as error:
        raise ProviderUnusable(str(error)) from error
    return client


def _origin(spec: ProviderSpec, codec: Any) -> str:
    """The mark on a provider's reasoning: only the provider that signed it can read it."""
    known = KNOWN_PROVIDERS.get(spec.id)
    is_vendor = known and (known.adapter, known.base_url) == (spec.adapter, codec.base_url)
    return spec.adapter if is_vendor else f"{spec.adapter}:{spec.id}"


def _address_setting(spec: ProviderSpec) -> str:
    """The setting to change when the address is wrong, for error messages."""
    return f"base_url or {base_url_name(spec.id)}" if spec.id in KNOWN_PROVIDERS else "base_url"


def apply_base_url(spec: ProviderSpec) -> ProviderSpec:
    """Apply the address from the environment, unless the spec has a configured one.

    Raises:
        ProviderUnusable: The variable has a malformed address.
    """
    name, known = base_url_name(spec.id), KNOWN_PROVIDERS.get(spec.id)
    moved = os.environ.get(name, "").strip()
    if not moved or known is None or spec.base_url != known.base_url:
        return spec
    if problem := _address_problem(moved):
        raise ProviderUnusable(f"{name} cannot be used: {problem}")
    return msgspec.structs.replace(spec, base_url=moved)


def _import_class(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"awaken.providers.{module}"), name)
    return found
