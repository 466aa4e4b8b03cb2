"""How the mailbox may be configured."""

import msgspec
import pytest

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.mailbox import NUMBER_MAX, TenantLimits
from awaken.mailbox.config import DAY_MS, MailboxConfig
from awaken.mailbox.outages import backoff_ms


def test_the_defaults_recover_a_dead_worker_within_a_minute() -> None:
    config = MailboxConfig()
    assert config.lease_ms + config.sweep_ms <= 60_000
    assert config.retention_ms == 7 * DAY_MS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_ms", 0),
        ("renew_ms", 0),
        ("sweep_ms", 0),
        ("poll_ms", 0),
        ("concurrency", 0),
        ("max_attempts", 0),
        ("retry_base_ms", 0),
        ("thread_backlog", 0),
        ("queue_limit", 0),
        ("retention_ms", -1),
        ("purge_ms", 0),
        ("drain_ms", -1),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=name):
        MailboxConfig(**{name: value})


@pytest.mark.parametrize("name", [it for it in MailboxConfig.__struct_fields__ if it != "tenants"])
def test_a_number_that_no_store_could_add_to_is_refused_by_name(name: str) -> None:
    pairs = {"retry_base_ms": "retry_cap_ms", "relay_base_ms": "relay_cap_ms"}
    most = {it: NUMBER_MAX for it in (name, pairs.get(name)) if it and it != "renew_ms"}
    if name != "renew_ms":
        assert getattr(MailboxConfig(**most), name) == NUMBER_MAX
    with pytest.raises(InvalidInput, match=f"{name} is invalid: .* is above"):
        MailboxConfig(**{**most, name: NUMBER_MAX + 1})


@pytest.mark.parametrize("name", ["max_busy", "queue_limit"])
def test_a_limit_of_a_tenant_that_no_store_could_add_to_is_refused(name: str) -> None:
    TenantLimits(**{name: NUMBER_MAX})
    with pytest.raises(InvalidInput, match=name):
        TenantLimits(**{name: NUMBER_MAX + 1})


def test_nothing_may_be_kept_for_no_time_and_drained_at_once() -> None:
    assert MailboxConfig(retention_ms=0, drain_ms=0).drain_ms == 0
    assert MailboxConfig(retention_ms=None).retention_ms is None


def test_a_lease_outlives_a_missed_renewal() -> None:
    assert MailboxConfig(lease_ms=20_000).renew_ms == 10_000
    with pytest.raises(InvalidInput, match="renew_ms"):
        MailboxConfig(lease_ms=19_999)


def test_pauses_do_not_begin_above_their_cap() -> None:
    with pytest.raises(InvalidInput, match="retry_base_ms"):
        MailboxConfig(retry_base_ms=500, retry_cap_ms=499)


def test_an_unknown_setting_is_a_mistake() -> None:
    with pytest.raises(msgspec.ValidationError, match="lease_seconds"):
        msgspec.convert({"lease_seconds": 30}, MailboxConfig)


def test_pauses_double_up_to_their_cap_and_never_overflow() -> None:
    assert [backoff_ms(n, 250, 30_000) for n in (1, 2, 3, 4)] == [250, 500, 1000, 2000]
    assert backoff_ms(8, 250, 30_000) == backoff_ms(100_000, 250, 30_000) == 30_000
