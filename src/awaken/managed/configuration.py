"""The managed configuration of a runtime: every use case in one place."""

import msgspec

from awaken.contracts.config.connections import CapabilityLister, ConfigConnections

from .auditing import ConfigAudit
from .canaries import CanaryWatch, RunSample
from .drafts import ConfigDrafts
from .files import ConfigFiles
from .followers import ListFollowers
from .heads import ConfigHeads
from .impact import ImpactReporter
from .live import LiveConfig
from .parts import ConfigParts
from .publish_rules import PublishRules, combine_rules
from .publishing import Publisher
from .reading import ConfigReading
from .records import ConfigRecords


class ConfigInspection(msgspec.Struct, frozen=True, kw_only=True):
    """What people see of a process before they change its configuration."""

    impact: ImpactReporter
    connections: ConfigConnections
    capabilities: CapabilityLister


class ManagedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What routes, commands and the runtime itself use of the managed configuration."""

    parts: ConfigParts
    live: LiveConfig
    publisher: Publisher
    records: ConfigRecords
    drafts: ConfigDrafts
    heads: ConfigHeads
    audit: ConfigAudit
    files: ConfigFiles
    canary: CanaryWatch
    list_followers: ListFollowers
    """Reads what every live process says of its configuration."""
    rules: PublishRules
    sample: RunSample
    inspection: ConfigInspection
    reading: ConfigReading

    async def open(self) -> None:
        """Apply the head, and follow it and its canary from now on."""
        await self.live.open()
        self.canary.open()

    def with_rules(self, rules: PublishRules) -> "ManagedConfig":
        """Return the same configuration for callers who must meet further rules."""
        made = manage_config(
            self.parts,
            self.live,
            combine_rules(self.rules, rules),
            self.list_followers,
            self.sample,
            self.inspection,
        )
        return msgspec.structs.replace(made, canary=self.canary)

    async def close(self) -> None:
        """Stop following; what is installed stays installed."""
        await self.canary.close()
        await self.live.close()


def manage_config(
    parts: ConfigParts,
    live: LiveConfig,
    rules: PublishRules,
    list_followers: ListFollowers,
    sample: RunSample,
    inspection: ConfigInspection,
) -> ManagedConfig:
    """Build the use cases over their ports."""
    publisher = Publisher(parts, live, rules, list_followers)
    heads = ConfigHeads(parts, live, publisher)
    records = ConfigRecords(parts, publisher, heads.write_secrets)
    drafts = ConfigDrafts(parts, records, publisher)
    return ManagedConfig(
        parts=parts,
        live=live,
        publisher=publisher,
        records=records,
        drafts=drafts,
        heads=heads,
        audit=ConfigAudit(parts),
        files=ConfigFiles(parts, publisher, drafts),
        canary=CanaryWatch(live, heads, sample, parts.clock),
        list_followers=list_followers,
        rules=rules,
        sample=sample,
        inspection=inspection,
        reading=ConfigReading(parts, records, publisher),
    )
