"""The configuration as other protocols read it, and previews of one agent."""

from collections.abc import Mapping
from typing import Any

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.drafts import Change, PatchRecord, PutRecord
from awaken.contracts.config.errors import InvalidConfig, UnknownConfigRecord
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.config.publications import PublicationOrigin
from awaken.contracts.config.secret_fields import lift_literals

from .change_sets import ChangeSet
from .parts import Author, ConfigParts
from .publishing import Publisher, PublishRequest
from .records import ConfigRecords

AGENTS = "agents"


class ConfigReading:
    """Implements `ConfigReader`."""

    def __init__(self, parts: ConfigParts, records: ConfigRecords, publisher: Publisher) -> None:
        self._parts = parts
        self._records = records
        self._publisher = publisher

    async def list_agent_specs(self) -> dict[str, dict[str, Any]]:
        """Return the spec of every agent in HTTP form, by its id."""
        return {it.meta.id: it.wire for it in await self._records.list_records(AGENTS)}

    async def find_agent_spec(self, agent_id: str) -> dict[str, Any]:
        """Return the spec of an agent in HTTP form; empty if there is none."""
        try:
            return (await self._records.get_record(AGENTS, agent_id)).wire
        except UnknownConfigRecord:
            # The host's resolver may have made it.
            return {}

    async def is_not_live(self, publication: int) -> bool:
        """Whether new runs do not take a publication by themselves.

        Raises:
            UnknownPublication: There is none of that number.
        """
        await self._parts.reader.load_publication(publication)
        return publication != (await self._parts.read_head()).publication

    async def find_live(self) -> int | None:
        """Return the live publication; None before the first one."""
        return (await self._parts.read_head()).publication

    async def preview_agent(self, body: Mapping[str, Any], actor: str) -> tuple[str, int]:
        """Write an ephemeral publication of one agent in HTTP form; returns its id and the number.

        Raises:
            ConfigError: It is malformed, or does not compile.
        """
        agent_id = body.get("id")
        if not isinstance(agent_id, str) or not agent_id.strip():
            raise InvalidConfig(problems=(_problem("agents", "missing", "missing 'id' field"),))
        change = self._read_change(self._parts.kinds[AGENTS], agent_id, body)
        request = PublishRequest(
            change_set=ChangeSet(changes={AGENTS: {agent_id: change}}),
            author=Author(id=actor),
            message=f"preview of agent '{agent_id}'",
            origin=PublicationOrigin.PREVIEW,
            is_ephemeral=True,
        )
        published = await self._publisher.publish(request)
        return agent_id, published.publication.no

    def _read_change(self, kind: ConfigKind, agent_id: str, body: Mapping[str, Any]) -> Change:
        stored = kind.from_wire(body)
        _, texts = lift_literals(stored, kind.secrets, lambda path: path)
        if texts:
            # Nothing of a preview may replace a secret that live agents use.
            message = "A preview takes references to secrets, no secrets."
            paths = (f"agents/{agent_id}/{it.removeprefix('store:')}" for it in texts)
            raise InvalidConfig(problems=tuple(_problem(it, "secret", message) for it in paths))
        base = self._records.code_body(AGENTS, agent_id)
        if base is None:
            return PutRecord(body=stored)
        fields = kind.patchable or frozenset()
        patch = {it: stored.get(it) for it in fields if stored.get(it) != base.get(it)}
        return PatchRecord(body=patch)


def _problem(path: str, code: str, message: str) -> ConfigProblem:
    return ConfigProblem(path=path, code=code, message=message)
