// The probabilities of the ten likeliest next tokens, as bars.

import { element, tokenElement } from "./dom.js";

/** best: [{id, p}], the likeliest first. written: the id that the decoder writes. onwrite: what a button does, or null. */
export function nextWord(best, vocabulary, written, onwrite) {
  const names = element(
    "tr",
    {},
    ...["token", "bar", "probability", "choice"].map((name) => element("th", { scope: "col" }, name)),
  );
  const rows = best.map(({ id, p }) => row(vocabulary[id], p, id === written));
  const caption = element("caption", {}, "The ten likeliest next tokens");
  const table = element(
    "table",
    { class: "next" },
    caption,
    element("thead", {}, names),
    element("tbody", {}, ...rows),
  );
  const button = { type: "button", class: "primary", onclick: onwrite };
  const go = onwrite ? element("button", button, "Write it, and run the decoder again") : null;
  return element("div", { class: "next-word" }, table, go);
}

function row(token, p, isWritten) {
  const bar = element("i", { style: `width:${Math.max(0.15, 100 * p)}%` });
  return element(
    "tr",
    { class: isWritten ? "written" : "" },
    element("th", { scope: "row" }, tokenElement(token)),
    element("td", { class: "bar", "aria-hidden": "true" }, bar),
    element("td", {}, precise(p)),
    element("td", { class: "mark" }, isWritten ? "written" : ""),
  );
}

function precise(p) {
  if (Number.isNaN(p)) return "NaN";
  if (p >= 1e-4) return `${(100 * p).toFixed(p >= 0.1 ? 2 : 3)} %`;
  return p === 0 ? "0 %" : p.toExponential(0).replace("-", "−");
}
