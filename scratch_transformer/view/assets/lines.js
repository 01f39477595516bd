// Attention as lines between words: queries at the left, keys at the right; the thicker, the larger the share.

import { drawn, percent, plain } from "./dom.js";

export function attentionLines(matrix, { chosen = -1, onrow }) {
  const pitch = 34, width = 270, [left, right] = [92, 188];
  const height = pitch * Math.max(matrix.rows.length, matrix.columns.length);
  const y = (i, n) => (height - n * pitch) / 2 + (i + 0.5) * pitch;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "lines", role: "group", "aria-label": "Attention as lines from queries to keys" });
  const strands = drawn("g", { class: "strands", "aria-hidden": "true" });
  matrix.rows.forEach((_, row) => {
    for (let column = 0; column < matrix.count; column++) {
      const share = matrix.at(row, column);
      if (!(share > 0.015)) continue;
      const [from, to] = [y(row, matrix.rows.length), y(column, matrix.count)], middle = (left + right) / 2;
      const isFaint = chosen >= 0 && chosen !== row;
      strands.append(drawn("path", {
        d: `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`, "data-row": row,
        "stroke-width": (0.8 + 7 * Math.min(1, share)).toFixed(2),
        "stroke-opacity": ((isFaint ? 0.1 : 1) * Math.min(1, 0.12 + 0.78 * share)).toFixed(3),
      }));
    }
  });
  const queries = matrix.rows.map((token, row) => {
    const word = drawn("g", { class: `word query ${row === chosen ? "chosen" : ""}`, tabindex: 0, role: "button", "aria-pressed": String(row === chosen), "aria-label": `query ${plain(token)}: ${largest(matrix, row)}` },
      drawn("rect", { x: 0, y: y(row, matrix.rows.length) - pitch / 2 + 2, width: left - 4, height: pitch - 4, rx: 5 }),
      drawn("text", { x: left - 12, y: y(row, matrix.rows.length), "text-anchor": "end" }, plain(token)));
    const choose = () => onrow(row);
    word.addEventListener("click", choose);
    word.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
    word.addEventListener("pointerenter", () => highlight(strands, row));
    word.addEventListener("pointerleave", () => highlight(strands, null));
    return word;
  });
  const keys = matrix.columns.map((token, column) => drawn("text", {
    x: right + 12, y: y(column, matrix.count), class: "word key",
    style: chosen >= 0 ? `fill-opacity:${(0.45 + 0.55 * Math.min(1, matrix.at(chosen, column) * 1.5)).toFixed(2)}` : null,
  }, plain(token)));
  picture.append(strands, ...queries, ...keys);
  return picture;
}

function highlight(strands, row) {
  for (const path of strands.children) path.classList.toggle("faint", row !== null && Number(path.dataset.row) !== row);
}

/** "83 % to two, 9 % to ty-": where a query looks most. */
export function largest(matrix, row, count = 2) {
  const shares = matrix.columns.map((token, column) => ({ token, share: matrix.at(row, column) }));
  const best = shares.sort((a, b) => b.share - a.share).slice(0, count).filter(({ share }) => share >= 0.01);
  return best.map(({ token, share }) => `${percent(share)} to ${plain(token)}`).join(", ") || "nothing";
}
