// The operations that everything else is made of. A tensor is {shape, data}: numbers in rows, the last axis densest.

export function tensor(shape, data) {
  return { shape, data: data || new Float64Array(shape.reduce((size, n) => size * n, 1)) };
}

/** f of every number. */
export function map(x, f) {
  return tensor(x.shape, x.data.map(f));
}

export function add(x, y) {
  return map(x, (value, i) => value + y.data[i]);
}

/** x Wᵀ + b: x (T, in), W (out, in), b (out) or none -> (T, out). */
export function linear(x, weight, bias) {
  const [T, n] = x.shape;
  const out = weight.shape[0];
  const y = tensor([T, out]);
  for (let o = 0; o < out; o++) {
    const row = weight.data.subarray(o * n, (o + 1) * n);
    for (let t = 0; t < T; t++) {
      let sum = bias ? bias.data[o] : 0;
      for (let i = 0, at = t * n; i < n; i++, at++) sum += x.data[at] * row[i];
      y.data[t * out + o] = sum;
    }
  }
  return y;
}

/** (rows, columns) -> (columns, rows). */
export function transposed(x) {
  const [rows, columns] = x.shape;
  const y = tensor([columns, rows]);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) y.data[c * rows + r] = x.data[r * columns + c];
  return y;
}

/** For every head, q (h, T, d_k) times k (h, S, d_k), each query with each key -> (h, T, S). */
export function products(q, k) {
  const [h, T, d] = q.shape;
  const S = k.shape[1];
  const y = tensor([h, T, S]);
  for (let head = 0; head < h; head++) {
    for (let t = 0; t < T; t++) {
      for (let s = 0; s < S; s++) {
        let sum = 0;
        for (let i = 0; i < d; i++) sum += q.data[(head * T + t) * d + i] * k.data[(head * S + s) * d + i];
        y.data[(head * T + t) * S + s] = sum;
      }
    }
  }
  return y;
}

/** For every head, the values v (h, S, d_k) added up with weights (h, T, S) -> (h, T, d_k). */
export function mixtures(weights, v) {
  const [h, T, S] = weights.shape;
  const d = v.shape[2];
  const y = tensor([h, T, d]);
  for (let head = 0; head < h; head++) {
    for (let t = 0; t < T; t++) {
      for (let s = 0; s < S; s++) {
        const weight = weights.data[(head * T + t) * S + s];
        for (let i = 0; i < d; i++) y.data[(head * T + t) * d + i] += weight * v.data[(head * S + s) * d + i];
      }
    }
  }
  return y;
}

/**
 * exp(xᵢ) / Σ exp(xⱼ) along an axis, on x - max(x), which keeps exp from overflowing; of -∞ alone: zeros.
 * record: told of the maxima, the exponentials and their sums.
 */
export function softmax(x, axis = x.shape.length - 1, record = () => {}) {
  const n = x.shape[axis];
  const [outer, inner] = [x.shape.slice(0, axis), x.shape.slice(axis + 1)].map((sizes) =>
    sizes.reduce((a, b) => a * b, 1),
  );
  const reduced = x.shape.map((size, i) => (i === axis ? 1 : size));
  const maxima = tensor(reduced);
  const sums = tensor(reduced);
  const exponentials = tensor(x.shape);
  const y = tensor(x.shape);
  for (let group = 0; group < outer * inner; group++) {
    const start = Math.floor(group / inner) * n * inner + (group % inner);
    let largest = -Infinity;
    for (let i = 0; i < n; i++) largest = Math.max(largest, x.data[start + i * inner]);
    maxima.data[group] = largest;
    if (largest === -Infinity) continue;
    for (let i = 0; i < n; i++)
      sums.data[group] += exponentials.data[start + i * inner] = Math.exp(x.data[start + i * inner] - largest);
    for (let i = 0; i < n; i++) y.data[start + i * inner] = exponentials.data[start + i * inner] / sums.data[group];
  }
  record("maxima", maxima);
  record("exponentials", exponentials);
  record("sums", sums);
  return y;
}

/** sin(pos / 10000^(2i/d_model)) and cos, alternating: (length, d_model), rounded to float32 as the model keeps them. */
export function sinusoids(length, d_model, exponents, pair, first = 0) {
  const pe = tensor([length, d_model]);
  const half = Math.ceil(d_model / 2);
  for (let t = 0; t < length; t++) {
    for (let i = 0; i < half; i++) {
      const [ofSine, ofCosine] = exponents(2 * i, d_model);
      const sine = Math.sin((t + first) / 10000 ** ofSine);
      const cosine = Math.cos((t + first) / 10000 ** ofCosine);
      const [at, first_, second, next] = pair(i, half, sine, cosine);
      pe.data[t * d_model + at] = Math.fround(first_);
      if (next < d_model) pe.data[t * d_model + next] = Math.fround(second);
    }
  }
  return pe;
}
