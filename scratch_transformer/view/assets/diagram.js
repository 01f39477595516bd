// The architecture as in the paper's figure 1, from bottom to top, encoder left and decoder right; one layer is open.

import { drawn, element } from "./dom.js";
import { addressOf, hasLayers, partOf, STACKS, stackOf, sublayers } from "./places.js";

const TITLES = {
  self_attention: "Self-attention",
  cross_attention: "Attention to source",
  feed_forward: "Feed-forward",
  norm: "Norm",
};

/** open: the number of the open layer of each stack, or 0. */
export function diagram(reader, open) {
  const memory = drawn("svg", { class: "memory", "aria-hidden": "true" });
  const wider = Object.keys(STACKS).find((name) => open[name]) || "";
  const stacks = Object.keys(STACKS).map((name) => stack(reader, name, open[name]));
  const made = element("div", { class: `stacks ${wider}` }, ...stacks, memory);
  new ResizeObserver(() => connectStacks(made, memory)).observe(made);
  return made;
}

function stack(reader, name, open) {
  const own = reader.points.filter((point) => stackOf(point) === name);
  const first = own.findIndex(hasLayers);
  const inside = own.filter(hasLayers);
  const after = own.slice(first + inside.length);
  const items = [box(reader, name === "encoder" ? "Source embedding" : "Target embedding", own.slice(0, first), 1)];
  for (let layer = 1; layer <= reader.session.config.num_layers; layer++) {
    items.push(layer === open ? openLayer(reader, inside, layer) : closedLayer(reader, inside, layer));
  }
  const norm = after.filter((point) => partOf(point) === "norm");
  const output = after.filter((point) => partOf(point) !== "norm");
  if (norm.length) items.push(box(reader, "Last norm", norm, 1));
  if (output.length) items.push(box(reader, "Output", output, 1));
  const flow = element("div", { class: "flow" }, ...items);
  return element(
    "section",
    { class: `stack ${name}`, "aria-label": STACKS[name] },
    element("h2", {}, STACKS[name]),
    flow,
  );
}

/** A layer as one button, which leads to its first weights. */
function closedLayer(reader, inside, layer) {
  const landing = inside.find((point) => point.place.endsWith(".weights"));
  const onclick = () => reader.go(landing, layer);
  return element(
    "button",
    { type: "button", class: "layer closed", "aria-expanded": "false", onclick },
    `Layer ${layer}`,
  );
}

function openLayer(reader, inside, layer) {
  const flow = element("div", { class: "flow" });
  for (const parts of sublayers(inside)) {
    const boxes = parts.map(([part, points]) => {
      if (part === "sum") return element("div", { class: "add" }, chip(reader, points[0], layer));
      return box(reader, TITLES[part], points, layer, part);
    });
    flow.append(element("div", { class: "sublayer" }, element("div", { class: "flow" }, ...boxes)));
  }
  const name = element("span", { class: "name" }, `Layer ${layer}`);
  return element("div", { class: "layer open", role: "group", "aria-label": `Layer ${layer}` }, flow, name);
}

/** Some points under one title. Details are seen only where the reader is; a box with one point is a button itself. */
function box(reader, title, points, layer, kind = "") {
  const isCurrent = points.includes(reader.point) && reader.layer === layer;
  const [main, ...others] = points.filter((point) => !point.detail);
  if (!isCurrent && main && !others.length) {
    const onclick = () => reader.go(main, layer);
    const absent = reader.isThere(main, layer) ? "" : "absent";
    return element("button", { type: "button", class: `box alone ${absent}`, onclick }, title);
  }
  // a mask that blocks nothing is nothing; what a mistake leaves out is struck through
  const shown = points.filter((point) => reader.isThere(point, layer) || !point.place.endsWith("masked_scores"));
  const chips = element("div", { class: "chips" }, ...shown.map((point) => chip(reader, point, layer)));
  return element(
    "div",
    { class: `box ${kind} ${isCurrent ? "current" : ""}` },
    element("span", { class: "name" }, title),
    chips,
  );
}

function chip(reader, point, layer) {
  const [name, below] = point.short.split("_"); // "W_q" has its q below the line
  const attributes = {
    type: "button",
    class: `chip ${point.detail ? "detail" : ""} ${reader.isThere(point, layer) ? "" : "absent"}`,
    title: point.title,
    "data-at": `${addressOf(point.place)} ${layer}`,
    "aria-current": reader.point === point && reader.layer === layer ? "step" : null,
    "aria-label": `${point.title} (${point.short})`,
    onclick: () => reader.go(point, layer),
  };
  return element("button", attributes, name, below ? element("sub", {}, below) : null);
}

/** The encoder's output goes into every layer of the decoder: drawn to the open one's attention, or to the first. */
function connectStacks(stacks, memory) {
  const find = (selector) => stacks.querySelector(selector)?.getBoundingClientRect();
  const whole = stacks.getBoundingClientRect();
  const from = find(".encoder > .flow > :last-child");
  const to = find(".cross_attention") || find(".decoder > .flow > .layer");
  const middle = (box) => (box.top + box.bottom) / 2 - whole.top;
  const [left, right] = [from.right - whole.left, to.left - whole.left];
  const [y, end] = [middle(from), middle(to)];
  const x = left + Math.min(13, (right - left) / 2);
  const bend = Math.sign(end - y) * Math.min(10, Math.abs(end - y) / 2);
  const line = `M${left} ${y}Q${x} ${y} ${x} ${y + bend}L${x} ${end - bend}Q${x} ${end} ${right - 5} ${end}`;
  memory.replaceChildren(drawn("path", { d: line }), drawn("path", { class: "tip", d: `M${right} ${end}l-7 -4v8z` }));
}
