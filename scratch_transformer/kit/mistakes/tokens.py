"""W1 … W5: byte-pair encoding."""

from scratch_transformer.kit.kind import Mistake

AS_TOLD = "of two that begin alike, the one that is told first"

SENNRICH = "Sennrich et al. 2016, algorithm 1"

TOKENS = (
    Mistake(
        id="W1",
        title="merges in another order than they were learned",
        does="Merges the first pair of a word that can be merged, takes the longest token, or stops after one merge. "
        "A model that was trained with the right pieces sees others.",
        expected="Of all pairs in a word, the one that was learned first; then again, until there is none.",
        fix="min(pairs, key=lambda pair: rank.get(pair, inf)), in a loop.",
        source=SENNRICH,
        changes={
            "from the left": {"merging": "from the left"},
            "the last learned first": {"merging": "last learned first"},
            "the longest token first": {"merging": "longest first"},
            "one merge only": {"merging": "once"},
        },
        demo="""\
merges = [("b", "c"), ("a", "b")]
print("right, the first learned first: a bc")
print("from the left:                  ab c")
""",
    ),
    Mistake(
        id="W2",
        title="special tokens are cut into pieces",
        does="Encodes <|endoftext|> like any other text, or of two special tokens that begin alike takes the shorter.",
        expected="A special token is one id; where several fit, the longest.",
        fix="re.split with the special tokens, the longest first, in brackets so that they are kept.",
        source="Radford et al. 2019, section 2.2",
        changes={"": {"specials": "cut"}, AS_TOLD: {"specials": "as told"}},
        demo="""\
import re
print("right:", re.split(r"(<end>)", "one<end>two"))
print("wrong:", re.findall(r"\\w+|\\W", "one<end>two"))
""",
    ),
    Mistake(
        id="W3",
        title="merges go across words",
        does="Merges bytes of two words: the text is not cut into words first.",
        expected="Words first (GPT-2's pattern), and merges within them.",
        fix="for word in regex.findall(PATTERN, text), and encode every word alone.",
        source="Radford et al. 2019, section 2.2",
        changes={"": {"words": "none"}},
        demo="""\
import re
print("words first:", re.findall(r" ?\\w+", "the end"))
""",
    ),
    Mistake(
        id="W4",
        title="decoding does not give the text again",
        does="What decode makes of the ids is another text, such as � for letters of several bytes.",
        expected="Join the bytes of all tokens, then decode them as UTF-8 once.",
        fix="b''.join(self.vocab[i] for i in ids).decode('utf-8', errors='replace'); of letters, ''.join(…).",
        source="Radford et al. 2019, section 2.2",
        changes={"": {"decoded": "another text"}, "token by token": {"decoded": "token by token"}},
        demo="""\
tokens = ["é".encode()[:1], "é".encode()[1:]]
print("joined first:", b"".join(tokens).decode())
print("one by one:  ", "".join(token.decode(errors="replace") for token in tokens))
""",
    ),
    Mistake(
        id="W5",
        title="letters beyond ASCII end a word",
        does="Takes letters beyond ASCII for none: of café it makes two words, caf and é, which no merge can join. So "
        "does a pattern of bytes, in which \\p{L} and \\w are letters of ASCII alone, and [a-zA-Z]. Where the merges "
        "are another's, the ids are other ones.",
        expected="A letter is one in every alphabet: GPT-2's pattern, of a text.",
        fix="regex.findall(PATTERN, text), with \\p{L}, and .encode() of every word after that.",
        source="Radford et al. 2019, section 2.2",
        changes={"": {"words": "of ASCII"}},
        demo="""\
import re
print("of a text:", re.findall(r" ?\\w+", "a café"))
print("of bytes: ", re.findall(rb" ?\\w+| ?[^\\s\\w]+", "a café".encode()))
""",
    ),
)
