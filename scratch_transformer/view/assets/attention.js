// Attention: Concat(head₁, …, head_h) W_o with headᵢ = softmax(Qᵢ Kᵢᵀ / √d_k) Vᵢ. Vaswani et al. 2017, section 3.2.
// `how` is a recipe (recipe.js); with the right one every branch below that says "mistake" is passed by.

import { linear, map, mixtures, products, softmax, tensor, transposed } from "./arithmetic.js";
import { CAUSAL, FILLS, SCALES } from "./recipe.js";

/**
 * query (T, d_model), key and value (S, d_model) -> (T, d_model).
 * W: the four projections' parameters. mask: {real: which keys are no padding, causal: whether the future is hidden}.
 * off: the heads that are switched off. record(name, tensor): told of everything on the way.
 */
export function attention(query, key, value, mask, W, how, off, record) {
  if (how.swapped === "query and key") [query, key] = [key, query]; // mistake
  if (how.swapped === "key and value") [key, value] = [value, key]; // mistake
  const part = (name, x, projection) =>
    record(name, split(record(projection, project(x, W[projection], projection, how)), W.h, how));
  const q = part("query", query, "w_q");
  const k = part("key", key, "w_k");
  const v = part("value", value, "w_v"); // (h, T, d_k)
  const [h, T, d_k] = q.shape;
  const S = k.shape[1];
  const factor = SCALES[how.scale](d_k, h, S);
  const scores = products(q, k); // (h, T, S)
  const scaled = record("scores", how.scale_place === "scores" ? map(scores, (x) => x * factor) : scores);
  let weights = normalized(scaled, allowed(mask, T, S, how), how, record);
  if (how.scale_place === "after softmax") weights = map(weights, (x) => x * factor); // mistake
  record("weights", weights);
  const heads = record("heads", silenced(mixtures(weights, v), off)); // (h, T, d_k)
  const merged = record("joined", merge(heads, how)); // (T, d_model)
  return record("w_o", how.merge === "no projection" ? merged : project(merged, W.w_o, "w_o", how));
}

function project(x, { weight, bias }, name, how) {
  return linear(x, how.transposed ? weight : transposed(weight), how.unused_biases === name ? null : bias);
}

/** Whether query t may attend to key s, or null if nothing is blocked. */
export function allowed(mask, T, S, how) {
  if (how.masking === "ignored" || (!mask.causal && mask.real.every(Boolean))) return null;
  const real = (t, s) =>
    ({ keys: mask.real[s], queries: T === S ? mask.real[t] : mask.real[s], ignored: true })[how.padding];
  const order = mask.causal && T > 1 ? CAUSAL[how.causal] : () => true;
  return (t, s) => real(t, s) && order(t, s);
}

/** softmax(scores + mask) over the keys; in a row where everything is blocked, zeros. */
function normalized(scores, may, how, record) {
  const [, T, S] = scores.shape;
  const axis = { keys: 2, queries: 1, heads: 0 }[how.softmax_over];
  const keep = (i) => !may || may(Math.floor(i / S) % T, i % S);
  if (how.softmax_over === "batch") return map(scores, (x, i) => (keep(i) ? 1 : 0)); // mistake: one sample's softmax
  if (!may) return softmax(scores, axis, record);
  if (how.masking === "after softmax") return map(softmax(scores, axis, record), (x, i) => (keep(i) ? x : 0)); // mistake
  const masked = {
    "before softmax": (x, i) => (keep(i) ? x : FILLS[how.fill]),
    times: (x, i) => (keep(i) ? x : 0), // mistakes
    "added keep": (x, i) => x + keep(i),
    "added block": (x, i) => x + !keep(i),
  }[how.masking];
  return softmax(record("masked_scores", map(scores, masked)), axis, record);
}

/** (L, d_model) -> (h, L, d_k): head i has the i-th d_k features of every token. */
function split(x, h, how) {
  const [L, E] = x.shape;
  const d_k = E / h;
  if (how.split === "view") return tensor([h, L, d_k], x.data); // mistake
  const feature = how.split === "interleaved" ? (head, i) => i * h + head : (head, i) => head * d_k + i;
  return filled([h, L, d_k], (head, t, i) => x.data[t * E + feature(head, i)]);
}

/** (h, T, d_k) -> (T, d_model): the heads of every token side by side. */
function merge(x, how) {
  const [h, T, d_k] = x.shape;
  const y = tensor([T, h * d_k]);
  if (how.merge === "view") return tensor([T, h * d_k], x.data); // mistake
  const feature = how.merge === "interleaved" ? (head, i) => i * h + head : (head, i) => head * d_k + i;
  for (let head = 0; head < h; head++) {
    for (let t = 0; t < T; t++) {
      for (let i = 0; i < d_k; i++) y.data[t * h * d_k + feature(head, i)] = x.data[(head * T + t) * d_k + i];
    }
  }
  return y;
}

function silenced(heads, off) {
  const size = heads.shape[1] * heads.shape[2];
  for (const head of off) heads.data.fill(0, head * size, (head + 1) * size);
  return heads;
}

function filled([a, b, c], f) {
  const y = tensor([a, b, c]);
  for (let i = 0; i < a; i++)
    for (let j = 0; j < b; j++) for (let k = 0; k < c; k++) y.data[(i * b + j) * c + k] = f(i, j, k);
  return y;
}
