// A matrix as coloured cells on a canvas, with its rows named, and every value on hover and by the arrow keys.

import { blank, colour, inkOn, shade, theme } from "./colours.js";
import { element, tokenElement, written } from "./dom.js";

/**
 * matrix: {rows: tokens, columns: tokens or null, count: columns, at(row, column), kind: "share" | "signed", unit}.
 * chosen: the row that is marked. told(row, column): a sentence about a cell. onrow(row): a row was clicked.
 */
export function heatMap(matrix, { chosen = -1, told, onrow, label }) {
  const size = sizes(matrix), labels = element("div", { class: "row-names", "aria-hidden": "true" });
  matrix.rows.forEach((token, row) => {
    labels.append(tokenElement(token, "span", { style: `height:${size.height}px`, class: row === chosen ? "chosen" : "" }));
  });
  const canvas = element("canvas", { tabindex: 0, role: "application", "aria-roledescription": "heat map", "aria-label": label });
  const reader = element("p", { class: "cell", "aria-live": "polite" }, "\u00a0");
  const map = element("div", { class: "map" }, labels, element("div", { class: "cells" }, columnNames(matrix, size), canvas));
  const scale = extent(matrix), cursor = { row: Math.max(0, chosen), column: 0 };
  let shown = null; // the cell under the pointer or the cursor
  const show = (cell) => {
    shown = cell;
    reader.textContent = cell ? told(cell.row, cell.column) : "\u00a0";
    paint();
  };
  const paint = () => draw(canvas, matrix, size, scale, chosen, shown);
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / size.height), column = Math.floor((event.clientX - box.left) / box.width * matrix.count);
    return row >= 0 && row < matrix.rows.length && column >= 0 && column < matrix.count ? { row, column } : null;
  };
  canvas.addEventListener("pointermove", (event) => show(cellAt(event)));
  canvas.addEventListener("pointerleave", () => show(null));
  canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) show({ ...cursor }); });
  canvas.addEventListener("blur", () => show(null));
  canvas.addEventListener("click", (event) => { const cell = cellAt(event); if (cell && onrow) onrow(cell.row); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && onrow) onrow(cursor.row);
    if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    cursor.row = Math.min(matrix.rows.length - 1, Math.max(0, cursor.row + step[0]));
    cursor.column = Math.min(matrix.count - 1, Math.max(0, cursor.column + step[1]));
    show({ ...cursor });
  });
  const observer = new ResizeObserver(paint);
  observer.observe(canvas);
  const natural = size.width ? `--natural:${Math.round(32 * matrix.count + 96)}px` : null;
  return element("figure", { class: `heat ${matrix.columns ? "words" : "wide"}`, style: natural }, map, legend(matrix, scale), reader);
}

/** A small picture of a matrix, without words. */
export function thumbnail(matrix) {
  const canvas = element("canvas", { width: matrix.count, height: matrix.rows.length, "aria-hidden": "true" });
  const context = canvas.getContext("2d"), scheme = theme(), scale = extent(matrix);
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      context.fillStyle = fill(matrix, matrix.at(row, column), scale, scheme).css;
      context.fillRect(column, row, 1, 1);
    }
  });
  return canvas;
}

function sizes({ rows, columns, count }) {
  const height = rows.length <= 6 ? 42 : rows.length <= 10 ? 34 : rows.length <= 16 ? 26 : rows.length <= 28 ? 20 : 14;
  return { height, width: columns ? (rows.length <= 6 ? 62 : height * 1.5) : null, count };
}

function columnNames(matrix, size) {
  if (!matrix.columns) return element("p", { class: "axis", "aria-hidden": "true" }, matrix.unit, element("span", {}, "→"));
  const isFlat = matrix.columns.every((token) => token.length * 8.5 < size.width);
  const names = element("div", { class: `column-names ${isFlat ? "flat" : ""}`, "aria-hidden": "true", style: `grid-template-columns:repeat(${matrix.count},minmax(0,${size.width}px))` });
  names.append(...matrix.columns.map((token) => element("span", {}, tokenElement(token))));
  return names;
}

/** The largest size of a finite number, and whether there are numbers below 0. */
function extent(matrix) {
  if (matrix.kind === "share") return { largest: 1, isSigned: false };
  let largest = 0, isSigned = false;
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      const x = matrix.at(row, column);
      if (Number.isFinite(x)) { largest = Math.max(largest, Math.abs(x)); isSigned = isSigned || x < 0; }
    }
  });
  return { largest: largest || 1, isSigned };
}

function fill(matrix, x, scale, scheme) {
  if (!Number.isFinite(x)) return { css: blank(scheme), ink: "inherit" };
  const rgb = matrix.kind === "share" ? shade(x, scheme) : colour(x / scale.largest, scheme);
  return { css: `rgb(${rgb})`, ink: inkOn(rgb, scheme) };
}

function draw(canvas, matrix, size, scale, chosen, shown) {
  const available = canvas.parentElement ? canvas.parentElement.clientWidth : 0;
  if (!available) return;
  const width = size.width ? Math.min(available, size.width * matrix.count) : available;
  const height = size.height * matrix.rows.length, ratio = devicePixelRatio || 1, scheme = theme();
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d"), cell = width / matrix.count, gap = cell > 12 ? 2 : cell > 6 ? 1 : 0;
  context.scale(ratio, ratio);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = `${cell < 34 ? 10 : 12}px system-ui, sans-serif`;
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      const x = matrix.at(row, column), { css, ink } = fill(matrix, x, scale, scheme);
      const isDim = chosen >= 0 && row !== chosen;
      context.globalAlpha = isDim ? 0.45 : 1;
      context.fillStyle = css;
      const [left, top] = [column * cell, row * size.height];
      context.fillRect(left + gap / 2, top + 1, cell - gap, size.height - 2);
      if (cell >= 24 && size.height >= 20) {
        context.fillStyle = Number.isFinite(x) ? ink : scheme === "light" ? "#5c5850" : "#b5b0a6";
        context.fillText(inCell(x, matrix.kind), left + cell / 2, top + size.height / 2 + 0.5);
      }
    }
  });
  context.globalAlpha = 1;
  if (shown) {
    context.strokeStyle = scheme === "light" ? "#23211e" : "#f3f0ea";
    context.lineWidth = 1.5;
    context.strokeRect(shown.column * cell + 0.75, shown.row * size.height + 1.25, Math.max(2, cell - 1.5), size.height - 2.5);
  }
}

function inCell(x, kind) {
  if (!Number.isFinite(x)) return written(x);
  if (kind === "share") return x < 0.005 ? "·" : String(Math.round(100 * x));
  return (Math.abs(x) >= 9.95 ? x.toFixed(0) : x.toFixed(1)).replace("-", "−").replace("−0.0", "0.0");
}

function legend(matrix, scale) {
  const of = (x) => (matrix.kind === "share" ? `${Math.round(100 * x)} %` : x === 0 ? "0" : written(x).replace(/(\.\d\d)\d\d$/, "$1"));
  const [low, high] = [scale.isSigned ? -scale.largest : 0, scale.largest];
  const kind = scale.isSigned ? "signed" : matrix.kind === "share" ? "share" : "positive";
  return element("figcaption", { class: `legend ${kind}` },
    element("span", {}, of(low)), element("i", { "aria-hidden": "true" }), element("span", {}, of(high)));
}

/** The same numbers as a table, for those who read or hear them. */
export function asTable(matrix, caption) {
  const header = element("tr", {}, element("th", { scope: "col" }, "token"));
  for (let column = 0; column < matrix.count; column++) {
    header.append(element("th", { scope: "col" }, matrix.columns ? tokenElement(matrix.columns[column]) : String(column + 1)));
  }
  const body = matrix.rows.map((token, row) => {
    const line = element("tr", {}, element("th", { scope: "row" }, tokenElement(token)));
    for (let column = 0; column < matrix.count; column++) line.append(element("td", {}, written(matrix.at(row, column))));
    return line;
  });
  return element("table", {}, element("caption", {}, caption), element("thead", {}, header), element("tbody", {}, ...body));
}
