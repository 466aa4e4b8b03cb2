"""strands with one shared AsyncOpenAI client; by default it builds one for every model call."""

from adapters.strands_ import Strands


class StrandsClient(Strands):
    name = "strands(shared client)"
    modes = ("http",)

    async def setup(self):
        await super().setup()
        from openai import AsyncOpenAI
        from strands.models.openai import OpenAIModel

        client = AsyncOpenAI(base_url=self.base_url, api_key="x", timeout=120)
        self.model = OpenAIModel(client=client, model_id="fake")


ADAPTER = StrandsClient
