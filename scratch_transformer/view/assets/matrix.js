// A tensor of the present pass as a matrix that can be shown: of one head, this page's, PyTorch's, or the difference.

import { theirs } from "./check.js";
import { nameIn } from "./places.js";

const UNITS = {
  features: "features",
  width: "features of this head",
  hidden: "hidden features",
  vocabulary: "tokens of the vocabulary",
  one: "",
};

/** The tensor of a place in the present pass, with PyTorch's beside it if there is one; null if it is not computed. */
export function viewOf(session, present, point, layer) {
  const x = present.tensors.get(nameIn(point, layer));
  if (!x) return null;
  const torch = theirs(session, nameIn(point, layer), present, point.axes);
  const fits = torch !== null && torch.shape.join() === x.shape.join();
  const source = present.source.map((id) => session.source.vocabulary[id]);
  const target = present.prefix.map((id) => session.target.vocabulary[id]);
  const names = (axis, n) => {
    const lists = axis === "target" ? [target, source] : [source, target]; // a mistake may mix them up
    return lists.find((list) => list.length === n) || Array.from({ length: n }, (_, i) => String(i + 1));
  };
  return { x, torch: fits ? torch : null, isOtherShape: torch !== null && !fits, point, names };
}

/** numbers: "page", "torch" or "difference". Returns what `heatMap` takes. */
export function matrixOf({ x, torch, point, names }, numbers, head) {
  const [rowAxis, columnAxis] = point.axes.slice(-2);
  const [rows, count] = x.shape.slice(-2);
  const offset = x.shape.length === 3 ? (head - 1) * rows * count : 0;
  const data = numbers === "torch" ? torch.data : x.data;
  const value = numbers === "difference" ? (i) => apart(x.data[i], torch.data[i]) : (i) => data[i];
  const isShare = numbers !== "difference" && /weights|probabilities/.test(point.place);
  return {
    rows: names(rowAxis, rows),
    columns: columnAxis in UNITS ? null : names(columnAxis, count),
    count,
    kind: isShare ? "share" : "signed",
    unit: columnAxis === "one" ? "" : `${count} ${UNITS[columnAxis]}`,
    at: (row, column) => value(offset + row * count + column),
  };
}

/** x - y; 0 for equal infinities. */
export function apart(x, y) {
  return x === y ? 0 : x - y;
}
