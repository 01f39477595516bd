// A matrix as coloured cells with its rows and columns named, and every value by pointer and by the arrow keys.

import { extent, paint } from "./cells.js";
import { element, tokenElement, written } from "./dom.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * matrix: {rows: tokens, columns: tokens or null, count: columns, at(row, column), kind: "share" | "signed", unit}.
 * chosen: the row that is marked. told(row, column): a sentence about a cell. onrow(row): a row was clicked.
 */
export function heatMap(matrix, { chosen = -1, told, onrow, label }) {
  const size = sizes(matrix);
  const canvas = element("canvas", {
    tabindex: 0,
    role: "application",
    "aria-roledescription": "heat map",
    "aria-label": label,
  });
  const sentence = element("p", { class: "cell", "aria-live": "polite" }, "\u00a0");
  const scale = extent(matrix);
  const show = (cell) => {
    sentence.textContent = cell ? told(cell.row, cell.column) : "\u00a0";
    paint(canvas, matrix, { size, scale, chosen, shown: cell });
  };
  connectPointer(canvas, matrix, size, show, onrow);
  connectKeysOf(canvas, matrix, show, onrow, Math.max(0, chosen));
  new ResizeObserver(() => show(null)).observe(canvas);
  const cells = element("div", { class: "cells" }, columnNames(matrix, size), canvas);
  const map = element("div", { class: "map" }, rowNames(matrix, size, chosen), cells);
  const natural = size.width ? `--natural:${Math.round(28 * matrix.count + 80)}px` : null;
  return element("figure", { class: "heat", style: natural }, map, legend(matrix, scale), sentence);
}

function connectPointer(canvas, matrix, size, show, onrow) {
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / size.height);
    const column = Math.floor(((event.clientX - box.left) / box.width) * matrix.count);
    const isInside = row >= 0 && row < matrix.rows.length && column >= 0 && column < matrix.count;
    return isInside ? { row, column } : null;
  };
  canvas.addEventListener("pointermove", (event) => show(cellAt(event)));
  canvas.addEventListener("pointerleave", () => show(null));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell && onrow) onrow(cell.row);
  });
}

function connectKeysOf(canvas, matrix, show, onrow, row) {
  const cursor = { row, column: 0 };
  const within = (place, n) => Math.min(n - 1, Math.max(0, place));
  canvas.addEventListener("focus", () => {
    if (canvas.matches(":focus-visible")) show({ ...cursor });
  });
  canvas.addEventListener("blur", () => show(null));
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Enter" && onrow) onrow(cursor.row);
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    cursor.row = within(cursor.row + step[0], matrix.rows.length);
    cursor.column = within(cursor.column + step[1], matrix.count);
    show({ ...cursor });
  });
}

function sizes({ rows, columns, count }) {
  const height = rows.length <= 6 ? 42 : rows.length <= 10 ? 34 : rows.length <= 16 ? 26 : rows.length <= 28 ? 20 : 14;
  if (count === 1) return { height, width: 110 };
  return { height, width: columns ? (rows.length <= 6 ? 62 : height * 1.5) : null };
}

function rowNames(matrix, size, chosen) {
  const style = `height:${size.height}px`;
  const names = matrix.rows.map((token, row) =>
    tokenElement(token, "span", { style, class: row === chosen ? "chosen" : "" }),
  );
  return element("div", { class: "row-names", "aria-hidden": "true" }, ...names);
}

function columnNames(matrix, size) {
  if (!matrix.columns) return element("p", { class: "axis", "aria-hidden": "true" }, matrix.unit && `${matrix.unit} →`);
  const isFlat = matrix.columns.every((token) => token.length * 8.5 < size.width);
  const names = matrix.columns.map((token) => element("span", {}, tokenElement(token)));
  const style = `grid-template-columns:repeat(${matrix.count},minmax(0,${size.width}px))`;
  return element("div", { class: `column-names ${isFlat ? "flat" : ""}`, "aria-hidden": "true", style }, ...names);
}

function legend(matrix, scale) {
  const kind = scale.isSigned ? "signed" : matrix.kind === "share" ? "share" : "positive";
  const short = (x) => (x === 0 ? "0" : written(x).replace(/(\.\d\d)\d\d$/, "$1"));
  const [low, high] =
    kind === "share" ? ["0 %", "100 %"] : [scale.isSigned ? -scale.largest : 0, scale.largest].map(short);
  const strip = element("i", { "aria-hidden": "true" });
  return element("figcaption", { class: `legend ${kind}` }, element("span", {}, low), strip, element("span", {}, high));
}
