"""What the URL of a NATS bus says, and who is let in by real servers."""

import asyncio
import importlib
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.nats_servers.cluster import nats_cluster
from tests.nats_servers.identities import write_certificates, write_credentials

from awaken.buses.nats import NatsBus
from awaken.buses.nats.address import parse_address
from awaken.contracts.errors import InvalidInput

PASSWORD = "s3cr3t/@:,?"


def connects(url: str) -> bool:
    async def play() -> bool:
        bus = NatsBus(url, connect_timeout_ms=2_000)
        await bus.open()
        try:
            return bus.is_up
        finally:
            await bus.close()

    return asyncio.run(play())


def test_a_url_names_servers_a_user_and_options() -> None:
    url = f"nats://ann:{quote(PASSWORD, '')}@one,two:4333,nats://[::1]:4444/?namespace=blue"
    found = parse_address(url)
    assert found.servers == ("nats://one:4222", "nats://two:4333", "nats://[::1]:4444")
    assert (found.user, found.password) == ("ann", PASSWORD)
    assert found.login() == {"user": "ann", "password": PASSWORD}
    assert found.options.namespace == "blue"
    assert "ann" not in found.name
    assert parse_address("nats://t0ken@one").login() == {"token": "t0ken"}
    assert parse_address("nats://one").login() == {}


@pytest.mark.parametrize(
    "url",
    [
        "http://s3cr3t@one",
        "nats:one",
        "nats://",
        "nats://ann:s3cr3t@",
        "nats://ann:s3cr3t@one:port",
        "nats://ann:s3cr3t@one:0",
        "nats://ann:s3cr3t/@one",
        "nats://ann:s3cr3t@one,",
        "nats://ann:s3cr3t@one,ben:s3cr3t@two",
        "nats://one?namespace=",
        "nats://one?namespace=a.b",
        "nats://one?namespace=>",
        "nats://one?password=s3cr3t",
        "nats://one?handshake=never",
        "nats://ann:s3cr3t@one?credentials=file",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInput, match="URL of the NATS bus") as caught:
        NatsBus(url)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_missing_or_wrong_is_named_when_the_bus_opens(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("something", encoding="utf-8")
    for path in (tmp_path / "none", wrong):
        for option in ("credentials", "ca"):
            with pytest.raises(InvalidInput):
                connects(f"nats://127.0.0.1:1?{option}={quote(str(path))}")


def test_a_password_and_a_token_open_a_server_and_wrong_ones_do_not() -> None:
    config = f'authorization {{ user: ann, password: "{PASSWORD}" }}'
    with nats_cluster(1, config) as cluster:
        place = cluster.url.removeprefix("nats://")
        assert connects(f"nats://ann:{quote(PASSWORD, '')}@{place}")
        assert not connects(f"nats://ann:wrong@{place}")
        assert not connects(cluster.url)
    with nats_cluster(1, 'authorization { token: "t0ken" }') as cluster:
        place = cluster.url.removeprefix("nats://")
        assert connects(f"nats://t0ken@{place}")
        assert not connects(f"nats://other@{place}")


def test_a_file_of_credentials_opens_a_server_that_knows_only_its_operator(tmp_path: Path) -> None:
    config, path = write_credentials(tmp_path / "a.creds"), quote(str(tmp_path / "a.creds"))
    write_credentials(tmp_path / "b.creds")
    with nats_cluster(1, config) as cluster:
        assert connects(f"{cluster.url}?credentials={path}")
        assert not connects(f"{cluster.url}?credentials={path.replace('a.creds', 'b.creds')}")
        assert not connects(cluster.url)


def test_tls_is_used_and_nothing_else_where_the_url_asks_for_it(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    ca = quote(str(tmp_path / "ca.pem"))
    files = f'cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.key"'
    with nats_cluster(1, f"tls {{ {files}, handshake_first: auto }}") as cluster:
        place = cluster.url.removeprefix("nats://")
        assert connects(f"tls://{place}?ca={ca}")
        assert connects(f"tls://{place}?ca={ca}&handshake=first")
        assert connects(f"nats://{place}?ca={ca}")
        # Signed by nobody that this machine knows.
        assert not connects(f"tls://{place}")
    with nats_cluster(1) as cluster:
        # A server, or somebody in between, that says it has no TLS.
        for handshake in ("after", "first"):
            place = cluster.url.removeprefix("nats://")
            assert not connects(f"tls://{place}?ca={ca}&handshake={handshake}")


def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [it for it in sys.modules if it.startswith("awaken.buses.nats")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'awaken\[nats\]'"):
        importlib.import_module("awaken.buses.nats")
