// The probabilities of the ten likeliest next tokens, as bars.

import { element, tokenElement } from "./dom.js";

/** best: [{id, p}], the likeliest first. written: the id that the decoder writes. */
export function nextWord(best, vocabulary, written, onwrite) {
  const rows = best.map(({ id, p }) => element("tr", { class: id === written ? "written" : "" },
    element("th", { scope: "row" }, tokenElement(vocabulary[id])),
    element("td", { class: "bar", "aria-hidden": "true" }, element("i", { style: `width:${Math.max(0.15, 100 * p)}%` })),
    element("td", {}, Number.isNaN(p) ? "NaN" : precise(p)),
    element("td", {}, id === written ? element("span", { class: "mark" }, "written") : "")));
  const head = element("tr", {}, ...["token", "", "probability", ""].map((name) => (name ? element("th", { scope: "col" }, name) : element("td"))));
  const table = element("table", { class: "next" }, element("caption", {}, "The ten likeliest next tokens"), element("thead", {}, head), element("tbody", {}, ...rows));
  const go = onwrite ? element("button", { type: "button", class: "primary", onclick: onwrite }, "Write it, and run the decoder again") : null;
  return element("div", { class: "next-word" }, table, go);
}

function precise(p) {
  return p >= 0.1 ? `${(100 * p).toFixed(2)} %` : p >= 1e-4 ? `${(100 * p).toFixed(3)} %` : p === 0 ? "0 %" : `${p.toExponential(0)}`.replace("-", "−");
}
