// The page checks itself: its numbers beside those that torch.nn computed, its translations beside Python's.

import { pass, read, translation } from "./session.js";
import { RIGHT } from "./state.js";

/** The largest difference between two tensors; equal infinities differ by 0. */
export function difference(x, y) {
  let largest = 0;
  for (let i = 0; i < x.data.length; i++) {
    const apart = x.data[i] === y.data[i] ? 0 : Math.abs(x.data[i] - y.data[i]);
    if (!(apart <= largest)) largest = apart; // a NaN too
  }
  return largest;
}

/** Every recorded tensor against the page's own, PyTorch's and Python's: {numbers, largest, tensors, missing}. */
export function checked(session) {
  const { recorded } = session;
  const found = pass(session, recorded.source, recorded.prefix, RIGHT);
  const result = { numbers: 0, largest: 0, tensors: 0, missing: [] };
  for (const [name, theirs] of recorded.tensors) {
    const ours = found.get(name);
    if (!ours || ours.data.length !== theirs.data.length) {
      result.missing.push(name);
      continue;
    }
    const apart = Math.max(difference(ours, theirs), difference(ours, recorded.ours.get(name)));
    if (!(apart <= result.largest)) result.largest = apart;
    result.numbers += theirs.data.length;
    result.tensors += 1;
  }
  return result;
}

/** How many of the examples have Python's translation in a state, one a turn, so that the page stays awake. */
export async function stillRight(session, state, isCurrent) {
  const { examples } = session.document;
  let right = 0;
  for (const [text, expected] of examples) {
    await new Promise((resume) => setTimeout(resume));
    if (!isCurrent()) return null;
    right += translation(session, read(session, text), state).text === expected;
  }
  return { right, all: examples.length };
}

/** What PyTorch computed for a tensor of the present pass, which may be a shorter prefix of the recorded one's. */
export function theirs({ recorded }, name, { source, prefix }, axes) {
  const whole = recorded.tensors.get(name);
  const begins = prefix.every((id, i) => id === recorded.prefix[i]);
  if (!whole || !begins || source.join() !== recorded.source.join()) return null;
  const shape = whole.shape.map((n, i) => (axes[i] === "target" ? prefix.length : n));
  return sliced(whole, shape);
}

function sliced(x, shape) {
  const data = [];
  const walk = (axis, offset) => {
    if (axis === shape.length) {
      data.push(x.data[offset]);
      return;
    }
    const stride = x.shape.slice(axis + 1).reduce((size, n) => size * n, 1);
    for (let i = 0; i < shape[axis]; i++) walk(axis + 1, offset + i * stride);
  };
  walk(0, 0);
  return { shape, data: Float64Array.from(data) };
}
