// The official JavaScript client against one server, over one transport; prints what it heard.
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";

const [url, binding] = process.argv.slice(2);
const factory = new ClientFactory({
  transports:
    binding === "JSONRPC" ? [new JsonRpcTransportFactory()] : [new RestTransportFactory()],
});
const client = await factory.createFromUrl(url);

let count = 0;
function message(text, more = {}) {
  count += 1;
  return {
    tenant: "",
    metadata: undefined,
    configuration: {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      historyLength: undefined,
      returnImmediately: false,
      ...(more.configuration ?? {}),
    },
    message: {
      messageId: `${binding}-${count}`,
      role: 1,
      parts: [{ content: { $case: "text", value: text }, filename: "", mediaType: "" }],
      contextId: "",
      taskId: more.taskId ?? "",
      extensions: [],
      referenceTaskIds: [],
    },
  };
}

async function heard(stream, onFirst = () => {}) {
  const events = [];
  for await (const event of stream) {
    events.push(event.payload ?? event);
    if (events.length === 1) onFirst();
  }
  return events;
}

async function refusal(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return error.constructor.name;
  }
}

const found = {};
found.sent = await client.sendMessage(message("hi"));
found.streamed = await heard(client.sendMessageStream(message("stream")));
const asked = await client.sendMessage(message("ask"));
found.asked = asked;
let answering;
found.resubscribed = await heard(client.resubscribeTask({ tenant: "", id: asked.id }), () => {
  answering = heard(client.sendMessageStream(message("the left", { taskId: asked.id })));
});
found.answered = await answering;
found.got = await client.getTask({ tenant: "", id: asked.id, historyLength: undefined });
const held = await client.sendMessage(
  message("hold", { configuration: { returnImmediately: true } }),
);
let cancelling;
found.followed = await heard(client.resubscribeTask({ tenant: "", id: held.id }), () => {
  cancelling = client.cancelTask({ tenant: "", id: held.id, metadata: undefined });
});
found.cancelled = await cancelling;
found.listed = await client.listTasks({
  tenant: "",
  contextId: "",
  status: 0,
  pageSize: 2,
  pageToken: "",
  historyLength: undefined,
  statusTimestampAfter: undefined,
  includeArtifacts: true,
});
found.unknown = await refusal(() => client.getTask({ tenant: "", id: "unknown" }));
found.uncancelable = await refusal(() => client.cancelTask({ tenant: "", id: held.id }));
console.log(JSON.stringify(found));
