// The architecture as in the paper's figure 1, from bottom to top, encoder left and decoder right; one layer is open.

import { drawn, element } from "./dom.js";
import { addressOf, hasLayers, partOf, STACKS, stackOf } from "./places.js";

const TITLES = { self_attention: "Self-attention", cross_attention: "Attention to source", feed_forward: "Feed-forward", norm: "Norm" };

/** current: {point, layer}. open: the open layer of each stack. go(point, layer): somebody wants to be there. */
export function diagram(points, layers, current, open, go, isThere) {
  const stack = (name) => {
    const own = points.filter((point) => stackOf(point) === name), first = own.findIndex(hasLayers);
    const inside = own.filter(hasLayers), after = own.slice(first + inside.length);
    const items = [box(name === "encoder" ? "Source embedding" : "Target embedding", own.slice(0, first), 1)];
    for (let layer = 1; layer <= layers; layer++) items.push(layer === open[name] ? opened(inside, layer) : closed(inside, layer));
    const norm = after.filter((point) => partOf(point) === "norm"), output = after.filter((point) => partOf(point) !== "norm");
    if (norm.length) items.push(box("Last norm", norm, 1));
    if (output.length) items.push(box("Output", output, 1, "output"));
    return element("section", { class: `stack ${name}`, "aria-label": STACKS[name] }, element("h3", {}, STACKS[name]), element("div", { class: "flow" }, ...items));
  };
  const chip = (point, layer) => element("button", {
    type: "button", class: `chip ${point.detail ? "detail" : ""} ${isThere(point, layer) ? "" : "absent"}`, title: point.title, "data-at": `${addressOf(point.place)} ${layer}`,
    "aria-current": current.point === point && current.layer === layer ? "step" : null, "aria-label": `${point.title} (${point.short})`,
    onclick: () => go(point, layer),
  }, ...subscripted(point.short));
  // a mask that blocks nothing is nothing; what a mistake leaves out is struck through
  const isShown = (layer) => (point) => isThere(point, layer) || !point.place.endsWith("masked_scores");
  const box = (title, members, layer, kind = "plain") => {
    const isCurrent = members.includes(current.point) && current.layer === layer, [main, ...others] = members.filter((point) => !point.detail);
    if (!isCurrent && main && !others.length) return element("button", { type: "button", class: `box alone ${isThere(main, layer) ? "" : "absent"}`, onclick: () => go(main, layer) }, title);
    return element("div", { class: `box ${kind} ${isCurrent ? "current" : ""}` },
      element("span", { class: "name" }, title), element("div", { class: "chips" }, ...members.filter(isShown(layer)).map((point) => chip(point, layer))));
  };
  const closed = (inside, layer) => element("button", { type: "button", class: "layer closed", "aria-expanded": "false", onclick: () => go(landing(inside), layer) }, `Layer ${layer}`);
  const opened = (inside, layer) => {
    const flow = element("div", { class: "flow" });
    for (const group of sublayers(inside)) {
      const parts = grouped(group).map(([part, members]) => (part === "sum"
        ? element("div", { class: "add" }, chip(members[0], layer)) : box(TITLES[part], members, layer, part)));
      flow.append(element("div", { class: "sublayer" }, element("div", { class: "flow" }, ...parts)));
    }
    return element("div", { class: "layer open", role: "group", "aria-label": `Layer ${layer}` }, flow, element("span", { class: "name" }, `Layer ${layer}`));
  };
  const memory = drawn("svg", { class: "memory", "aria-hidden": "true" });
  const stacks = element("div", { class: `stacks ${open.encoder ? "encoder" : open.decoder ? "decoder" : ""}` }, stack("encoder"), stack("decoder"), memory);
  new ResizeObserver(() => joined(stacks, memory)).observe(stacks);
  return stacks;
}

/** The encoder's output goes into every layer of the decoder: drawn to the open one's attention, or to the first. */
function joined(stacks, memory) {
  const whole = stacks.getBoundingClientRect();
  const from = stacks.querySelector(".encoder > .flow > :last-child").getBoundingClientRect();
  const to = (stacks.querySelector(".cross_attention") || stacks.querySelector(".decoder > .flow > .layer")).getBoundingClientRect();
  const [x, y] = [from.right - whole.left, (from.top + from.bottom) / 2 - whole.top];
  const [end, height] = [to.left - whole.left - 5, (to.top + to.bottom) / 2 - whole.top], middle = Math.min((x + end) / 2, x + 13);
  memory.replaceChildren(
    drawn("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${y} ${middle} ${y + Math.sign(height - y) * Math.min(10, Math.abs(height - y) / 2)}L${middle} ${height - Math.sign(height - y) * Math.min(10, Math.abs(height - y) / 2)}Q${middle} ${height} ${end} ${height}` }),
    drawn("path", { class: "tip", d: `M${end + 5} ${height}l-7 -4v8z` }));
}

/** "W_q" with its q below the line. */
function subscripted(text) {
  const [head, below] = text.split("_");
  return below ? [head, element("sub", {}, below)] : [head];
}

/** Where opening a layer leads: to its first weights. */
function landing(inside) {
  return inside.find((point) => point.place.endsWith(".weights"));
}

/** The points of a layer, by the residual connection around them. */
function sublayers(inside) {
  const groups = [];
  let number = null;
  for (const point of inside) {
    const own = /connections\.(\d)/.exec(point.place), here = own ? own[1] : null;
    if (groups.length === 0 || (here !== null && number !== null && here !== number) || (here === null && isClosed(groups.at(-1)))) groups.push([]);
    if (here !== null) number = here;
    else if (groups.at(-1).length === 0) number = null;
    groups.at(-1).push(point);
  }
  return groups;
}

/** Post-norm: a sublayer ends with the norm that follows the sum. */
function isClosed(group) {
  const sum = group.findIndex((point) => partOf(point) === "sum");
  return sum >= 0 && sum < group.length - 1;
}

function grouped(points) {
  const groups = [];
  for (const point of points) {
    const part = partOf(point);
    if (groups.length && groups.at(-1)[0] === part) groups.at(-1)[1].push(point);
    else groups.push([part, [point]]);
  }
  return groups;
}
