"""Bedrock behind HTTP: encode, sign, post, decode the stream. The pool owns all connections."""

import asyncio
import importlib
import os
import re
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.addresses import server_of
from awaken.contracts.models.errors import ModelError, ModelTimeout, Unauthorized
from awaken.contracts.models.inference import InferenceRequest, ModelEvent
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString, SecretUnresolved
from awaken.contracts.tracing import CURRENT_TRACE
from awaken.outbound.pool import CONNECT_S, HttpPool
from awaken.providers.http.failures import retry_after_ms
from awaken.providers.http.transport import (
    Address,
    classify_connection_error,
    count_bytes,
    read_beginning,
    scrub_secrets,
)

from .decode import ConverseDecoder, build_error
from .encode import ConverseEncoder
from .frames import FrameDecoder

if TYPE_CHECKING:
    from .signing import Signer

_CREDENTIALS_S = 30
_REGION = re.compile(r"[a-z0-9-]{1,32}")
_SIGNED_HEADERS = {"content-type": "application/json"}
_HEADERS = {"accept": "application/vnd.amazon.eventstream", "accept-encoding": "identity"}
_Access = tuple[dict[str, str], tuple[RedactedString, ...]]


class BedrockClient:
    """Calls the models of one AWS region, with a bearer key or with signed requests.

    Key and credentials are looked up for every call, so that new ones are used at once.

    Raises:
        InvalidSpec: No region is configured.
    """

    __slots__ = (
        "_encoder", "_lock", "_pool", "_region", "_signer", "_spec", "_url", "name", "server",
    )  # fmt: skip

    def __init__(self, spec: ProviderSpec, pool: HttpPool) -> None:
        self.name = spec.id
        self._spec = spec
        self._pool = pool
        self._region = _region(spec)
        domain = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        default = f"https://bedrock-runtime.{self._region}.{domain}"
        self._url = (spec.base_url or default).rstrip("/")
        self.server = server_of(self._url)
        enforces_schema = bool(spec.adapter_options.get("enforce_output_schema"))
        self._encoder = ConverseEncoder(enforces_schema=enforces_schema)
        self._signer: Signer | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"BedrockClient({self.name!r})"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model and yield its answer as it comes.

        Raises:
            ModelError: The call failed; no error contains a key.
        """
        wire = self._encoder.encode(request)
        url = self._url + wire.path
        headers, secrets = await self._access(url, wire.body)
        try:
            async with aclosing(self._batches(url, wire.body, headers)) as batches:
                async for batch in batches:
                    for event in batch:
                        yield event
        except ModelError as error:
            raise scrub_secrets(error, secrets) from error.__cause__

    async def _access(self, url: str, body: bytes) -> _Access:
        try:
            own = self._spec.read_key()
        except SecretUnresolved as error:
            raise Unauthorized(f"provider '{self.name}' has no key: {error}") from None
        key = own or RedactedString(os.environ.get("AWS_BEARER_TOKEN_BEDROCK", ""))
        if key:
            return {**_SIGNED_HEADERS, "authorization": f"Bearer {key.reveal()}"}, (key,)
        try:
            async with asyncio.timeout(_CREDENTIALS_S):
                # Credentials may come from files, a process or the network.
                return await asyncio.to_thread(self._sign, url, body)
        except TimeoutError as error:
            message = f"no AWS credentials came for {_CREDENTIALS_S} s"
            raise ModelTimeout(message) from error

    def _sign(self, url: str, body: bytes) -> _Access:
        with self._lock:
            if self._signer is None:
                self._signer = _new_signer(self._region)
        signed = self._signer.sign(url, dict(_SIGNED_HEADERS), body)
        return signed.headers, signed.secrets

    async def _batches(
        self, url: str, body: bytes, headers: dict[str, str]
    ) -> AsyncGenerator[Sequence[ModelEvent], None]:
        seconds = self._spec.timeout_ms / 1000
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=seconds)
        frames, decoder, received = FrameDecoder(), ConverseDecoder(), 0
        broken: ModelError | None = None
        trace = CURRENT_TRACE.get()
        traced = {} if trace is None else trace.headers
        try:
            async with self._pool.session().post(
                URL(url, encoded=True),  # The signature covers this exact URL.
                data=body,
                headers={**_HEADERS, **traced, **headers},
                timeout=timeout,
                allow_redirects=False,
                proxy=self._pool.proxy_of(url),
            ) as response:
                await _check(response)
                while not decoder.is_over and (chunk := await response.content.readany()):
                    received = count_bytes(received, chunk)
                    for frame in frames.feed(chunk):
                        yield decoder.take(frame)
                        if decoder.is_over:
                            break
        except (aiohttp.ClientError, OSError, ValueError) as error:
            address = Address(url=self._url, idle_ms=self._spec.timeout_ms)
            broken = classify_connection_error(error, address, received)
        # A complete answer is valid, however its connection ended.
        if not decoder.has_stopped:
            if broken is not None:
                # Raised here, so that it has no cause: errors of the connection hold its headers.
                raise broken
            frames.end()
        yield decoder.end()


def _region(spec: ProviderSpec) -> str:
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    places = [spec.adapter_options.get("region"), *(os.environ.get(name) for name in names)]
    found = str(next((place for place in places if place), ""))
    if not _REGION.fullmatch(found):
        problem = "it needs an AWS region in adapter_options 'region' or in AWS_REGION"
        raise InvalidSpec(what=f"provider '{spec.id}'", problem=problem)
    return found


def _new_signer(region: str) -> "Signer":
    try:
        module = importlib.import_module("awaken.providers.bedrock.signing")
    except ModuleNotFoundError as error:
        message = (
            "signing needs botocore: pip install 'awaken[bedrock]', or give a bearer key as "
            "api_key or AWS_BEARER_TOKEN_BEDROCK"
        )
        raise Unauthorized(message) from error
    signer: Signer = module.Signer(region)
    return signer


async def _check(response: aiohttp.ClientResponse) -> None:
    """Check the status of a response.

    Raises:
        ModelError: Bedrock refused.
    """
    if response.status == 200:
        return
    body = await read_beginning(response.content)
    kind = response.headers.get("x-amzn-errortype", "").partition(":")[0]
    raise build_error(response.status, kind, body, retry_after_ms(response.headers))
