// What the page knows and computes: the model, its vocabularies, and the run of one sentence in a given state.

import { softmax, tensor } from "./arithmetic.js";
import { Tokenizer } from "./tokenizer.js";
import { Transformer, greedy, likeliest, nextProbabilities } from "./transformer.js";
import { unpack } from "./unpack.js";

export const PAD = 0;
export const BOS = 2;
export const EOS = 3;
export const SPECIAL = { "<pad>": "pad", "<unk>": "unknown", "<bos>": "start", "<eos>": "end" };

/** Of a document (payload.py): the model and all that belongs to it. */
export async function open(document) {
  const { config, tokenizers, recorded } = document;
  const model = new Transformer(config, await unpack(document.weights));
  const [source, target] = tokenizers.map((t) => new Tokenizer(t));
  return {
    document,
    config,
    model,
    source,
    target,
    recorded: { ...recorded, tensors: await unpack(recorded.torch), ours: await unpack(recorded.ours, recorded.torch) },
  };
}

/** The ids of a sentence with its end. Throws Trouble, in a sentence, for what cannot be read. */
export class Trouble extends Error {}

export function read(session, text) {
  const ids = session.source.encode(text);
  const [longest] = session.config.longest;
  if (!ids.length) throw new Trouble("There is nothing to translate yet: write a sentence.");
  if (ids.length >= longest) {
    throw new Trouble(`This has ${ids.length + 1} tokens with its end, but the model reads at most ${longest}.`);
  }
  const known = ids.filter((id) => id !== 1 && session.source.vocabulary[id] !== "▁");
  if (!known.length) throw new Trouble(`The model knows nothing of “${shortened(text)}”: ${learned(session)}`);
  return [...ids, EOS];
}

/** A sentence about the words that the model has never seen, or nothing. */
export function warning(session, text) {
  const words = session.source.unknown(text).map((word) => `“${shortened(word)}”`);
  return words.length ? `The model does not know all of ${words.join(", ")}, and guesses: ${learned(session)}` : "";
}

function learned(session) {
  const [example] = session.document.examples;
  return `it has learned sentences like “${example[0]}”.`;
}

function shortened(text) {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** Whether a state computes something else than the trained model does. */
export function isAltered(state) {
  return Object.keys(state.changes).length > 0 || state.off.length > 0;
}

/** The ids that the model writes for source ids, in a state: {ids, isFinished, probabilities, text}. */
export function translation(session, ids, state) {
  const padded = [...ids, ...Array(state.padding).fill(PAD)];
  const [, longest] = session.config.longest;
  const limit = isAltered(state) || state.draw ? Math.min(longest, 2 * ids.length + 12) : longest;
  const options = { changes: state.changes, off: state.off, temperature: state.temperature };
  const written = greedy(session.model, padded, {
    bos: BOS,
    eos: EOS,
    limit,
    ...options,
    choose: state.draw ? drawer(state.draw) : likeliest,
  });
  return { ...written, source: padded, text: textOf(session, written.ids) };
}

/** The text of written ids; after an end token, if the model went on, a stroke. */
export function textOf(session, ids) {
  const parts = [[]];
  for (const id of ids) id === EOS ? parts.push([]) : parts.at(-1).push(id);
  return parts
    .map((part) => session.target.decode(part))
    .filter(Boolean)
    .join(" | ");
}

/** Every named tensor of the pass that decides what comes after `prefix`. */
export function pass(session, source, prefix, state) {
  const found = new Map();
  const options = { changes: state.changes, off: state.off };
  const logits = session.model.forward(source, prefix, options, (name, x) => {
    found.set(name, x);
    return x;
  });
  const warm = tensor(
    logits.shape,
    logits.data.map((x) => x / state.temperature),
  );
  found.set("probabilities", softmax(warm, 1));
  return found;
}

/** The probabilities of the next token, the likeliest first: [{id, p}]. */
export function ranked(found, state, count) {
  const p = nextProbabilities(found.get("projection_layer.proj"), state.temperature, state.changes);
  return [...p]
    .map((value, id) => ({ id, p: value }))
    .sort((a, b) => b.p - a.p)
    .slice(0, count);
}

/** A chooser that draws by the probabilities; the same seed draws the same. */
function drawer(seed) {
  return (p, step) => {
    let rest = uniform(seed * 1009 + step);
    for (let id = 0; id < p.length; id++) if ((rest -= p[id]) < 0) return id;
    return likeliest(p);
  };
}

/** A number from 0 to 1 that looks random, one for each whole number (the mixing of splitmix32). */
function uniform(n) {
  let x = (Math.imul(n, 0x9e3779b9) + 0x85ebca6b) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
}
