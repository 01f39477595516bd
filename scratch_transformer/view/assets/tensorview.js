// The centre: one tensor, as a heat map, and what else shows it best: lines between words, or the likeliest tokens.

import { theirs } from "./check.js";
import { element, percent, plain, power, written } from "./dom.js";
import { asTable, heatMap, thumbnail } from "./heatmap.js";
import { attentionLines, largest } from "./lines.js";
import { nextWord } from "./nextword.js";
import { nameIn } from "./places.js";
import { ranked } from "./session.js";

const UNITS = { features: "features", width: "features of this head", hidden: "hidden features", vocabulary: "tokens of the vocabulary", one: "" };

/** The matrix of a tensor: of one head where it has heads. numbers: "page", "torch" or "difference". */
export function matrixOf(view, numbers, head) {
  const { x, torch, point } = view, chosen = numbers === "torch" ? torch : x;
  const [rowAxis, columnAxis] = point.axes.slice(-2), [rows, count] = chosen.shape.slice(-2);
  const offset = chosen.shape.length === 3 ? (head - 1) * rows * count : 0;
  const value = numbers === "difference" ? (i) => apart(x.data[i], torch.data[i]) : (i) => chosen.data[i];
  const isShare = numbers !== "difference" && /weights|probabilities/.test(point.place);
  const tokens = columnAxis in UNITS ? null : view.names(columnAxis, count);
  return {
    rows: view.names(rowAxis, rows), columns: tokens, count, kind: isShare ? "share" : "signed",
    unit: columnAxis === "one" ? "one number for each" : `${count} ${UNITS[columnAxis] || ""}`,
    at: (row, column) => value(offset + row * count + column),
  };
}

function apart(a, b) {
  return a === b ? 0 : a - b;
}

/** The tensor of a place in the present pass, with PyTorch's beside it if there is one. */
export function viewOf(session, present, point, layer) {
  const x = present.tensors.get(nameIn(point, layer));
  if (!x) return null;
  const torch = theirs(session, nameIn(point, layer), x, present.source, present.prefix, point.axes);
  const fits = torch && torch.shape.join() === x.shape.join();
  const lists = { source: present.source.map((id) => session.source.vocabulary[id]), target: present.prefix.map((id) => session.target.vocabulary[id]) };
  const names = (axis, n) => [lists[axis], lists.source, lists.target].find((list) => list && list.length === n) || Array.from({ length: n }, (_, i) => String(i + 1));
  return { x, torch: fits ? torch : null, isOtherShape: Boolean(torch) && !fits, point, names };
}

/** What stands in the middle. act: what buttons do. */
export function tensorView(session, present, view, state, act) {
  const { point } = view, isAttention = point.place.endsWith("weights"), isNext = point.place === "probabilities";
  const numbers = view.torch ? state.numbers : "page", matrix = matrixOf(view, numbers, state.head);
  const chosen = point.axes[0] === "heads" && state.query <= matrix.rows.length ? state.query - 1 : -1;
  const parts = [];
  if (view.x.shape.length === 3) parts.push(headPicker(view, numbers, state, act));
  if (isNext) parts.push(nextWord(ranked(present.tensors, state, 10), session.target.vocabulary, present.next, act.write));
  const options = { chosen, told: teller(session, view, state.head), label: labelOf(point, matrix), onrow: chosenRow(point, state, act) };
  const map = heatMap(matrix, options);
  const isWords = isAttention && numbers !== "difference";
  parts.push(isWords ? element("div", { class: "pair" }, map, attentionLines(matrix, { chosen, onrow: options.onrow })) : map);
  parts.push(element("p", { class: "here" }, remark(session, present, view, matrix, chosen, state)));
  parts.push(tools(view, matrix, numbers, act));
  return parts;
}

function chosenRow(point, state, act) {
  if (point.axes[0] !== "heads") return null;
  return (row) => act.change({ query: state.query === row + 1 ? 0 : row + 1 });
}

function headPicker(view, numbers, state, act) {
  const heads = Array.from({ length: view.x.shape[0] }, (_, i) => element("button", {
    type: "button", class: `head ${act.isOff(i + 1) ? "off" : ""}`, "aria-pressed": String(state.head === i + 1), "aria-label": `Head ${i + 1}${act.isOff(i + 1) ? ", switched off" : ""}`, onclick: () => act.change({ head: i + 1 }),
  }, thumbnail(matrixOf(view, numbers, i + 1)), element("span", {}, `head ${i + 1}`)));
  const off = element("label", { class: "switch" }, element("input", { type: "checkbox", id: "head-off", checked: act.isOff(state.head), onchange: () => act.toggleHead(state.head) }), ` switch head ${state.head} off`);
  return element("div", { class: "heads", role: "group", "aria-label": "Heads" }, ...heads, off);
}

/** Which numbers are shown, and the same as a table. */
function tools(view, matrix, numbers, act) {
  const names = { page: "this page", torch: "PyTorch", difference: "difference" };
  const choice = element("div", { class: "choice", role: "group", "aria-label": "Whose numbers" }, ...Object.entries(names).map(([name, text]) => element("button", {
    type: "button", "aria-pressed": String(numbers === name), disabled: name !== "page" && !view.torch, onclick: () => act.change({ numbers: name }),
  }, text)));
  const table = element("details", { class: "table" }, element("summary", {}, "All numbers as a table"));
  table.addEventListener("toggle", () => {
    if (table.open && table.children.length === 1) table.append(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of all numbers" }, asTable(matrix, `${view.point.title}, ${names[numbers]}`)));
  });
  return element("div", { class: "tools" }, choice, table);
}

/** A sentence about a cell. */
function teller(session, view, head) {
  return (row, column) => {
    const [ours, other] = ["page", "torch"].map((name) => (name === "page" || view.torch ? matrixOf(view, name, head) : null));
    const name = ours.columns ? plain(ours.columns[column]) : view.point.axes.at(-1) === "vocabulary" ? plain(session.target.vocabulary[column]) : view.point.axes.at(-1) === "one" ? "" : `feature ${column + 1}`;
    const x = ours.at(row, column), from = plain(ours.rows[row]);
    const text = `${from}${name ? ` → ${name}` : ""}: ${written(x)}`;
    if (!other) return text;
    const y = other.at(row, column);
    return `${text}   PyTorch ${written(y)}, difference ${power(Math.abs(apart(x, y)))}`;
  };
}

function labelOf(point, matrix) {
  return `${point.title}: ${matrix.rows.length} rows, ${matrix.count} columns. Arrow keys move from number to number.`;
}

/** What is worth seeing in these very numbers. */
function remark(session, present, view, matrix, chosen, state) {
  const { point, x } = view;
  if (point.place.endsWith("weights")) {
    if (chosen >= 0) return `“${plain(matrix.rows[chosen])}” gives ${largest(matrix, chosen, 3)}.${wrongSum(matrix, chosen)}`;
    return `Choose a word to see where it looks. Head ${state.head} looks most sharply from ${sharpest(matrix)}.`;
  }
  if (point.place === "probabilities") {
    const [best] = ranked(present.tensors, state, 1), text = present.prefix.length > 1 ? `After “${session.target.decode(present.prefix)}”` : "At the start";
    return `${text}, the model gives ${percent(best.p)} to “${plain(session.target.vocabulary[best.id])}”. The map has this for every place at once; its last row is the one that counts.`;
  }
  const names = { one: "number", width: "features", hidden: "hidden features", source: "source tokens", target: "target tokens" };
  return x.shape.map((n, i) => `${n} ${names[point.axes[i]] || (point.axes[i] === "vocabulary" ? "tokens of the vocabulary" : point.axes[i])}`).join(" × ");
}

/** With a mistake, the shares of a query may add up to anything. */
function wrongSum(matrix, row) {
  let sum = 0;
  for (let column = 0; column < matrix.count; column++) sum += matrix.at(row, column);
  return Math.abs(sum - 1) < 1e-6 ? "" : ` Its shares add up to ${written(100 * sum)} %.`;
}

function sharpest(matrix) {
  let best = [0, 0];
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) if (matrix.rows[row] !== matrix.columns[column] && matrix.at(row, column) > matrix.at(...best)) best = [row, column];
  });
  return `“${plain(matrix.rows[best[0]])}” to “${plain(matrix.columns[best[1]])}”, ${percent(matrix.at(...best))}`;
}
