"""The replaceable parts of a runtime; `AgentRuntime` explains each of them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from awaken.authoring.resolvers import AgentResolver
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.models.budgets import Budget, PriceList
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.bus import Bus
from awaken.contracts.tools.sub_runs import DurableMessageSink
from awaken.mailbox.config import MailboxConfig
from awaken.runtime.limits import Limits

if TYPE_CHECKING:
    from awaken.managed.publish_rules import PublishRules


class ManagedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of managed configuration; `managed=True` stands for the usual ones."""

    rules: "PublishRules | None" = None
    """What must hold before a change becomes live; None: nothing besides that it compiles."""
    publication: int | None = None
    """The publication that this process stays on, for rescue; None follows the head."""
    is_installing: bool = True
    """Whether publications are installed here; a command only compiles them."""


class RuntimeOptions(TypedDict, total=False):
    """What `AgentRuntime` takes by name besides its parts."""

    limits: Limits
    clock: Clock
    ids: IdSource
    profile: ProfileStore
    models: Iterable[ModelSpec | ModelPool]
    budgets: Iterable[Budget]
    prices: PriceList
    mailbox: MailboxConfig
    bus: Bus | str
    everywhere: Iterable[Plugin]
    remotes: Iterable[RemoteRegistry]
    local_name: str
    resolver: AgentResolver
    message_sink: DurableMessageSink
    has_worker: bool
    managed: bool | ManagedOptions
    history: Literal["full", "lean"]
    deps: Any
    embeddings: Any
    memory_limits: Any
