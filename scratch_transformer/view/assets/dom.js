// Elements, in short, and how tokens and numbers are written.

import { SPECIAL } from "./session.js";

/** element("button", {class: "chip", onclick: f}, "text", child) */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  set(made, attributes);
  made.append(...children);
  return made;
}

function set(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
}

export const byId = (id) => document.getElementById(id);

/** A token as it is read aloud and shown in running text. */
export function plain(token) {
  return SPECIAL[token] ? `‹${SPECIAL[token]}›` : token === "▁" ? "␣" : token.replaceAll("▁", " ").trim() || token;
}

/** A token in quotation marks, unless it is a special one. */
export function quoted(token) {
  return SPECIAL[token] ? plain(token) : `“${plain(token)}”`;
}

/** A token as an element; a space that belongs to it is a small mark. */
export function tokenElement(token, tag = "span", attributes = {}) {
  const special = SPECIAL[token];
  const made = element(tag, { ...attributes, class: `token ${special ? "special" : ""} ${attributes.class || ""}` });
  if (special) made.append(special);
  else if (!token.startsWith("▁")) made.append(token);
  else made.append(element("span", { class: "space", "aria-hidden": "true" }, "␣"), token.slice(1));
  if (token === "▁") made.append(element("span", { class: "unseen" }, "space"));
  return made;
}

/** A number for a table or a tooltip: four digits after the point, or powers of ten. */
export function written(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? power(x) : x.toFixed(4);
  return text.replace("-", "−");
}

/** 2 · 10⁻¹⁵ */
export function power(x) {
  if (x === 0) return "0";
  const [digits, exponent] = x.toExponential(0).split("e");
  return `${digits}·10${[...String(Number(exponent))].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d] || "⁻").join("")}`;
}

export function percent(p) {
  return p >= 0.9995 && p < 1 ? "99.9 %" : `${(100 * p).toFixed(p < 0.1 && p > 0 ? 1 : 0)} %`;
}
