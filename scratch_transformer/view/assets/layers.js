// What stands around attention: embeddings, positions, normalization, feed-forward network, residual connections.

import { add, linear, map, sinusoids, tensor } from "./arithmetic.js";
import { ACTIVATIONS, ANGLES, EMBEDDING_SCALES, LAYOUTS } from "./recipe.js";

/** A learned vector for every token, times √d_model: ids -> (T, d_model). Section 3.4. */
export function embed(ids, table, how, record) {
  const d = table.shape[1];
  const x = tensor([ids.length, d]);
  ids.forEach((id, t) => x.data.set(table.data.subarray(id * d, (id + 1) * d), t * d));
  const factor = EMBEDDING_SCALES[how.embedding_scale](d);
  return record(
    "scaled",
    map(record("embedding", x), (v) => v * factor),
  );
}

/** The code of the positions 0 … T - 1: (T, d_model). Section 3.5. learned: its table, if it was learned. */
export function positions(T, d_model, learned, how) {
  if (learned) return tensor([T, d_model], learned.data.slice(0, T * d_model));
  const pe = sinusoids(T, d_model, ANGLES[how.angles], LAYOUTS[how.layout], how.first_position);
  if (how.position_axis === "batch") for (let i = d_model; i < pe.data.length; i++) pe.data[i] = pe.data[i % d_model]; // mistake
  return pe;
}

/** Embeddings x plus positions pe. */
export function placed(x, pe, how) {
  if (how.positions === "none") return x;
  const factor = how.input_scale === "none" ? 1 : EMBEDDING_SCALES[how.input_scale](x.shape[1]);
  return map(x, how.adding === "multiplied" ? (v, i) => v * factor * pe.data[i] : (v, i) => v * factor + pe.data[i]);
}

/** (x - μ) / √(σ² + ε) · α + b over the features of each token: (T, d) -> (T, d). Ba et al. 2016, equation 3. */
export function layerNorm(x, { alpha, bias }, how, record) {
  const [T, d] = x.shape;
  const eps = how.eps === null ? 1e-5 : how.eps;
  const over = { features: (i) => Math.floor(i / d), tokens: (i) => i % d, "tokens and features": () => 0 }[
    how.norm_dims
  ];
  const groups = { features: T, tokens: d, "tokens and features": 1 }[how.norm_dims];
  const n = (T * d) / groups;
  const mean = record("mean", means(x, over, groups));
  const centred = record("centred", how.norm_kind === "rms" ? x : map(x, (v, i) => v - mean.data[over(i)]));
  const squares = map(how.variance === "difference of squares" ? x : centred, (v) => v * v);
  let variance = means(squares, over, groups);
  if (how.variance === "difference of squares") variance = map(variance, (v, g) => v - mean.data[g] ** 2); // mistake
  variance = record(
    "variance",
    map(variance, (v) => (n > how.ddof ? (v * n) / (n - how.ddof) : NaN)),
  );
  const divisor = map(variance, (v) => {
    if (how.variance === "no root") return v + eps; // mistake
    if (how.variance === "two roots") return Math.sqrt(Math.sqrt(v) + eps); // mistake
    if (how.variance === "squared") return Math.sqrt(v * v + eps); // mistake
    const right = how.eps_inside ? Math.sqrt(v + eps) : Math.sqrt(v) + eps;
    return how.variance === "multiplied" ? 1 / right : right; // mistake
  });
  const shown = how.norm_kind === "divided only" ? x : centred;
  const ready = record(
    "normalized",
    map(shown, (v, i) => v / divisor.data[over(i)]),
  );
  return record(
    "",
    map(ready, (v, i) => v * alpha.data[i % d] + bias.data[i % d]),
  );
}

function means(x, over, groups) {
  const sums = tensor([groups, 1]);
  x.data.forEach((v, i) => {
    sums.data[over(i)] += v;
  });
  return map(sums, (sum) => (sum * groups) / x.data.length);
}

/** max(0, x W₁ + b₁) W₂ + b₂ at every position. Section 3.3. */
export function feedForward(x, { linear_1, linear_2 }, how, record) {
  const activate = (y) => map(y, ACTIVATIONS[how.activation]);
  let hidden = record("linear_1", linear(x, turned(linear_1.weight, how), linear_1.bias));
  if (how.activation_place !== "at the end") hidden = record("hidden", activate(hidden));
  const y = linear(hidden, turned(linear_2.weight, how), linear_2.bias);
  return record("linear_2", how.activation_place === "between" ? y : activate(y));
}

function turned(weight, how) {
  if (how.transposed || weight.shape[0] !== weight.shape[1]) return weight;
  const n = weight.shape[0];
  return tensor(
    [n, n],
    weight.data.map((v, i) => weight.data[(i % n) * n + Math.floor(i / n)]),
  ); // mistake
}

/** One sublayer f with residual and norm: pre-norm, x + f(norm(x)), or post-norm, norm(x + f(x)). Section 3.1. */
export function connect(x, f, norm, order, record) {
  if (order === "pre") return record("sum", add(x, f(norm(x))));
  if (order === "post") return norm(record("sum", add(x, f(x))));
  switch (
    order // mistakes
  ) {
    case "residual after norm": {
      const y = norm(x);
      return record("sum", add(y, f(y)));
    }
    case "residual of the norm": {
      const y = norm(x);
      return record("sum", add(y, f(x)));
    }
    case "norm on the output":
      return record("sum", add(x, norm(f(x))));
    case "no residual, pre":
      return record("sum", f(norm(x)));
    case "no residual, post":
      return norm(record("sum", f(x)));
    default:
      return record("sum", add(x, f(x)));
  }
}
