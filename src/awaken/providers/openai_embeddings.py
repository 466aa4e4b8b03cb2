"""Embeddings over OpenAI's API, which many servers speak."""

import base64
from array import array
from collections.abc import Callable, Sequence

import aiohttp
import msgspec

from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import DIMENSIONS_MAX, EmbeddingSpec
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.outbound.pool import CONNECT_S, HttpPool
from awaken.redaction import remove_secrets

ANSWER_BYTES = 64 * 1024 * 1024
TEXT_CHARS = 8_000
"""How much of a text is sent; models refuse longer ones."""
FLOAT_BYTES = 4
_DEFAULT_URL = "https://api.openai.com/v1"


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float] | str


class _Answer(msgspec.Struct):
    data: list[_Vector]


_decode = msgspec.json.Decoder(_Answer).decode


class HttpEmbedder:
    """An `Embedder` behind `POST /embeddings`. The key is looked up for every call."""

    def __init__(
        self,
        wanted: EmbeddingSpec,
        provider: ProviderSpec,
        pool: HttpPool,
        find_key: Callable[[], RedactedString | None],
    ) -> None:
        self.model = f"{provider.id}/{wanted.model}/{wanted.dimensions or 'own'}"
        self._wanted = wanted
        self._pool = pool
        self._find_key = find_key
        self._url = (provider.base_url or _DEFAULT_URL).rstrip("/") + "/embeddings"
        self._timeout = aiohttp.ClientTimeout(
            total=provider.timeout_ms / 1000, sock_connect=CONNECT_S
        )

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return a vector for each text, as little-endian 32-bit floats."""
        body: dict[str, object] = {
            "model": self._wanted.model,
            "input": [text[:TEXT_CHARS] or " " for text in texts],
            "encoding_format": "float",
        }
        if self._wanted.dimensions is not None:
            body["dimensions"] = self._wanted.dimensions
        answer = await self._post(msgspec.json.encode(body))
        vectors = {it.index: _read_vector(it.embedding) for it in answer.data}
        if sorted(vectors) != list(range(len(texts))):
            raise EmbeddingFailed(problem="the answer has not one vector for each text")
        if len({len(it) for it in vectors.values()}) > 1:
            raise EmbeddingFailed(problem="the vectors of one answer differ in their length")
        wanted, got = self._wanted.dimensions, len(vectors[0]) // FLOAT_BYTES if vectors else 0
        if vectors and wanted not in (None, got):
            # Kept, they could be compared with no other vector.
            raise EmbeddingFailed(problem=f"the vectors have {got} dimensions, not {wanted}")
        return [vectors[place] for place in range(len(texts))]

    async def close(self) -> None:
        """Do nothing: the connections are the runtime's."""

    async def _post(self, body: bytes) -> _Answer:
        try:
            key = self._find_key()
        except ModelError as error:
            raise EmbeddingFailed(problem=remove_secrets(str(error))) from None
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if key is not None:
            headers["authorization"] = f"Bearer {key.reveal().strip()}"
        problem = ""
        try:
            async with self._pool.session().post(
                self._url,
                data=body,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
                proxy=self._pool.proxy_of(self._url),
            ) as response:
                text = await response.content.read(ANSWER_BYTES)
                while len(text) < ANSWER_BYTES and (more := await response.content.readany()):
                    text += more
                if response.status != 200:
                    problem = f"{self._url} answered with status {response.status}"
                else:
                    return _decode(text)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            # Not chained: errors of a connection hold its headers.
            problem = f"{self._url}: {type(error).__name__}"
        raise EmbeddingFailed(problem=problem)


def _read_vector(given: list[float] | str) -> bytes:
    values = array("f")
    try:
        if isinstance(given, str):
            values.frombytes(base64.b64decode(given, validate=True))
        else:
            values.extend(given)
    except (ValueError, OverflowError) as error:
        raise EmbeddingFailed(problem="a vector is malformed") from error
    if not 1 <= len(values) <= DIMENSIONS_MAX:
        raise EmbeddingFailed(problem=f"a vector has {len(values)} dimensions")
    return values.tobytes()
