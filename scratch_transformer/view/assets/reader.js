// Where the reader of the page is, and what follows from it: translation, pass, PyTorch's numbers. Nothing is drawn here.

import { addressOf, hasLayers, headName, itinerary, nameIn, stackOf } from "./places.js";
import { BOS, EOS, Trouble, isAltered, pass, read, translation, warning } from "./session.js";
import { RIGHT, fromHash, toHash, withChanges } from "./state.js";

export class Reader {
  /** shown: told of every change. refused: told of a sentence about what cannot be read. */
  constructor(session, shown, refused) {
    Object.assign(this, { session, shown, refused });
    const { document, config, recorded } = session;
    this.points = document.points;
    this.places = itinerary(this.points, config.num_layers);
    this.start = {
      ...RIGHT,
      sentence: recorded.sentence,
      at: "decoder.cross_attention.weights",
      layer: config.num_layers,
    };
    this.state = null;
    this.key = "";
  }

  /** Go where an address leads: "#at=encoder.self_attention.weights&layer=1". */
  follow(hash) {
    this.show(fromHash(hash, this.start, this.session), false);
  }

  /** New values of the state, or a function of it that gives them. isNew: whether the browser's "back" undoes it. */
  change(what, isNew = true) {
    const values = typeof what === "function" ? what(this.state) : what;
    this.show(withChanges({ ...this.state, ...values }, this.session), isNew);
  }

  show(wanted, isNew) {
    const next = this.find(wanted.at) ? wanted : { ...wanted, at: this.start.at };
    let trouble = "";
    try {
      this.compute(next);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      trouble = error.message;
      if (this.state) return this.refused(trouble);
      next.sentence = this.start.sentence; // a link to what cannot be read
      this.compute(next);
    }
    this.state = next;
    this.remember(isNew);
    return this.shown(trouble || warning(this.session, next.sentence));
  }

  /** What follows from a state; only what has changed is computed again. */
  compute(next) {
    const { sentence, changes, off, padding, draw, temperature } = next;
    const key = JSON.stringify([sentence, changes, off, padding, draw, temperature]);
    if (this.key !== key) {
      const ids = read(this.session, sentence);
      this.written = translation(this.session, ids, next);
      const unaltered = { ...RIGHT, padding, draw, temperature };
      this.right = isAltered(next) ? translation(this.session, ids, unaltered).text : this.written.text;
      this.passes = new Map();
      this.key = key;
    }
    this.present = this.passAt(next);
  }

  /** The pass that decides on one token: {token, total, next, prefix, source, tensors}. */
  passAt(next) {
    const { written, passes, session } = this;
    const all = written.isFinished ? [...written.ids, EOS] : written.ids;
    const token = next.token && next.token <= all.length ? next.token : all.length;
    const prefix = [BOS, ...all.slice(0, token - 1)];
    if (!passes.has(token)) passes.set(token, pass(session, written.source, prefix, next));
    const tensors = passes.get(token);
    return { token, total: all.length, next: all[token - 1], prefix, source: written.source, tensors };
  }

  remember(isNew) {
    try {
      history[isNew ? "pushState" : "replaceState"](null, "", toHash(this.state));
    } catch {
      // a frame without an address of its own
    }
  }

  // ---- Places ----

  find(address) {
    return this.points.find((point) => addressOf(point.place) === address);
  }

  get point() {
    return this.find(this.state.at);
  }

  get layer() {
    return hasLayers(this.point) ? this.state.layer : 1;
  }

  get index() {
    return this.places.findIndex(({ point, layer }) => point === this.point && layer === this.layer);
  }

  isThere(point, layer) {
    return this.present.tensors.has(nameIn(point, layer));
  }

  go(point, layer) {
    this.change({ at: addressOf(point.place), ...(hasLayers(point) ? { layer } : {}) });
  }

  /** To the next place (or the one before) that is no detail; after the last one, to the next token's decoder. */
  step(by) {
    let i = this.index + by;
    while (
      this.places[i] &&
      (this.places[i].point.detail || !this.isThere(this.places[i].point, this.places[i].layer))
    ) {
      i += by;
    }
    if (this.places[i]) this.go(this.places[i].point, this.places[i].layer);
    else if (by > 0 && !this.isLast) this.write();
  }

  get isLast() {
    return this.present.token === this.present.total;
  }

  /** The decided token is written, and the decoder starts again. */
  write() {
    const first = this.places.find(({ point }) => stackOf(point) === "decoder" && !point.detail);
    this.change({ token: this.present.token + 1, at: addressOf(first.point.place) });
  }

  begin() {
    const first = this.places.find(({ point }) => !point.detail);
    this.change({ at: addressOf(first.point.place), token: 1, query: 0 });
  }

  toToken(token) {
    this.change({ token: Math.min(this.present.total, Math.max(1, token)) });
  }

  // ---- Heads ----

  isOff(head) {
    return this.state.off.includes(headName(this.point, this.layer, head));
  }

  toggleHead(head) {
    const name = headName(this.point, this.layer, head);
    const { off } = this.state;
    this.change({ off: this.isOff(head) ? off.filter((other) => other !== name) : [...off, name] });
  }
}
