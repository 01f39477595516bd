// Where the reader is, and which knobs are turned: in the address after #, so that every state has a link.

export const RIGHT = {
  sentence: "",
  token: 0,
  at: "",
  layer: 1,
  head: 1,
  query: 0,
  numbers: "page",
  scale: true,
  mask: true,
  positions: true,
  temperature: 1,
  padding: 0,
  mistake: "",
  off: [],
  draw: 0,
  changes: {},
};
const NUMBERS = ["page", "torch", "difference"];
const LEFT_OUT = { scale: { scale: "none" }, mask: { causal: "ignored" }, positions: { positions: "none" } };

/** A state from "#s=forty-two&at=encoder.self_attention.weights&layer=1&head=3"; what makes no sense is left out. */
export function fromHash(hash, start, session) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const { config } = session;
  const whole = (name, low, high, otherwise) => {
    const n = given.has(name) ? Number(given.get(name)) : NaN;
    return Number.isInteger(n) && n >= low && n <= high ? n : otherwise;
  };
  const temperature = Number(given.get("temperature"));
  const state = {
    ...start,
    sentence: given.get("s") ?? start.sentence,
    token: whole("token", 1, config.longest[1], 0),
    at: given.get("at") ?? start.at,
    layer: whole("layer", 1, config.num_layers, start.layer),
    head: whole("head", 1, config.num_heads, start.head),
    query: whole("query", 1, Math.max(...config.longest), 0),
    numbers: NUMBERS.includes(given.get("numbers")) ? given.get("numbers") : "page",
    temperature: temperature >= 0.1 && temperature <= 5 ? temperature : 1,
    padding: whole("padding", 0, 8, 0),
    draw: whole("draw", 1, 1e6, 0),
    mistake: given.get("mistake") ?? "",
    off: (given.get("off") ?? "").split(",").filter((name) => isHead(name, config)),
  };
  for (const name of Object.keys(LEFT_OUT)) state[name] = given.get(name) !== "off";
  return withChanges(state, session);
}

/** The same state, with what its knobs change in the recipe. */
export function withChanges(state, session) {
  const changes = {};
  for (const [name, change] of Object.entries(LEFT_OUT)) if (!state[name]) Object.assign(changes, change);
  const [id, form] = mistakeOf(state, session);
  if (id) Object.assign(changes, id.forms[form]);
  return { ...state, mistake: id ? state.mistake : "", changes };
}

/** The entry of the catalogue, and the form of it, that "A1:not scaled" names; the first form of "A1". */
export function mistakeOf(state, session) {
  const [id, ...rest] = state.mistake.split(":");
  const entry = session.document.mistakes.find((m) => m.id === id);
  if (!entry) return [null, ""];
  const form = rest.join(":");
  return [entry, form in entry.forms ? form : Object.keys(entry.forms)[0]];
}

export function toHash(state) {
  const given = new URLSearchParams();
  given.set("s", state.sentence);
  if (state.token) given.set("token", state.token);
  given.set("at", state.at);
  for (const name of ["layer", "head"]) given.set(name, state[name]);
  for (const name of ["query", "padding", "draw"]) if (state[name]) given.set(name, state[name]);
  if (state.numbers !== "page") given.set("numbers", state.numbers);
  if (state.temperature !== 1) given.set("temperature", state.temperature);
  for (const name of Object.keys(LEFT_OUT)) if (!state[name]) given.set(name, "off");
  if (state.mistake) given.set("mistake", state.mistake);
  if (state.off.length) given.set("off", state.off.join(","));
  return `#${given}`;
}

function isHead(name, config) {
  const [stack, layer, kind, head] = name.split(".");
  const kinds = { encoder: ["self"], decoder: ["self", "cross"] }[stack] || [];
  return (
    kinds.includes(kind) &&
    Number(layer) < config.num_layers &&
    Number(head) < config.num_heads &&
    /^\w+\.\d+\.\w+\.\d+$/.test(name)
  );
}
