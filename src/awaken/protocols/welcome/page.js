import { questionForm } from "./questions.js";
import { frames, Turn } from "./turns.js";
import { snippets } from "./snippets.js";

const base = new URL(".", document.baseURI).href.replace(/\/$/, "");
const $ = (id) => document.getElementById(id);
const kept = (name) => sessionStorage.getItem(`awaken.${name}`);
const keep = (name, value) => sessionStorage.setItem(`awaken.${name}`, value);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const IDEAS = {
  get_weather: ["Ask for the weather", "RUN_WEATHER_TOOL"], delete_file: ["Ask for an approval", "RUN_DELETE_TOOL"],
  askUserQuestion: ["Be asked a question", "RUN_QUESTION_TOOL"], set_background_color: ["Colour this page", "RUN_COLOR_TOOL"],
  progress_demo: ["Watch progress, then stop it", "RUN_SLOW_TOOL"], failingTool: ["See a failure", "RUN_FAILING_TOOL"],
};
let agents = [], agent = null, turn = null, thread = kept("thread"), count = 0, generation = 0, watching = null;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function ask(path, body, signal) {
  const headers = kept("token") ? { Authorization: `Bearer ${kept("token")}` } : {};
  const sent = body && { method: "POST", body: JSON.stringify(body) };
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(`${base}/${path}`, { ...sent, headers, signal });
  if (response.ok) return response;
  if (response.status === 401) showLogin();
  const told = await response.json().catch(() => ({}));
  throw Object.assign(new Error(told.error ?? `The server said ${response.status}.`), { status: response.status });
}
const read = async (path) => (await ask(path)).json();

const notice = (text) => Object.assign($("notice"), { textContent: text, hidden: !text });
const showLogin = () => (($("login").hidden = false), showSnippets());

// --- the server and its agents

async function watchHealth() {
  for (;;) {
    const state = await fetch(`${base}/health`).then((it) => it.json()).catch(() => null);
    const broken = Object.entries(state?.components ?? {}).find(([, it]) => it !== "ok");
    $("status").dataset.state = state === null ? "down" : state.status;
    $("status").lastChild.textContent =
      state === null ? "Not reachable" : broken ? `${broken[0]}: ${broken[1]}` : "Healthy";
    if (state !== null && agents.length === 0 && $("login").hidden) load().catch((error) => notice(error.message));
    await pause(state?.status === "healthy" ? 5000 : 1000);
  }
}

async function load() {
  agents = (await read("v1/agents")).items;
  $("login").hidden = true;
  notice("");
  const info = await read("v1/system/info").catch(() => null);
  const spoken = info?.protocols.filter((it) => it !== "welcome").join(", ");
  if (info) $("about").textContent = `Version ${info.version} · ${info.store} · ${spoken}`;
  choose(agents.find((it) => it.id === kept("agent")) ?? agents[0]);
  if (thread) await restore();
}

function choose(chosen) {
  agent = chosen;
  if (agent) keep("agent", agent.id);
  $("agents").replaceChildren(...agents.map((it) => {
    const entry = element("button", { type: "button", role: "radio", ariaChecked: String(it === agent), tabIndex: it === agent ? 0 : -1 },
      element("b", { textContent: it.id }), element("small", { textContent: it.description || it.model }));
    entry.onclick = () => choose(it);
    return entry;
  }));
  $("text").placeholder = agent ? `Message ${agent.id}` : "There is no agent";
  const ideas = agent?.model === "scripted" ? Object.keys(IDEAS).filter((it) => agent.tools.includes(it)) : [];
  $("ideas").replaceChildren(...[["Say hello", "Hello!"], ...ideas.map((it) => IDEAS[it])].map(([label, text]) =>
    element("button", { type: "button", textContent: label, onclick: () => start(text) })));
  showSnippets();
}

function moveWithArrows(group) {
  group.onkeydown = (press) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[press.key];
    if (!step) return;
    press.preventDefault();
    const place = [...group.children].indexOf(document.activeElement) + step;
    const next = (place + group.children.length) % group.children.length;
    group.children[next].click();
    group.children[next].focus();
  };
}

// --- runs: started, followed through every drop, stopped, decided

async function start(text) {
  if (!agent || !text.trim() || $("send").disabled) return;
  $("text").value = "";
  notice("");
  addMine(text);
  thread ??= crypto.randomUUID?.() ?? `t-${Date.now()}-${Math.random().toString(36).slice(2)}`;
  keep("thread", thread);
  const body = { agentId: agent.id, threadId: thread, messages: [{ role: "user", content: text }] };
  const response = await ask("v1/runs", body).catch((error) => notice(error.message));
  if (response) await follow(new Turn(response.headers.get("x-run-id")), response);
}

/** Reads a run's events until it ends or waits; after a drop from where it was. */
async function follow(followed, response) {
  const mine = ++generation;
  watching?.abort();
  if (turn !== followed) $("turns").append((followed.view = element("div", { className: "turn" })));
  turn = followed;
  followed.end = null;
  for (let drops = 0; mine === generation; drops += 1) {
    try {
      const place = followed.cursor === undefined ? "" : `?cursor=${followed.cursor}`;
      response ??= await ask(`v1/runs/${followed.runId}/events/stream${place}`);
      for await (const frame of frames(response)) {
        if (mine !== generation) return;
        drops = 0;
        notice("");
        followed.take(frame);
        logged(frame);
        draw(followed);
        if (followed.end) break;
      }
      if (followed.end && !(await hasGoneOn(followed))) break;
      if (!followed.end && await isAtRest(followed)) break;
      followed.end = null;
      response = null;
      continue;
    } catch (error) {
      if (error.status && error.status !== 503) return void (followed.end = { type: "lost" }, draw(followed), notice(error.message));
    }
    response = null;
    followed.forgetUnsure();
    notice("The connection dropped; attaching again…");
    await pause(Math.min(250 * 2 ** drops, 4000));
  }
  if (mine !== generation) return;
  draw(followed);
  if (followed.end?.type === "suspended") void watch(followed, mine);
}

/** Whether a run that waited goes on already: what it asked then is not what it asks now. */
async function hasGoneOn(followed) {
  if (followed.end.type !== "suspended") return false;
  const run = await read(`v1/runs/${followed.runId}`);
  if (run.status !== "waiting") return true;
  const { items } = await read(`v1/runs/${followed.runId}/tickets`);
  const open = new Set(items.map((it) => it.ticket_id));
  return followed.questions.some((it) => it.ticketId && !open.has(it.ticketId));
}

/** Looks out for answers that are given elsewhere: they close the forms, and the run goes on. */
async function watch(followed, mine) {
  for (let drops = 0; mine === generation; drops += 1) {
    watching = new AbortController();
    try {
      const stream = await ask(`v1/threads/${thread}/events/stream?cursor=${followed.cursor}`, undefined, watching.signal);
      for await (const { id } of frames(stream)) {
        if (mine !== generation) return;
        if (id === undefined || !(await hasGoneOn(followed))) continue;
        return void (await follow(followed, null));
      }
      if (mine === generation && await hasGoneOn(followed)) return void (await follow(followed, null));
    } catch (error) {
      if (error.status && error.status !== 503) return;
    }
    await pause(Math.min(250 * 2 ** drops, 4000));
  }
}

async function isAtRest(followed) {
  const run = await read(`v1/runs/${followed.runId}`);
  if (!["waiting", "done"].includes(run.status)) return false;
  followed.end = run.termination ?? { type: "suspended" };
  return true;
}

async function decide(followed, item, action, payload, more = {}) {
  const named = item.ticketId ? { ticketId: item.ticketId } : { toolCallId: item.id };
  const body = { ...named, action, payload, ...more };
  try {
    await ask(`v1/runs/${followed.runId}/decision`, body);
  } catch (error) {
    notice(error.message);
    // A decision of another client is shown; an answer that does not fit is asked for again.
    if (error.status !== 409) return draw(followed, true);
  }
  await follow(followed, null);
}

/** Shows a thread after a reload: its latest runs from the log, the last one live if it goes on. */
async function restore() {
  $("send").disabled = true;
  try {
    const { items: messages } = await read(`v1/threads/${thread}/messages?limit=200&order=desc`);
    const said = messages.reverse().filter((it) => it.message.role === "user");
    for (const [place, it] of said.entries()) {
      addMine(it.message.content.map((part) => part.text ?? "").join(""));
      if (said[place + 1]?.produced_by_run_id !== it.produced_by_run_id) await follow(new Turn(it.produced_by_run_id), null);
    }
  } catch (error) {
    if (error.status !== 404) notice(error.message);
  }
  $("send").disabled = false;
}

// --- drawing

function addMine(text) {
  $("hello").hidden = true;
  $("turns").append(element("div", { className: "me", textContent: text }));
  $("turns").scrollTop = $("turns").scrollHeight;
}

function draw(drawn, isForced = false) {
  const isAtBottom = $("turns").scrollHeight - $("turns").scrollTop - $("turns").clientHeight < 80;
  // A person who is about to answer is not disturbed, unless the question is no longer open.
  const asked = drawn.end?.type === "suspended" ? drawn.questions.map((it) => it.ticketId ?? it.id).join() : "";
  const focused = asked && asked === drawn.asked && drawn.view.contains(document.activeElement);
  drawn.asked = asked;
  if (isForced || !focused) drawn.view.replaceChildren(...drawn.items.map((item) => drawItem(drawn, item)), ...ending(drawn));
  $("stop").hidden = drawn.end !== null;
  $("send").hidden = drawn.end === null;
  if (isAtBottom) $("turns").scrollTop = $("turns").scrollHeight;
}

function ending({ end }) {
  if (!end || ["natural_end", "suspended"].includes(end.type)) return [];
  const text = [end.type, end.cause ?? end.code ?? end.detail, end.message].filter(Boolean).join(" · ").replaceAll("_", " ");
  return [element("p", { className: end.type === "error" ? "end bad" : "end", textContent: text })];
}

function drawItem(drawn, item) {
  if (item.kind === "error") return element("p", { className: "end bad", textContent: item.text });
  if (item.kind !== "tool") return element("div", { className: item.kind, textContent: item.text });
  const shown = element("div", { className: "tool" }, element("p", {},
    element("b", { textContent: item.name }), element("em", { textContent: item.progress?.message ?? item.state })));
  shown.dataset.state = item.state;
  if (item.args) shown.append(element("code", { textContent: JSON.stringify(item.args) }));
  if (item.progress) shown.append(element("progress", { value: item.progress.progress ?? 0, ariaLabel: item.name }));
  if (item.state === "suspended" && drawn.end?.type === "suspended") shown.append(question(drawn, item));
  else if (item.result?.data ?? item.result?.message) {
    const result = item.result.data ?? item.result.message;
    shown.append(element("code", { textContent: typeof result === "string" ? result : JSON.stringify(result) }));
  }
  return shown;
}

function question(drawn, item) {
  const isColoured = (color) => ($("turns").style.background = color);
  return questionForm(item, (...said) => decide(drawn, item, ...said), isColoured);
}

function logged({ id, event }) {
  const { event_type: kind, ...rest } = event;
  $("events").append(element("li", {}, element("details", {},
    element("summary", {}, element("span", { textContent: id ?? "·" }), kind), element("pre", { textContent: JSON.stringify(rest, null, 1) }))));
  $("count").textContent = ++count;
  while ($("events").children.length > 500) $("events").firstChild.remove();
  $("events").scrollTop = $("events").scrollHeight;
}

function showSnippets() {
  const all = snippets(base, agent?.id ?? "default", !$("login").hidden || Boolean(kept("token")));
  const chosen = kept("tab") ?? "curl";
  $("tabs").replaceChildren(...Object.keys(all).map((name) => {
    const tab = element("button", { type: "button", role: "tab", textContent: name, ariaSelected: String(name === chosen), tabIndex: name === chosen ? 0 : -1 });
    tab.setAttribute("aria-controls", "snippet");
    tab.onclick = () => (keep("tab", name), showSnippets());
    return tab;
  }));
  $("snippet").ariaLabel = chosen;
  $("snippet").querySelector("code").textContent = all[chosen];
}
for (const group of [$("agents"), $("tabs")]) moveWithArrows(group);
$("copy").onclick = async () => {
  await navigator.clipboard?.writeText($("snippet").querySelector("code").textContent).catch(() => {});
  $("copy").textContent = "Copied";
  setTimeout(() => ($("copy").textContent = "Copy"), 1500);
};
$("say").onsubmit = (event) => (event.preventDefault(), start($("text").value));
$("text").onkeydown = (press) =>
  press.key === "Enter" && !press.shiftKey && !press.isComposing && (press.preventDefault(), $("say").requestSubmit());
$("stop").onclick = () => ask(`v1/runs/${turn.runId}/cancel`, {}).catch((error) => notice(error.message));
$("new").onclick = () => (sessionStorage.removeItem("awaken.thread"), location.reload());
$("login").onsubmit = (event) => {
  event.preventDefault();
  keep("token", $("token").value.trim());
  load().catch((error) => notice(error.message));
};
showSnippets(), watchHealth();
