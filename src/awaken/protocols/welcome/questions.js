// What a suspended call asks, as a form: a yes or no, an answer, or the fields of a schema.

const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

/** What a ticket wants to hear; those of older logs say it by their mode. */
const wanted = ({ asks, resume_mode: mode, suspension }) =>
  asks ?? (mode === "use_decision_as_tool_result" ? "answer"
    : suspension?.response_schema?.type ? "answer" : mode === "pass_decision_to_tool" ? "either" : "permission");

/** A form for a ticket; `decide(action, payload, more)` is called once, with what was said. */
export function questionForm(item, decide, onColor) {
  const ticket = item.result?.suspension ?? {};
  const asks = wanted(ticket), schema = ticket.suspension?.response_schema;
  const isColor = item.name === "set_background_color";
  const fields = asks === "permission" || isColor ? [] : fieldsOf(asks, schema);
  const label = isColor ? "Apply" : asks === "permission" ? "Approve" : asks === "either" ? "Approve" : "Answer";
  const yes = make("button", { className: "yes", textContent: label });
  const no = make("button", { type: "button", textContent: "Decline" });
  const always = make("button", { type: "button", textContent: "Always" });
  const offered = ticket.suspension?.parameters?.remember?.scopes ?? [];
  const form = make("form", { className: "ask" },
    make("strong", { textContent: item.result?.message || `May ${item.name} run?` }),
    ...fields.map((it) => it.view), yes, ...(asks === "permission" && offered.includes("thread") ? [always] : []), no);
  const say = (...said) => {
    for (const button of [yes, no, always]) button.disabled = true;
    document.activeElement?.blur();
    decide(...said);
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    if (isColor) onColor(item.args?.color ?? "");
    say("resume", isColor ? "applied" : payloadOf(asks, schema, fields));
  };
  no.onclick = () => say("cancel");
  always.onclick = () => say("resume", undefined, { remember: { scope: "thread" } });
  return form;
}

function fieldsOf(asks, schema) {
  const properties = schema?.type === "object" ? Object.entries(schema.properties ?? {}) : [];
  const needed = schema?.required ?? [];
  if (properties.length) return properties.map(([name, it]) => field(name, it ?? {}, needed.includes(name)));
  return [field("", { title: "Answer", ...schema }, asks === "answer" && schema?.type !== "boolean")];
}

function field(name, schema, isNeeded) {
  const label = schema.title ?? name;
  const common = { ariaLabel: label, placeholder: label, required: isNeeded, title: schema.description ?? "" };
  let input;
  if (Array.isArray(schema.enum)) {
    const options = schema.enum.map((it) => make("option", { value: JSON.stringify(it), textContent: String(it) }));
    input = make("select", { ariaLabel: label, required: isNeeded }, ...(isNeeded ? [] : [make("option", { value: "" })]), ...options);
    if ("default" in schema) input.value = JSON.stringify(schema.default);
  } else if (schema.type === "boolean") {
    input = make("input", { ...common, type: "checkbox", required: false, checked: Boolean(schema.default) });
  } else {
    const isNumber = ["integer", "number"].includes(schema.type);
    input = make("input", { ...common, type: isNumber ? "number" : "text", value: schema.default ?? "" });
    if (schema.type === "number") input.step = "any";
  }
  const view = input.type === "checkbox" || input.tagName === "SELECT" ? make("label", {}, input, ` ${label}`) : input;
  return { name, schema, input, view };
}

function valueOf({ schema, input }) {
  if (input.type === "checkbox") return input.checked;
  if (input.value === "") return undefined;
  if (input.tagName === "SELECT") return JSON.parse(input.value);
  if (input.type === "number") return Number(input.value);
  if (["array", "object"].includes(schema.type)) {
    try { return JSON.parse(input.value); } catch { return input.value; }
  }
  return input.value;
}

function payloadOf(asks, schema, fields) {
  if (fields.length === 0) return undefined;
  if (fields.length === 1 && fields[0].name === "") return valueOf(fields[0]) ?? (asks === "either" ? undefined : "");
  return Object.fromEntries(fields.map((it) => [it.name, valueOf(it)]).filter(([, value]) => value !== undefined));
}
