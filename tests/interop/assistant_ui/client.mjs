// assistant-ui without a browser: sends, reloads and edits; prints one JSON document.
import { AssistantRuntimeProvider } from '@assistant-ui/react';
import { AssistantChatTransport, useChatRuntime } from '@assistant-ui/react-ai-sdk';
import { createElement } from 'react';
import { act, create } from 'react-test-renderer';

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const api = `${process.argv[2]}/v1/ai-sdk/chat`;
const transport = new AssistantChatTransport({ api, body: { wholeHistory: true } });
const errors = [];
let runtime;

function App() {
  runtime = useChatRuntime({ transport, onError: error => errors.push(String(error)) });
  return createElement(AssistantRuntimeProvider, { runtime }, null);
}

const tick = () => act(() => new Promise(resolve => setTimeout(resolve, 10)));
const texts = () =>
  runtime.thread
    .getState()
    .messages.map(it => it.content.filter(part => part.type === 'text').map(part => part.text).join(''));

async function settled(wanted) {
  for (const end = Date.now() + 15_000; ; await tick()) {
    const state = runtime.thread.getState();
    const last = state.messages.at(-1);
    if (!state.isRunning && last?.role === 'assistant' && texts().at(-1) === wanted) return texts();
    if (Date.now() > end)
      throw new Error(`waited for ${wanted}: ${JSON.stringify(texts())} ${errors}`);
  }
}

const append = text =>
  act(async () => runtime.thread.append({ role: 'user', content: [{ type: 'text', text }] }));

async function edit(index, text) {
  const { composer } = runtime.thread.getMessageByIndex(index);
  await act(async () => composer.beginEdit());
  await act(async () => composer.setText(text));
  await act(async () => composer.send());
}

await act(async () => create(createElement(App)));
await tick();
await append('one');
await settled('1');
await append('two');
const begun = await settled('2');
await act(async () => runtime.thread.getMessageByIndex(3).reload());
const reloaded = await settled('3');
await edit(2, 'changed');
const edited = await settled('4');
await edit(0, 'begun anew');
const anew = await settled('5');
await append('last');
const last = await settled('6');
process.stdout.write(JSON.stringify({ begun, reloaded, edited, anew, last, errors }));
process.exit(0);
