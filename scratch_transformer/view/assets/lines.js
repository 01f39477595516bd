// Attention as lines between words: queries at the left, keys at the right; the thicker, the larger the share.

import { drawn, percent, plain } from "./dom.js";

const PITCH = 34; // from word to word
const [START, END, WIDTH] = [92, 188, 270]; // where lines start and end

export function attentionLines(matrix, { chosen = -1, onrow }) {
  const height = PITCH * Math.max(matrix.rows.length, matrix.count);
  const place = (i, n) => height / 2 + (i + 0.5 - n / 2) * PITCH;
  const heights = { row: (i) => place(i, matrix.rows.length), column: (i) => place(i, matrix.count) };
  const strands = drawn("g", { "aria-hidden": "true" }, ...paths(matrix, heights, chosen));
  const queries = matrix.rows.map((_, row) => query(matrix, row, heights.row(row), row === chosen, strands, onrow));
  const keys = matrix.columns.map((token, column) => {
    const share = chosen < 0 ? 1 : matrix.at(chosen, column);
    const opacity = (0.45 + 0.55 * Math.min(1, share * 1.5)).toFixed(2);
    return drawn("text", { x: END + 12, y: heights.column(column), "fill-opacity": opacity }, plain(token));
  });
  const label = "Attention as lines from queries to keys";
  const shape = { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height };
  return drawn("svg", { ...shape, class: "lines", role: "group", "aria-label": label }, strands, ...queries, ...keys);
}

function paths(matrix, heights, chosen) {
  const found = [];
  const middle = (START + END) / 2;
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      const share = Math.min(1, matrix.at(row, column));
      if (!(share > 0.015)) continue;
      const [from, to] = [heights.row(row), heights.column(column)];
      const faintness = chosen >= 0 && chosen !== row ? 0.1 : 1;
      const path = drawn("path", {
        d: `M${START} ${from}C${middle} ${from} ${middle} ${to} ${END} ${to}`,
        "data-row": row,
        "stroke-width": (0.8 + 7 * share).toFixed(2),
        "stroke-opacity": (faintness * (0.12 + 0.78 * share)).toFixed(3),
      });
      found.push(path);
    }
  });
  return found;
}

/** A word that can be chosen; while the pointer is over it, only its lines are seen. */
function query(matrix, row, y, isChosen, strands, onrow) {
  const token = plain(matrix.rows[row]);
  const attributes = {
    class: `query ${isChosen ? "chosen" : ""}`,
    tabindex: 0,
    role: "button",
    "aria-pressed": String(isChosen),
    "aria-label": `query ${token}: ${largest(matrix, row)}`,
  };
  const ground = drawn("rect", { x: 0, y: y - PITCH / 2 + 2, width: START - 4, height: PITCH - 4, rx: 5 });
  const word = drawn("g", attributes, ground, drawn("text", { x: START - 12, y, "text-anchor": "end" }, token));
  word.addEventListener("click", () => onrow(row));
  word.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onrow(row);
  });
  word.addEventListener("pointerenter", () => highlight(strands, row));
  word.addEventListener("pointerleave", () => highlight(strands, null));
  return word;
}

function highlight(strands, row) {
  for (const path of strands.children) path.classList.toggle("faint", row !== null && Number(path.dataset.row) !== row);
}

/** "83 % to two, 9 % to ty-": where a query looks most. */
export function largest(matrix, row, count = 2) {
  const shares = matrix.columns.map((token, column) => ({ token, share: matrix.at(row, column) }));
  const best = shares.sort((a, b) => b.share - a.share).slice(0, count);
  const told = best
    .filter(({ share }) => share >= 0.01)
    .map(({ token, share }) => `${percent(share)} to ${plain(token)}`);
  return told.join(", ") || "nothing";
}
