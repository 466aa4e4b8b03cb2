// The AI SDK's own client against a server: node client.mjs <ai|ai6> <api url> <scenario> <version>
// Prints one JSON document; what a test must do meanwhile is asked for on stderr.
const [name, api, scenario, version] = process.argv.slice(2);
const ai = await import(name);
const {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  uiMessageChunkSchema,
  validateUIMessages,
} = ai;

const query = version === '7' ? '?version=7' : '';
const chunks = [];
const problems = [];
const schema = uiMessageChunkSchema();

class CheckedTransport extends DefaultChatTransport {
  processResponseStream(stream) {
    return super.processResponseStream(stream).pipeThrough(
      new TransformStream({
        async transform(chunk, controller) {
          const checked = await schema.validate(chunk);
          if (!checked.success) problems.push({ chunk, error: String(checked.error) });
          chunks.push(chunk);
          controller.enqueue(chunk);
        },
      }),
    );
  }
}

class Chat extends AbstractChat {
  constructor({ messages = [], ...options }) {
    super({
      ...options,
      state: {
        status: 'ready',
        error: undefined,
        messages,
        pushMessage(message) {
          this.messages = [...this.messages, message];
        },
        popMessage() {
          this.messages = this.messages.slice(0, -1);
        },
        replaceMessage(index, message) {
          this.messages = this.messages.with(index, structuredClone(message));
        },
        snapshot: structuredClone,
      },
    });
  }
}

const transport = new CheckedTransport({ api: `${api}/chat${query}` });
const newChat = options => new Chat({ id: 'chat', transport, ...options });
const ask = what => process.stderr.write(`${what}\n`);

async function until(holds, what) {
  for (const end = Date.now() + 15_000; !holds(); ) {
    if (Date.now() > end) throw new Error(`waited too long for ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

async function history() {
  const response = await fetch(`${api}/threads/chat/messages`);
  const page = await response.json();
  await validateUIMessages({ messages: page.messages });
  return page;
}

const text = message =>
  message.parts
    .filter(part => part.type === 'text')
    .map(part => part.text)
    .join('');

const scenarios = {
  async send() {
    const user = { id: 'u', role: 'user', parts: [{ type: 'text', text: 'hi' }] };
    const stream = await transport.sendMessages({
      chatId: 'chat',
      messages: [user],
      trigger: 'submit-message',
      messageId: undefined,
      abortSignal: undefined,
    });
    let message;
    for await (message of readUIMessageStream({ stream, terminateOnError: true }));
    await validateUIMessages({ messages: [message] });
    const reconnected = await transport.reconnectToStream({ chatId: 'chat' });
    return { message, reconnected, loaded: (await history()).messages };
  },

  async approve() {
    return decide(true);
  },

  async deny() {
    return decide(false);
  },

  async tool() {
    const chat = newChat({
      transport: new CheckedTransport({
        api: `${api}/chat${query}`,
        body: { tools: [{ name: 'pick', description: 'Pick.', parameters: { type: 'object' } }] },
      }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall }) {
        if (toolCall.toolName === 'pick') {
          const { toolCallId } = toolCall;
          chat.addToolOutput({ tool: 'pick', toolCallId, output: { picked: toolCall.input.of } });
        }
      },
    });
    await chat.sendMessage({ text: 'choose' });
    await until(() => chat.status === 'ready' && text(chat.lastMessage), 'the answer');
    return { messages: chat.messages, error: chat.error?.message };
  },

  async resume() {
    const first = newChat({});
    const sending = first.sendMessage({ text: 'hi' });
    await until(() => first.lastMessage?.role === 'assistant' && text(first.lastMessage), 'text');
    const page = await history();
    const agent = new CheckedTransport({ api: `${api}/agents/default/runs${query}` });
    const second = newChat({ messages: page.messages, transport: agent });
    const resuming = second.resumeStream();
    await until(() => second.lastMessage?.role === 'assistant' && text(second.lastMessage), 'text');
    const held = text(second.lastMessage);
    ask('release');
    await Promise.all([sending, resuming]);
    const later = newChat({ messages: (await history()).messages });
    await later.resumeStream();
    return {
      held,
      executing: page.executing_run_id,
      shown: page.messages.map(it => it.role),
      first: first.messages,
      second: second.messages,
      later: later.messages,
      statuses: [first.status, second.status, later.status],
    };
  },

  async stop() {
    const chat = newChat({});
    const sending = chat.sendMessage({ text: 'hi' });
    await until(() => chat.lastMessage?.role === 'assistant' && text(chat.lastMessage), 'text');
    await chat.stop();
    await sending;
    const executing = (await history()).executing_run_id;
    const other = newChat({ messages: (await history()).messages });
    const resuming = other.resumeStream();
    await until(() => other.lastMessage?.role === 'assistant' && text(other.lastMessage), 'text');
    const cancelled = await fetch(`${api}/threads/chat/cancel`, { method: 'POST' });
    await resuming;
    const page = await history();
    return {
      executing,
      cancelled: cancelled.status,
      kept: text(page.messages.at(-1)),
      after: page.executing_run_id,
      status: other.status,
    };
  },

  async reload() {
    const chat = newChat({});
    await chat.sendMessage({ text: 'hi' });
    const loaded = (await history()).messages;
    const again = newChat({ messages: loaded });
    await again.sendMessage({ text: 'more' });
    return { loaded, streamed: chat.messages, again: again.messages };
  },

  async reset() {
    const chat = newChat({});
    await chat.sendMessage({ text: 'hi' });
    return { messages: chat.messages, error: chat.error?.message };
  },

  async late() {
    const chat = newChat({
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: 'do it' });
    await chat.sendMessage({ text: 'never mind' });
    return { messages: chat.messages, error: chat.error?.message };
  },

  async both() {
    const chat = newChat({});
    await chat.sendMessage({ text: 'do it' });
    const { approval } = chat.lastMessage.parts.find(it => it.state === 'approval-requested');
    await chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await chat.sendMessage({ text: 'and hurry' });
    return { messages: chat.messages, error: chat.error?.message };
  },

  async branches() {
    const chat = newChat({});
    await chat.sendMessage({ text: 'one' });
    await chat.sendMessage({ text: 'two' });
    const texts = () => chat.messages.map(text);
    const begun = texts();
    await chat.regenerate();
    const regenerated = texts();
    const shown = (await history()).messages.map(text);
    await chat.regenerate({ messageId: chat.messages[1].id });
    const earlier = texts();
    await chat.sendMessage({ text: 'three' });
    const [first] = chat.messages;
    await chat.sendMessage({ text: 'changed', messageId: first.id });
    const edited = texts();
    await chat.sendMessage({ text: 'four' });
    const page = await history();
    const loaded = newChat({ messages: page.messages });
    await loaded.sendMessage({ text: 'five' });
    return {
      begun,
      regenerated,
      shown,
      earlier,
      edited,
      last: loaded.messages.map(text),
      error: chat.error?.message,
    };
  },

  async failure() {
    const chat = newChat({});
    await chat.sendMessage({ text: 'hi' });
    return { error: chat.error?.message, status: chat.status };
  },
};

async function decide(approved) {
  const chat = newChat({
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: 'do it' });
  const asked = structuredClone(chat.lastMessage);
  for (const part of asked.parts) {
    if (part.state === 'approval-requested') {
      await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: 'because' });
    }
  }
  await until(() => chat.status === 'ready' && text(chat.lastMessage), 'the answer');
  await validateUIMessages({ messages: chat.messages });
  return { asked, messages: chat.messages, error: chat.error?.message };
}

const result = await scenarios[scenario]();
process.stdout.write(JSON.stringify({ ...result, chunks, problems }));
process.exit(0);
