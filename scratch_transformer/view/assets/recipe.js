// Every choice that the forward pass makes, right or wrong, under the names of scratch_transformer/kit/recipe.py.
// The first value of each is right. A knob of the page, or a mistake of the catalogue, is another value of one or two.

export const SCALES = {
  "1/sqrt(d_k)": (d_k) => 1 / Math.sqrt(d_k),
  none: () => 1,
  "1/d_k": (d_k) => 1 / d_k,
  "1/sqrt(d_model)": (d_k, h) => 1 / Math.sqrt(h * d_k),
  "1/d_model": (d_k, h) => 1 / (h * d_k),
  "1/sqrt(h)": (d_k, h) => 1 / Math.sqrt(h),
  "1/sqrt(S)": (d_k, h, S) => 1 / Math.sqrt(S),
  "sqrt(d_k)": (d_k) => Math.sqrt(d_k),
  "sqrt(d_model)": (d_k, h) => Math.sqrt(h * d_k),
};

// whether query t may attend to key s
export const CAUSAL = {
  lower: (t, s) => s <= t,
  ignored: () => true,
  future: (t, s) => s > t,
  "future and present": (t, s) => s >= t,
  past: (t, s) => s < t,
  "one ahead": (t, s) => s <= t + 1,
};

export const FILLS = { "-inf, empty rows zero": -Infinity, "-1e4": -1e4, "1e-9": 1e-9 };

export const EMBEDDING_SCALES = {
  "sqrt(d_model)": Math.sqrt,
  none: () => 1,
  d_model: (d) => d,
  "1/sqrt(d_model)": (d) => 1 / Math.sqrt(d),
};

// the exponents of 10000 in sine and cosine
export const ANGLES = {
  paper: (i, d) => [i / d, i / d],
  doubled: (i, d) => [(2 * i) / d, (2 * i) / d],
  "cosine at the next": (i, d) => [i / d, (i + 1) / d],
  "doubled, cosine at the next": (i, d) => [(2 * i) / d, (2 * (i + 1)) / d],
  halved: (i, d) => [i / d / 2, i / d / 2],
  "to 1": (i, d) => [i / Math.max(d - 2, 1), i / Math.max(d - 2, 1)],
  inverted: (i, d) => [-i / d, -i / d],
};

// where the i-th pair stands: column, number, other number, its column
export const LAYOUTS = {
  interleaved: (i, half, sine, cosine) => [2 * i, sine, cosine, 2 * i + 1],
  "cosine first": (i, half, sine, cosine) => [2 * i, cosine, sine, 2 * i + 1],
  concatenated: (i, half, sine, cosine) => [i, sine, cosine, half + i],
  "cosine, zero": (i, half, sine, cosine) => [2 * i, cosine, 0, 2 * i + 1],
  "zero, cosine": (i, half, sine, cosine) => [2 * i, 0, cosine, 2 * i + 1],
  "sine, zero": (i, half, sine) => [2 * i, sine, 0, 2 * i + 1],
  "zero, sine": (i, half, sine) => [2 * i, 0, sine, 2 * i + 1],
  "sine, sine": (i, half, sine) => [2 * i, sine, sine, 2 * i + 1],
  "cosine, cosine": (i, half, sine, cosine) => [2 * i, cosine, cosine, 2 * i + 1],
};

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
export const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  none: (x) => x,
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  silu: (x) => x * sigmoid(x),
  tanh: Math.tanh,
  "leaky relu": (x) => (x < 0 ? 0.01 * x : x),
};

export const RECIPE = {
  ddof: [0, 1],
  eps: [null, 1e-6, 1e-12, 1e-8, 0],
  eps_inside: [true, false],
  norm_dims: ["features", "tokens", "tokens and features"],
  norm_kind: ["norm", "rms", "divided only"],
  variance: ["centred", "difference of squares", "no root", "two roots", "squared", "multiplied"],
  embedding_scale: Object.keys(EMBEDDING_SCALES),
  positions: ["as trained", "none"],
  angles: Object.keys(ANGLES),
  layout: Object.keys(LAYOUTS),
  first_position: [0, 1],
  position_axis: ["time", "batch"],
  input_scale: ["none", "sqrt(d_model)"],
  adding: ["added", "multiplied"],
  scale: Object.keys(SCALES),
  scale_place: ["scores", "after softmax"],
  softmax_over: ["keys", "queries", "heads", "batch"],
  masking: ["before softmax", "after softmax", "times", "added keep", "added block", "ignored"],
  fill: Object.keys(FILLS),
  causal: Object.keys(CAUSAL),
  padding: ["keys", "queries", "ignored"],
  split: ["heads", "view", "interleaved"],
  merge: ["heads", "view", "interleaved", "no projection"],
  swapped: ["none", "query and key", "key and value"],
  transposed: [true, false],
  unused_biases: ["", "w_q", "w_v", "w_o"],
  activation: Object.keys(ACTIVATIONS),
  activation_place: ["between", "at the end", "twice"],
  norm_order: [
    "pre",
    "post",
    "residual after norm",
    "residual of the norm",
    "norm on the output",
    "no residual, pre",
    "no residual, post",
    "no norm",
  ],
  norms: ["own", "shared"],
  final_norm: [true, false],
  layers: ["own weights", "shared"],
  feeding: ["previous layer", "first input"],
  memory: ["encoder", "decoder", "decoder, its mask"],
  memory_mask: ["source", "none"],
  self_mask: ["target", "source", "none"],
  order: ["self, cross", "cross, self", "no cross"],
  output: ["logits", "probabilities over the tokens", "log-probabilities over the tokens"],
  decoding: ["right", "does not stop", "least probable", "first position"],
};

/** The recipe of a trained model with changes, such as {scale: "none"}. */
export function recipe(config, changes = {}) {
  const right = Object.fromEntries(Object.entries(RECIPE).map(([name, values]) => [name, values[0]]));
  return { ...right, norm_order: config.norm, final_norm: config.norm === "pre", ...changes };
}

/** 2/√π ∫₀ˣ exp(-t²) dt: its power series near 0, its continued fraction elsewhere. */
function erf(x) {
  const a = Math.abs(x);
  if (a < 3) {
    let term = a;
    let sum = a;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum) && n < 200; n++) {
      term *= (-a * a) / n;
      sum += term / (2 * n + 1);
    }
    return ((Math.sign(x) * 2) / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + fraction));
}
