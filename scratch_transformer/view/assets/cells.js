// The cells of a heat map, painted on a canvas.

import { blank, colour, inkOn, shade, theme } from "./colours.js";
import { written } from "./dom.js";

/** Of all cells: the largest size of a finite number, and whether there are numbers below 0. */
export function extent(matrix) {
  if (matrix.kind === "share") return { largest: 1, isSigned: false };
  let largest = 0;
  let isSigned = false;
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      const x = matrix.at(row, column);
      if (!Number.isFinite(x)) continue;
      largest = Math.max(largest, Math.abs(x));
      isSigned = isSigned || x < 0;
    }
  });
  return { largest: largest || 1, isSigned };
}

/** size: {height of a cell, width or null for what there is}. chosen: a row. shown: the cell that is told of. */
export function paint(canvas, matrix, { size, scale, chosen, shown }) {
  const available = canvas.parentElement ? canvas.parentElement.clientWidth : 0;
  if (!available) return;
  const scheme = theme();
  const width = size.width ? Math.min(available, size.width * matrix.count) : available;
  const cell = width / matrix.count;
  const context = prepared(canvas, width, size.height * matrix.rows.length);
  const hasText = cell >= 24 && size.height >= 20 && scale.largest >= 0.05;
  context.font = `${cell < 34 ? 10 : 12}px system-ui, sans-serif`;
  matrix.rows.forEach((_, row) => {
    context.globalAlpha = chosen >= 0 && row !== chosen ? 0.45 : 1;
    for (let column = 0; column < matrix.count; column++) {
      const x = matrix.at(row, column);
      const { css, ink } = fill(matrix, x, scale, scheme);
      const gap = cell > 12 ? 2 : cell > 6 ? 1 : 0;
      context.fillStyle = css;
      context.fillRect(column * cell + gap / 2, row * size.height + 1, cell - gap, size.height - 2);
      if (!hasText) continue;
      context.fillStyle = ink;
      context.fillText(inCell(x, matrix.kind), (column + 0.5) * cell, (row + 0.5) * size.height + 0.5);
    }
  });
  context.globalAlpha = 1;
  if (shown) outline(context, shown, cell, size.height, scheme);
}

/** A small picture of a matrix, without words: a pixel for every number. */
export function thumbnail(matrix) {
  const canvas = document.createElement("canvas");
  canvas.width = matrix.count;
  canvas.height = matrix.rows.length;
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  const scale = extent(matrix);
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      context.fillStyle = fill(matrix, matrix.at(row, column), scale, theme()).css;
      context.fillRect(column, row, 1, 1);
    }
  });
  return canvas;
}

function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.textAlign = "center";
  context.textBaseline = "middle";
  return context;
}

function fill(matrix, x, scale, scheme) {
  if (!Number.isFinite(x)) return { css: blank(scheme), ink: scheme === "light" ? "#5c5850" : "#b5b0a6" };
  const rgb = matrix.kind === "share" ? shade(x, scheme) : colour(x / scale.largest, scheme);
  return { css: `rgb(${rgb})`, ink: inkOn(rgb, scheme) };
}

function inCell(x, kind) {
  if (!Number.isFinite(x)) return written(x);
  if (kind === "share") return x < 0.005 ? "·" : String(Math.round(100 * x));
  return (Math.abs(x) >= 9.95 ? x.toFixed(0) : x.toFixed(1)).replace("-", "−").replace("−0.0", "0.0");
}

function outline(context, { row, column }, cell, height, scheme) {
  context.strokeStyle = scheme === "light" ? "#23211e" : "#f3f0ea";
  context.lineWidth = 1.5;
  context.strokeRect(column * cell + 0.75, row * height + 1.25, Math.max(2, cell - 1.5), height - 2.5);
}
