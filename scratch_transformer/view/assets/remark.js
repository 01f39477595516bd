// Sentences about the numbers at hand: of one cell, and of what is worth seeing in all of them.

import { difference } from "./check.js";
import { percent, plain, power, quoted, written } from "./dom.js";
import { largest } from "./lines.js";
import { apart, matrixOf } from "./matrix.js";
import { ranked } from "./session.js";

/** told(row, column): a sentence about a cell. */
export function teller(session, view, head) {
  const ours = matrixOf(view, "page", head);
  const other = view.torch ? matrixOf(view, "torch", head) : null;
  const axis = view.point.axes.at(-1);
  const named = (column) => {
    if (ours.columns) return ` → ${plain(ours.columns[column])}`;
    if (axis === "one") return "";
    return axis === "vocabulary" ? ` → ${plain(session.target.vocabulary[column])}` : ` → feature ${column + 1}`;
  };
  return (row, column) => {
    const x = ours.at(row, column);
    const text = `${plain(ours.rows[row])}${named(column)}: ${written(x)}`;
    if (!other) return text;
    const y = other.at(row, column);
    return `${text}   PyTorch ${written(y)}, difference ${power(Math.abs(apart(x, y)))}`;
  };
}

const COUNTED = {
  one: "number",
  width: "features",
  hidden: "hidden features",
  source: "source tokens",
  target: "target tokens",
  vocabulary: "tokens of the vocabulary",
};

/** What is worth seeing in these very numbers. */
export function remark(reader, view, matrix, chosen) {
  const { point, x, torch } = view;
  if (torch && reader.state.numbers === "difference") {
    return `The largest difference from PyTorch’s numbers is ${power(difference(x, torch))}.`;
  }
  if (point.place.endsWith("weights")) return aboutWeights(reader, view, matrix, chosen);
  if (point.place === "probabilities") return aboutNext(reader);
  return x.shape.map((n, i) => `${n} ${COUNTED[point.axes[i]] || point.axes[i]}`).join(" × ");
}

function aboutWeights({ session, state, present }, { point }, matrix, chosen) {
  if (chosen < 0) {
    return `Choose a word to see where it looks. Head ${state.head} looks most sharply from ${sharpest(matrix)}.`;
  }
  const token = quoted(matrix.rows[chosen]);
  const shares = `${largest(matrix, chosen, 3)}.${wrongSum(matrix, chosen)}`;
  if (point.axes[1] !== "target") return `${token} gives ${shares}`;
  const next = [...present.prefix, present.next][chosen + 1];
  return `At ${token} the decoder decides on ${quoted(session.target.vocabulary[next])}. It gives ${shares}`;
}

/** With a mistake, the shares of a query may add up to anything. */
function wrongSum(matrix, row) {
  let sum = 0;
  for (let column = 0; column < matrix.count; column++) sum += matrix.at(row, column);
  return Math.abs(sum - 1) < 1e-6 ? "" : ` Its shares add up to ${(100 * sum).toFixed(1)} %.`;
}

/** The largest share that a token gives to another. */
function sharpest(matrix) {
  let best = [0, 0];
  matrix.rows.forEach((token, row) => {
    for (let column = 0; column < matrix.count; column++) {
      if (token !== matrix.columns[column] && matrix.at(row, column) > matrix.at(...best)) best = [row, column];
    }
  });
  return `${quoted(matrix.rows[best[0]])} to ${quoted(matrix.columns[best[1]])}, ${percent(matrix.at(...best))}`;
}

function aboutNext({ session, present, state }) {
  const [best] = ranked(present.tensors, state, 1);
  const after = present.prefix.length > 1 ? `After “${session.target.decode(present.prefix)}”` : "At the start";
  const smoothing = session.config.label_smoothing;
  const unsure = smoothing ? ` Trained with label smoothing ${smoothing}, it is never quite sure.` : "";
  const token = quoted(session.target.vocabulary[best.id]);
  return (
    `${after}, the model gives ${percent(best.p)} to ${token}.${unsure} ` +
    "The map has this for every place at once; its last row is the one that counts."
  );
}
