// The centre: one tensor, as a heat map, and what else shows it best: lines between words, or the likeliest tokens.

import { thumbnail } from "./cells.js";
import { element } from "./dom.js";
import { heatMap } from "./heatmap.js";
import { attentionLines } from "./lines.js";
import { matrixOf } from "./matrix.js";
import { nextWord } from "./nextword.js";
import { remark, teller } from "./remark.js";
import { ranked } from "./session.js";
import { asTable } from "./table.js";

const WHOSE = { page: "this page", torch: "PyTorch", difference: "difference" };

export function tensorView(reader, view) {
  const { session, state, present } = reader;
  const { point } = view;
  const numbers = view.torch ? state.numbers : "page";
  const matrix = matrixOf(view, numbers, state.head);
  const hasHeads = view.x.shape.length === 3;
  const chosen = hasHeads && state.query <= matrix.rows.length ? state.query - 1 : -1;
  const onrow = hasHeads ? (row) => reader.change({ query: state.query === row + 1 ? 0 : row + 1 }) : null;
  const told = teller(session, view, state.head);
  const map = heatMap(matrix, { chosen, told, onrow, label: labelOf(point, matrix) });
  const isWords = point.place.endsWith("weights") && numbers !== "difference";
  return [
    ...(hasHeads ? [headPicker(reader, view, numbers)] : []),
    ...(point.place === "probabilities" ? [next(reader)] : []),
    isWords ? element("div", { class: "pair" }, map, attentionLines(matrix, { chosen, onrow })) : map,
    element("p", { class: "here" }, remark(reader, view, matrix, chosen)),
    tools(reader, view, matrix, numbers),
  ];
}

function next(reader) {
  const { session, present, state } = reader;
  const write = reader.isLast ? null : () => reader.write();
  return nextWord(ranked(present.tensors, state, 10), session.target.vocabulary, present.next, write);
}

function labelOf(point, matrix) {
  return `${point.title}: ${matrix.rows.length} rows, ${matrix.count} columns. Arrow keys move from number to number.`;
}

function headPicker(reader, view, numbers) {
  const { head } = reader.state;
  const heads = Array.from({ length: view.x.shape[0] }, (_, i) => headButton(reader, view, numbers, i + 1));
  const onchange = () => reader.toggleHead(head);
  const box = element("input", { type: "checkbox", id: "head-off", checked: reader.isOff(head), onchange });
  const off = element("label", { class: "switch" }, box, ` switch head ${head} off`);
  return element("div", { class: "heads", role: "group", "aria-label": "Heads" }, ...heads, off);
}

function headButton(reader, view, numbers, head) {
  const isOff = reader.isOff(head);
  const attributes = {
    type: "button",
    class: `head ${isOff ? "off" : ""}`,
    "aria-pressed": String(reader.state.head === head),
    "aria-label": `Head ${head}${isOff ? ", switched off" : ""}`,
    onclick: () => reader.change({ head }),
  };
  return element("button", attributes, thumbnail(matrixOf(view, numbers, head)), element("span", {}, `head ${head}`));
}

/** Whose numbers are shown, and the same as a table. */
function tools(reader, view, matrix, numbers) {
  const buttons = Object.entries(WHOSE).map(([name, text]) => {
    const onclick = () => reader.change({ numbers: name });
    const disabled = name !== "page" && !view.torch;
    return element("button", { type: "button", "aria-pressed": String(numbers === name), disabled, onclick }, text);
  });
  const choice = element("div", { class: "choice", role: "group", "aria-label": "Whose numbers" }, ...buttons);
  const table = element("details", { class: "table" }, element("summary", {}, "All numbers as a table"));
  table.addEventListener("toggle", () => {
    if (!table.open || table.children.length > 1) return;
    const made = asTable(matrix, `${view.point.title}, ${WHOSE[numbers]}`);
    table.append(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All numbers" }, made));
  });
  return element("div", { class: "tools" }, choice, table);
}
