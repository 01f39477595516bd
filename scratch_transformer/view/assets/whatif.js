// The knobs: what happens if something is left out, or done as many have done it by mistake.

import { byId, element } from "./dom.js";
import { mistakeOf } from "./state.js";

const SEVERITIES = { mistake: "a mistake", paper: "as in the paper, not as here", harmless: "harmless, if trained so", note: "worth knowing" };

/** Connects the controls of the page once. change(what): new values of the state. */
export function connectKnobs(session, change) {
  for (const name of ["scale", "mask", "positions"]) byId(`knob-${name}`).addEventListener("change", (event) => change({ [name]: event.target.checked }));
  byId("knob-temperature").addEventListener("input", (event) => change({ temperature: Number(event.target.value) }));
  byId("knob-padding").addEventListener("change", (event) => change({ padding: Math.max(0, Math.min(8, Math.round(Number(event.target.value)) || 0)) }));
  byId("knob-draw").addEventListener("change", (event) => change({ draw: event.target.checked ? 1 : 0 }));
  byId("draw-again").addEventListener("click", () => change((state) => ({ draw: state.draw + 1 })));
  byId("reset").addEventListener("click", () => change({ scale: true, mask: true, positions: true, temperature: 1, padding: 0, draw: 0, mistake: "", off: [] }));
  const select = byId("knob-mistake"), chapters = new Map();
  for (const entry of session.document.mistakes) {
    if (!chapters.has(entry.chapter)) chapters.set(entry.chapter, element("optgroup", { label: entry.chapter }));
    chapters.get(entry.chapter).append(element("option", { value: entry.id }, `${entry.id} · ${entry.title}`));
  }
  select.append(...chapters.values());
  select.addEventListener("change", () => change({ mistake: select.value }));
  byId("knob-form").addEventListener("change", (event) => change((state) => ({ mistake: `${state.mistake.split(":")[0]}:${event.target.value}` })));
}

/** Shows the values of a state. */
export function showKnobs(session, state) {
  for (const name of ["scale", "mask", "positions"]) byId(`knob-${name}`).checked = state[name];
  byId("knob-temperature").value = state.temperature;
  byId("temperature").textContent = state.temperature.toFixed(1);
  byId("knob-padding").value = state.padding;
  byId("knob-draw").checked = state.draw > 0;
  byId("draw-again").hidden = !state.draw;
  const [entry, form] = mistakeOf(state, session), forms = entry ? Object.keys(entry.forms) : [];
  byId("knob-mistake").value = entry ? entry.id : "";
  byId("form").hidden = forms.length < 2;
  byId("knob-form").replaceChildren(...forms.map((name) => element("option", { value: name, selected: name === form }, name || "as described")));
  byId("mistake").hidden = !entry;
  if (entry) byId("mistake").replaceChildren(...card(entry));
  byId("heads-off").textContent = state.off.length ? `${state.off.length} ${state.off.length === 1 ? "head is" : "heads are"} switched off.` : "";
  byId("reset").hidden = !isTurned(state);
}

export function isTurned(state) {
  return Object.keys(state.changes).length > 0 || state.off.length > 0 || state.padding > 0 || state.draw > 0 || state.temperature !== 1;
}

function card(entry) {
  const rows = [["What the code does", entry.does], ["What is right", entry.expected], ["The mathematics", entry.mathematics], ["The fix", entry.fix]];
  return [
    element("p", { class: "title" }, element("strong", {}, entry.id), ` ${entry.title} `, element("span", { class: "severity" }, SEVERITIES[entry.severity])),
    element("dl", {}, ...rows.filter(([, text]) => text).flatMap(([name, text]) => [element("dt", {}, name), element("dd", { class: name === "The mathematics" ? "mathematics" : "" }, text)])),
  ];
}
