// The translation model of scratch_transformer/model.py, from token ids to logits, in plain JavaScript.
// Shapes: S source length, T target length, h heads, d_k = d_model / h. Numbers are 64 bits wide.

import { linear, softmax, tensor } from "./arithmetic.js";
import { attention } from "./attention.js";
import { connect, embed, feedForward, layerNorm, placed, positions } from "./layers.js";
import { recipe } from "./recipe.js";

const nothing = (name, x) => x;
/** record under a longer name: within(record, "norm")("mean", x) is record("norm.mean", x). */
const within = (record, path) => (name, x) => record(name ? `${path}.${name}` : path, x);

export class Transformer {
  /** config: d_model, num_heads, num_layers, norm. weights: name in the state_dict -> tensor. */
  constructor(config, weights) {
    this.config = config;
    this.weights = weights;
  }

  /** Source ids, and the ids that were written so far -> logits (T, vocabulary) of what comes next. */
  forward(source, prefix, options = {}, record = nothing) {
    return this.decode(this.encode(source, options, record), source, prefix, options, record);
  }

  /** ids -> (S, d_model). options: changes of the recipe; off: heads that are switched off, as "encoder.0.self.3". */
  encode(source, { changes = {}, off = [] } = {}, record = nothing) {
    const how = recipe(this.config, changes);
    const start = this.embedded("src", source, how, record);
    const mask = { real: source.map((id) => id !== 0), causal: false };
    const layer = (x, i) => this.encoderLayer(i, x, mask, how, off, within(record, `encoder.layers.${i}`));
    return this.stack("encoder", start, layer, how, record);
  }

  /** (S, d_model), and ids that were written so far -> logits (T, vocabulary). */
  decode(memory, source, prefix, { changes = {}, off = [] } = {}, record = nothing) {
    const how = recipe(this.config, changes);
    const start = this.embedded("tgt", prefix, how, record);
    const masks = { source: source.map((id) => id !== 0), target: prefix.map(() => true) };
    const layer = (x, i) => this.decoderLayer(i, x, memory, masks, how, off, within(record, `decoder.layers.${i}`));
    const x = this.stack("decoder", start, layer, how, record);
    const { weight, bias } = this.part("projection_layer.proj");
    const logits = linear(x, weight, bias);
    return record("projection_layer.proj", how.output === "logits" ? logits : overTokens(logits, how.output));
  }

  embedded(side, ids, how, record) {
    const at = within(record, `${side}_pos`);
    const table = this.part(`${side}_embed.embedding`).weight;
    const x = embed(ids, table, how, within(record, `${side}_embed`));
    const learned = this.weights.get(`${side}_pos.pe`);
    const pe = at("positions", positions(ids.length, this.config.d_model, learned, how));
    return at("sum", placed(x, pe, how)); // (T, d_model)
  }

  stack(name, start, layer, how, record) {
    let x = start;
    for (let i = 0; i < this.config.num_layers; i++) x = layer(how.feeding === "first input" ? start : x, i);
    const norm = `${name}.norm`;
    return how.final_norm && this.has(norm) ? this.norm(norm, x, how, within(record, norm)) : x;
  }

  encoderLayer(i, x, mask, how, off, record) {
    const at = `encoder.layers.${this.weightsOf(i, how)}`;
    const own = heads(off, `encoder.${i}.self`);
    const toItself = (x) => this.attend(`${at}.self_attention`, x, x, mask, how, own, record);
    const alone = (x) => this.feed(at, x, how, record);
    x = this.sublayer(at, 0, x, toItself, how, record);
    return this.sublayer(at, 1, x, alone, how, record);
  }

  decoderLayer(i, x, memory, masks, how, off, record) {
    const at = `decoder.layers.${this.weightsOf(i, how)}`;
    const [own, cross] = ["self", "cross"].map((kind) => heads(off, `decoder.${i}.${kind}`));
    const toItself = (x) => this.attend(`${at}.self_attention`, x, x, ownMask(masks, how), how, own, record);
    const toSource = (x) => {
      const [keys, mask] = crossKeys(x, memory, masks, how);
      return this.attend(`${at}.cross_attention`, x, keys, mask, how, cross, record);
    };
    const alone = (x) => this.feed(at, x, how, record);
    const [first, second] = how.order === "cross, self" ? [toSource, toItself] : [toItself, toSource]; // mistake
    x = this.sublayer(at, 0, x, first, how, record);
    if (how.order !== "no cross") x = this.sublayer(at, 1, x, second, how, record);
    return this.sublayer(at, 2, x, alone, how, record);
  }

  /** The layer whose weights layer i has: its own, or by mistake those of one layer for all. */
  weightsOf(i, how) {
    return how.layers === "shared" ? this.config.num_layers - 1 : i;
  }

  sublayer(at, number, x, f, how, record) {
    const recordHere = within(record, `residual_connections.${number}`);
    const which = `${at}.residual_connections.${how.norms === "own" ? number : 0}.norm`;
    const norm = (x) => this.norm(which, x, how, within(recordHere, "norm"));
    return connect(x, f, norm, how.norm_order, recordHere);
  }

  attend(at, x, memory, mask, how, off, record) {
    const W = { h: this.config.num_heads };
    for (const name of ["w_q", "w_k", "w_v", "w_o"]) W[name] = this.part(`${at}_block.${name}`);
    return attention(x, memory, memory, mask, W, how, off, within(record, at.split(".").pop()));
  }

  feed(at, x, how, record) {
    const W = {
      linear_1: this.part(`${at}.feed_forward_block.linear_1`),
      linear_2: this.part(`${at}.feed_forward_block.linear_2`),
    };
    return feedForward(x, W, how, within(record, "feed_forward"));
  }

  norm(at, x, how, record) {
    return layerNorm(x, { alpha: this.weights.get(`${at}.alpha`), bias: this.weights.get(`${at}.bias`) }, how, record);
  }

  part(name) {
    return { weight: this.weights.get(`${name}.weight`), bias: this.weights.get(`${name}.bias`) };
  }

  has(name) {
    return this.weights.has(`${name}.alpha`);
  }
}

/** The next token's probabilities: softmax(logits / temperature) of the last position. */
export function nextProbabilities(logits, temperature = 1, how = {}) {
  const [T, vocabulary] = logits.shape;
  const row = how.decoding === "first position" ? 0 : T - 1;
  const last = logits.data.slice(row * vocabulary, (row + 1) * vocabulary);
  const tempered = last.map((x) => x / temperature);
  return softmax(tensor([1, vocabulary], tempered)).data;
}

/**
 * The translation, token by token: the likeliest each time, unless `choose` takes another.
 * Returns {ids, isFinished, probabilities: of every token that was chosen}; ids without bos and eos.
 */
export function greedy(model, source, { bos, eos, limit, choose = likeliest, temperature = 1, ...options }) {
  const memory = model.encode(source, options);
  const prefix = [bos];
  const probabilities = [];
  const changes = options.changes || {};
  let isFinished = false;
  while (!isFinished && prefix.length <= limit) {
    const p = nextProbabilities(model.decode(memory, source, prefix, options), temperature, changes);
    const id = choose(p, prefix.length - 1, changes);
    probabilities.push(p[id]);
    if (id === eos && changes.decoding !== "does not stop") isFinished = true;
    else prefix.push(id);
  }
  return { ids: prefix.slice(1), isFinished, probabilities };
}

export function likeliest(p, step, changes = {}) {
  const better = changes.decoding === "least probable" ? (a, b) => a < b : (a, b) => a > b;
  return p.reduce((best, value, id) => (better(value, p[best]) ? id : best), 0);
}

function heads(off, path) {
  return off.filter((name) => name.startsWith(`${path}.`)).map((name) => Number(name.split(".").pop()));
}

/** What the decoder's tokens may see of themselves: no padding and no future; by mistake, the source's mask, or none. */
function ownMask({ source, target }, how) {
  if (how.self_mask === "target") return { real: target, causal: true };
  if (how.self_mask === "none") return { real: target.map(() => true), causal: false };
  return { real: source.length === target.length ? source : target, causal: false };
}

/** Keys and mask of the cross-attention: of the encoder's output; by mistake, the decoder's own. */
function crossKeys(x, memory, { source, target }, how) {
  const keys = how.memory === "encoder" ? memory : x;
  const causal = how.memory === "decoder, its mask";
  const real = causal ? target : source;
  const fits = how.memory_mask === "source" && real.length === keys.shape[0];
  return [keys, { causal, real: fits ? real : Array(keys.shape[0]).fill(true) }];
}

/** Mistake: the softmax of the output over the tokens. */
function overTokens(logits, output) {
  const p = softmax(logits, 0);
  return output.startsWith("log") ? tensor(p.shape, p.data.map(Math.log)) : p;
}
