// The knobs: what happens if something is left out, or done as many have done it by mistake.

import { byId, element } from "./dom.js";
import { isAltered } from "./session.js";
import { mistakeOf } from "./state.js";

const SEVERITIES = {
  mistake: "a mistake",
  paper: "as in the paper, not as here",
  harmless: "harmless, if trained so",
  note: "worth knowing",
};

const SWITCHES = ["scale", "mask", "positions"];
const RIGHT_AGAIN = {
  scale: true,
  mask: true,
  positions: true,
  temperature: 1,
  padding: 0,
  draw: 0,
  mistake: "",
  off: [],
};

/** Connects the controls of the page once. */
export function connectKnobs(reader) {
  const on = (id, event, values) => byId(id).addEventListener(event, ({ target }) => reader.change(values(target)));
  for (const name of SWITCHES) on(`knob-${name}`, "change", ({ checked }) => ({ [name]: checked }));
  on("knob-temperature", "input", ({ value }) => ({ temperature: Number(value) }));
  on("knob-padding", "change", ({ value }) => ({ padding: Math.max(0, Math.min(8, Math.round(Number(value)) || 0)) }));
  on("knob-draw", "change", ({ checked }) => ({ draw: checked ? 1 : 0 }));
  on("draw-again", "click", () => ({ draw: reader.state.draw + 1 }));
  on("reset", "click", () => RIGHT_AGAIN);
  on("knob-mistake", "change", ({ value }) => ({ mistake: value }));
  on("knob-form", "change", ({ value }) => ({ mistake: `${reader.state.mistake.split(":")[0]}:${value}` }));
  byId("knob-mistake").append(...chapters(reader.session.document.mistakes));
}

function chapters(mistakes) {
  const groups = new Map();
  for (const { chapter, id, title } of mistakes) {
    if (!groups.has(chapter)) groups.set(chapter, element("optgroup", { label: chapter }));
    groups.get(chapter).append(element("option", { value: id }, `${id} · ${title}`));
  }
  return groups.values();
}

/** Shows the values of a state. */
export function showKnobs(session, state) {
  for (const name of SWITCHES) byId(`knob-${name}`).checked = state[name];
  byId("knob-temperature").value = state.temperature;
  byId("temperature").textContent = state.temperature.toFixed(1);
  byId("knob-padding").value = state.padding;
  byId("knob-draw").checked = state.draw > 0;
  byId("draw-again").hidden = !state.draw;
  byId("heads-off").textContent = headsOff(state.off.length);
  byId("reset").hidden = !isTurned(state);
  showMistake(...mistakeOf(state, session));
}

function showMistake(entry, form) {
  const forms = entry ? Object.keys(entry.forms) : [];
  const options = forms.map((name) =>
    element("option", { value: name, selected: name === form }, name || "as described"),
  );
  byId("knob-mistake").value = entry ? entry.id : "";
  byId("knob-form").replaceChildren(...options);
  byId("form").hidden = forms.length < 2;
  byId("mistake").hidden = !entry;
  byId("mistake").replaceChildren(...(entry ? card(entry) : []));
}

function headsOff(count) {
  return count ? `${count} ${count === 1 ? "head is" : "heads are"} switched off.` : "";
}

export function isTurned(state) {
  return isAltered(state) || state.padding > 0 || state.draw > 0 || state.temperature !== 1;
}

function card(entry) {
  const texts = {
    "What the code does": entry.does,
    "What is right": entry.expected,
    "The mathematics": entry.mathematics,
    "The fix": entry.fix,
  };
  const severity = element("span", { class: "severity" }, SEVERITIES[entry.severity]);
  const list = element("dl", {});
  for (const [name, text] of Object.entries(texts)) {
    if (text) list.append(element("dt", {}, name), element("dd", {}, text));
  }
  return [element("p", { class: "title" }, element("strong", {}, entry.id), ` ${entry.title} `, severity), list];
}
