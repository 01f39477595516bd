// The page: a state, what follows from it, and what shows it.

import { checked, difference, stillRight } from "./check.js";
import { connectKnobs, isTurned, showKnobs } from "./whatif.js";
import { diagram } from "./diagram.js";
import { byId, element, power } from "./dom.js";
import { explanation } from "./explain.js";
import { addressOf, crumbs, hasLayers, headName, itinerary, nameIn, stackOf } from "./places.js";
import { showSentence } from "./sentence.js";
import { BOS, EOS, Trouble, isAltered, open, pass, read, translation, warning } from "./session.js";
import { recipe } from "./recipe.js";
import { Tokenizer } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { RIGHT, fromHash, toHash, withChanges } from "./state.js";
import { tensorView, viewOf } from "./tensorview.js";

async function main() {
  const session = await open(JSON.parse(byId("data").textContent));
  const { document: data, config, recorded } = session, places = itinerary(data.points, config.num_layers);
  const start = { ...RIGHT, sentence: recorded.sentence, at: "decoder.cross_attention.weights", layer: config.num_layers };
  let state = null, computed = {}, turn = 0;

  const pointOf = (address) => data.points.find((point) => addressOf(point.place) === address);
  const indexOf = (state) => {
    const point = pointOf(state.at), layer = hasLayers(point) ? state.layer : 1;
    return places.findIndex((place) => place.point === point && place.layer === layer);
  };

  function change(what, isNew = true) {
    const changed = { ...state, ...(typeof what === "function" ? what(state) : what) };
    show(withChanges(changed, session), isNew);
  }

  function show(wanted, isNew) {
    const next = pointOf(wanted.at) ? wanted : { ...wanted, at: start.at };
    try {
      compute(next);
      byId("trouble").textContent = warning(session, next.sentence);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      byId("trouble").textContent = error.message;
      if (state) { byId("sentence").setAttribute("aria-invalid", "true"); return; }
      next.sentence = start.sentence; // a link to what cannot be read
      compute(next);
    }
    byId("sentence").removeAttribute("aria-invalid");
    state = next;
    remember(isNew);
    render();
  }

  /** What follows from a state; only what has changed is computed again. */
  function compute(next) {
    const key = JSON.stringify([next.sentence, next.changes, next.off, next.padding, next.draw, next.temperature]);
    if (computed.key !== key) {
      const ids = read(session, next.sentence), written = translation(session, ids, next);
      const right = isAltered(next) ? translation(session, ids, { ...RIGHT, padding: next.padding, temperature: next.temperature, draw: next.draw }).text : written.text;
      computed = { key, written, right, passes: new Map() };
      if (isAltered(next) && next.changes !== computed.changes) countRight(next);
      if (!isAltered(next)) byId("still-right").textContent = "";
    }
    const { written, passes } = computed, all = written.isFinished ? [...written.ids, EOS] : written.ids;
    const token = next.token && next.token <= all.length ? next.token : all.length, prefix = [BOS, ...all.slice(0, token - 1)];
    if (!passes.has(token)) passes.set(token, pass(session, written.source, prefix, next));
    computed.present = { token, prefix, source: written.source, tensors: passes.get(token), next: all[token - 1], total: all.length };
  }

  function countRight(next) {
    const mine = ++turn, line = byId("still-right");
    line.textContent = "";
    stillRight(session, { ...next, draw: 0 }, () => mine === turn, (right, done, all) => {
      if (done === all) line.textContent = `Of ${all} sentences, ${right === 0 ? "none is" : right === 1 ? "1 is" : `${right} are`} still translated right.`;
    });
  }

  function remember(isNew) {
    try {
      history[isNew ? "pushState" : "replaceState"](null, "", toHash(state, start));
    } catch { /* a frame without an address of its own */ }
  }

  const isThere = (point, layer) => computed.present.tensors.has(nameIn(point, layer));
  const go = (point, layer) => change({ at: addressOf(point.place), ...(hasLayers(point) ? { layer } : {}) });

  /** To the next place (or the one before) that is no detail; after the last one, to the next token's decoder. */
  function step(by) {
    let i = indexOf(state);
    do i += by; while (places[i] && (places[i].point.detail || !isThere(places[i].point, places[i].layer)));
    if (places[i]) return go(places[i].point, places[i].layer);
    if (by > 0 && computed.present.token < computed.present.total) return write();
    return undefined;
  }

  function write() {
    const first = places.find(({ point }) => stackOf(point) === "decoder");
    change({ token: computed.present.token + 1, at: addressOf(first.point.place) });
  }

  function toToken(token) {
    change({ token: Math.min(computed.present.total, Math.max(1, token)) });
  }

  const act = {
    change,
    write: () => write(),
    isOff: (head) => state.off.includes(headName(pointOf(state.at), state.layer, head)),
    toggleHead: (head) => {
      const name = headName(pointOf(state.at), state.layer, head);
      change({ off: state.off.includes(name) ? state.off.filter((other) => other !== name) : [...state.off, name] });
    },
  };

  function render() {
    const { present, written, right } = computed, point = pointOf(state.at), layer = hasLayers(point) ? state.layer : 1;
    showSentence(session, state, written, present, right, toToken);
    showKnobs(session, state);
    const open = { encoder: 0, decoder: 0, [stackOf(point)]: hasLayers(point) ? layer : 0 };
    keepFocus(() => byId("diagram").replaceChildren(diagram(data.points, config.num_layers, { point, layer }, open, go, isThere)));
    byId("crumbs").textContent = crumbs(point, layer).join(" › ");
    byId("title").textContent = point.title;
    byId("says").textContent = point.says;
    showLayers(point, layer);
    const view = viewOf(session, present, point, layer), last = present.token === present.total;
    keepFocus(() => byId("numbers").replaceChildren(...(view ? tensorView(session, present, view, state, { ...act, write: last ? null : act.write })
      : [element("p", { class: "absent" }, "With what you have changed, this is not computed at all.")])));
    byId("why").replaceChildren(...explanation(point, data.sources[point.source], verdict(view), { torch: data.torch, version: data.version, back: () => change({ sentence: recorded.sentence, token: 0 }) }));
    showSteps(point);
    document.title = `${point.title} – ${state.sentence} – Inside a Transformer`;
  }

  function verdict(view) {
    if (!view) return { kind: "other shape" };
    if (view.isOtherShape) return { kind: "other shape" };
    if (!view.torch) return { kind: "other" };
    return { kind: isTurned(state) ? "altered" : "same", largest: difference(view.x, view.torch), count: view.x.data.length };
  }

  function showLayers(point, layer) {
    const buttons = Array.from({ length: config.num_layers }, (_, i) => element("button", { type: "button", "aria-pressed": String(layer === i + 1), onclick: () => change({ layer: i + 1 }) }, `layer ${i + 1}`));
    keepFocus(() => byId("layers").replaceChildren(...(hasLayers(point) ? buttons : [])));
  }

  function showSteps() {
    const i = indexOf(state), main = places.filter(({ point }) => !point.detail);
    const number = places.slice(0, i + 1).filter(({ point }) => !point.detail).length, { token, total } = computed.present;
    byId("step").textContent = `step ${number} of ${main.length}, token ${token} of ${total}`;
    byId("progress").style.width = `${100 * number / main.length}%`;
    byId("back").disabled = i === 0;
    byId("forth").disabled = i === places.length - 1 && token === total;
  }

  byId("ask").addEventListener("submit", (event) => { event.preventDefault(); change({ sentence: byId("sentence").value.trim(), token: 0, query: 0 }); });
  byId("sentence").addEventListener("input", () => { const text = byId("sentence").value; if (text.trim()) change({ sentence: text, token: 0, query: 0 }, false); });
  byId("sentence").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); byId("ask").requestSubmit(); } });
  byId("another").addEventListener("click", () => {
    const texts = data.examples.map(([text]) => text), at = texts.indexOf(state.sentence);
    byId("sentence").value = texts[(at + 1) % texts.length];
    change({ sentence: texts[(at + 1) % texts.length], token: 0, query: 0 });
  });
  byId("begin").addEventListener("click", () => change({ at: addressOf(places[0].point.place), token: 1, query: 0 }));
  byId("back").addEventListener("click", () => step(-1));
  byId("forth").addEventListener("click", () => step(1));
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, [role=application], pre, .scroll")) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], head = Number(event.key);
    if (by && event.shiftKey) toToken(computed.present.token + by);
    else if (by) step(by);
    else if (head >= 1 && head <= config.num_heads) change({ head });
    else return;
    event.preventDefault();
  });
  addEventListener("popstate", () => show(fromHash(location.hash, start, session), false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => render());

  globalThis.view = { session, recipe, Tokenizer, Transformer }; // for whoever opens the browser's console
  connectKnobs(session, change);
  show(fromHash(location.hash, start, session), false);
  selfCheck(session);
  document.documentElement.dataset.ready = "true";
}

/** Buttons that are made anew keep the focus that the old ones had. */
function keepFocus(replace) {
  const old = document.activeElement, key = old && old !== document.body && old.id === "" ? old.getAttribute("aria-label") || old.textContent : null;
  const region = old ? old.closest("#diagram, #numbers, #layers, #target-tokens") : null;
  replace();
  if (!key || !region || document.activeElement === old) return;
  const same = [...region.querySelectorAll("button, canvas, [tabindex]")].find((other) => (other.getAttribute("aria-label") || other.textContent) === key);
  if (same) same.focus({ preventScroll: true });
}

/** The page's numbers beside torch.nn's, and its translations beside Python's, said at the bottom. */
async function selfCheck(session) {
  const { largest, numbers, tensors, missing } = checked(session), isRight = largest < 1e-4 && !missing.length;
  const line = byId("self-check");
  line.classList.add(isRight ? "good" : "broken");
  line.textContent = isRight
    ? `This page has just checked itself: of ${numbers.toLocaleString("en")} numbers in ${tensors} tensors, none is further than ${power(largest)} from what torch.nn ${session.document.torch} and scratch_transformer computed.`
    : `This page does not compute what torch.nn computed: the largest difference is ${power(largest)}; missing: ${missing.join(", ") || "nothing"}.`;
  line.dataset.largest = largest;
  await stillRight(session, RIGHT, () => true, (right, done, all) => {
    if (done === all) line.append(` ${right === all ? `All ${all}` : `Only ${right} of ${all}`} sample sentences have the same translation as in Python.`);
    if (done === all) line.dataset.right = right;
  });
}

main();
