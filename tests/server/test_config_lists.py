"""Lists of records: what a look at all of them costs."""

import pytest

from awaken.bootstrap.config_layers import code_records

from .managed_world import World, world


def test_a_list_hashes_the_code_once_and_not_for_each_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lists of n agents took n² hashes: with 1,200 of them the event loop stood for minutes."""
    hashed: list[object] = []
    hash_spec = code_records.hash_spec

    def count(spec: object) -> str:
        hashed.append(spec)
        return hash_spec(spec)

    monkeypatch.setattr(code_records, "hash_spec", count)

    async def scenario(at: World) -> None:
        await at.do("PATCH /v1/config/agents/helper/overrides", {"max_rounds": 3})
        await at.get("/v1/agents")
        await at.get("/v1/config/agents")
        await at.get("/v1/config/tools/meta")
        assert len(hashed) == len({id(it) for it in hashed}) > 0

    world(scenario)
