// Text to ids and back, as scratch_transformer/translation/tokenizer.py does: words, characters, or byte pairs.

const SPACE = "▁";
const PUNCTUATION = /([\p{P}!-\/:-@[-`{-~])/u;
// what Python's str.split() takes for a space
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

export class Tokenizer {
  /**
   * vocabulary: the tokens by id. split: how words are taken apart first, "punctuation", "characters" or "".
   * merges: pairs of pieces of byte-pair encoding, the first to be joined first; null: a part is a token.
   */
  constructor({ vocabulary, split, merges }) {
    this.split = split;
    this.hasMerges = merges !== null;
    this.vocabulary = vocabulary;
    this.ids = new Map(vocabulary.map((token, id) => [token, id]));
    this.ranks = new Map((merges || []).map(([left, right], rank) => [`${left} ${right}`, rank]));
  }

  /** The ids of a text, without special tokens; 1 stands for what the vocabulary lacks. */
  encode(text) {
    const line = text.normalize("NFC").split(SPACES).filter(Boolean).join(SPACE);
    if (!line) return [];
    const marked = line.startsWith(SPACE) ? line : SPACE + line;
    const words = marked.match(/▁[^▁]*/gu);
    return words.flatMap((word) => this.pieces(word)).map((piece) => this.ids.get(piece) ?? 1);
  }

  pieces(word) {
    const parts = this.parts(word);
    return this.hasMerges ? parts.flatMap((part) => this.merged([...part])) : parts;
  }

  parts(word) {
    if (this.split === "characters") return [...word];
    if (this.split === "punctuation") return word.split(PUNCTUATION).filter(Boolean);
    return [word];
  }

  /** Characters, then again and again the two neighbours that were joined most often in the training texts. */
  merged(pieces) {
    for (;;) {
      let best = -1;
      let rank = Infinity;
      for (let i = 0; i + 1 < pieces.length; i++) {
        const other = this.ranks.get(`${pieces[i]} ${pieces[i + 1]}`);
        if (other < rank) [best, rank] = [i, other];
      }
      if (best < 0) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
    }
  }

  /** The words of a text with parts that the vocabulary lacks. */
  unknown(text) {
    return text.split(SPACES).filter((word) => word && this.encode(word).includes(1));
  }

  /** The text of ids without the special ones; unknown ones are "<unk>". */
  decode(ids) {
    const pieces = ids.filter((id) => id !== 0 && id !== 2).map((id) => this.vocabulary[id]);
    return pieces
      .map((piece, i) => piece.replaceAll(SPACE, i ? " " : ""))
      .join("")
      .trim();
  }
}
