"""The words on the line that is usually at fault, by mistake and form: patterns for `lines.py`."""

from __future__ import annotations

import itertools

from scratch_transformer.kit.mistakes.attention import (
    BEHIND_THE_PRESENT,
    CAUSAL_ENCODER,
    NEAR_ZERO,
    ONE_HEAD,
    ONE_TURNED,
    OWN_VALUE,
    POOLED,
    SPLIT_ALONE,
    SPREADS,
    TARGET_ONLY,
    WEIGHTS_APART,
)
from scratch_transformer.kit.mistakes.blocks import IN_BOTH, KEPT, NOT_DROPPED
from scratch_transformer.kit.mistakes.construction import DROPS_ANYWAY, SOURCES_TABLE, WIDTH_OF_HEADS
from scratch_transformer.kit.mistakes.decoding import ALL_BUT, AT_THE_BEGINNING, FROM_BELOW_ZERO
from scratch_transformer.kit.mistakes.embedding import ATTENTION_ALONG_IT, ROUNDED_ANGLES
from scratch_transformer.kit.mistakes.masks import BESIDE_FLAG
from scratch_transformer.kit.mistakes.normalization import AT_LEAST, IN_DIVISOR, OF_A_SIZE
from scratch_transformer.kit.mistakes.optimizing import GONE_THROUGH
from scratch_transformer.kit.mistakes.paths import OF_BOTH, OF_CROSS
from scratch_transformer.kit.mistakes.rotary import FIRST_ROWS

OF_NORMS = ("B2", "B3", "B13", "B15")
"""Mistakes that a sublayer's norm shows."""
TURNS = r"^(?!\s*(cos|sin|freq)).*=.*((?i:rot|rope)\w*\(|[@,(] *(self\.)?R\b)"
"""A call of what turns by angles, or a product with R."""
PATTERNS: dict[str, str] = {
    "LN1": r"\.(std|var)(_mean)? ?\(", "LN2": r"eps", "LN3": r"(?<!st)eps",
    "LN4": r"Parameter\(", "LN5": r"\*\*\s*2|pow\(|square",
    "LN6": r"Parameter\(|Norm\(.*bias=False", "LN7": r"mean\(|\.std\(|\.var\(|LayerNorm\(|norm\(.*dim", "LN8": r"super",
    "LN9": r"eps|std|var", "LN10": r"/.*(std|var|sig)|sqrt",
    "LN13": r"Parameter\(", "LN14": r"(?<!/)/(?!/)", "E1": r"sqrt", "E2": r"\breturn\b|emb", "E5": r"padding_idx",
    "E6": r"(?i)(logit|score|proj|prj|head|gener|out|class|linear|fc)\w*.*(/|\*).*(sqrt|\*\*|scal|d_?model|dim|emb)",
    "E4": r"\binit\.|uniform_|normal_|\.apply\(",
    "P1": r"\[:, ?1::2\]|1::2|cos", "P2": r"exp\(|pow|10_?000|1e4", "P3": r"cat\(|concat", "P4": r"return|\[:",
    "P6": r"\[:", "P8": r"zeros\(|arange", "P9": r"return|\+", "P12": r"\+", "P10": r"10000|exp\(",
    "P5": r"self\.\w*(pe|pos|enc)\w* *=[^=]|zeros|buffer",
    "P14": r"\[:, ?[01]::2\]|\.sin\(|\.cos\(",
    "P11": r"sqrt|\*\*\s*0?\.5|scale|return",
    "P7": r"^\s*\w*(start|off|past|pos|t0|begin|cur)\w* *=[^=]|arange\(",
    "K1": r"cat\(|\w*(cache|past)\w*(\[.*\])? *=[^=]|\.(update|append)\(",
    "R1": r"::2\]|chunk\(|view_as_complex|unflatten|stack\(|repeat_interleave", "R2": r"\*\*.*/|pow\(|exp\(",
    "R5": r"(?i)=.*\b\w*(rot|rope)\w*\(|arange\(",
    "R10": r"cat\(|stack\(|flatten\(|view\(",
    "R3": r"(?i)\b\w?v(alues?)?(_\w+)?\b.*=.*(rot|rope|(?-i:\bR\b))", **dict.fromkeys(("R7", "R8"), TURNS),
    "R4": r"(?i)=.*(rot|rope)\w*\(", "R6": r"- *\w|cat\(|stack\(",
    "G3": r"repeat|expand|tile\(", "G1": r"silu|gelu|relu|sigmoid|act\w*\(", "G2": r" \+ ",
    "G4": r"\) \* |\w \* \w", "G5": r"silu|gelu|relu|sigmoid|act\w*\(", "G6": r"sigmoid",
    "O1": r"sqrt|addcdiv|\*\* *0?\.5", "O2": r"(?i)(=|_\().*(decay|wd|lambda|lam\b)",
    "O3": r"(?<![\w\"'])eps", "O4": r"(?i)(decay|wd|lambda|lam)\b", "O5": r"mul_\(|lerp|addcmul|\bb(eta)?\w*[12]",
    "O6": r"/ *(\(|(?![\w.]*warm)[a-z])|cos\(",
    "O7": r"cos\(", "O8": r"warm|return", "O9": r"norm|clamp|clip", "O10": r"sqrt|norm|sum\(", "O11": r"decay",
    "O12": r"(?i)([-*]|_\().*(decay|wd|lambda|lam)\b",
    "S1": r"(?i)temp|tau|/ *t\b", "S2": r"cumsum", "S3": r"masked_fill|where|\] *= *", "S4": r"topk|sort|\[: *\w*k\b",
    "S5": r"(?i)[/*]=? *(self\.)?\w*(penal|pen\b)|(penal|pen\b)\w* *[/*]|(div|mul)_?\(.*penal",
    "W1": r"min\(|max\(|rank|merge", "W2": r"special", "W3": r"findall|finditer|split\(|encode\(", "W4": r"\.decode\(",
    "W5": r"findall|finditer",
    "A1": r"sqrt|\*\*\s*\(?-?(0?\.5|1 ?/ ?2)|(?<!/)/ ?\(?self|scale", "A2": r"softmax", "A3": r"mask", "A4": r"mask",
    "A37": r"softmax|sigmoid|@|matmul", "A38": r"einsum|sum\(",
    "A39": r"(?i)\w*(att|mha|head)\w*\(.*\w\(\w+\)|self\.\w*q(uer|_|\b)\w*\(",
    "A5": r"tril|triu", "A6": r"tril|triu", "A7": r"mask", "A8": r"masked_fill|\de\d",
    "A10": r"masked_fill|10000|1e4|e4", "A11": r"masked_fill|mask", "A12": r"masked_fill_|_\(|\+=|\*=",
    "A13": r"view|reshape", "A14": r"Linear\(", "A15": r"Linear\(", "A16": r"mask", "A17": r"attn|weights|scores",
    "A18": r"softmax\(|scaled_dot_product_attention\(", "A40": r"(?i)dropout", "A26": r"\bexp\w*\(|\be *\*\*",
    "A19": r"(//|%) *[^\d\s]|int\(.*/|Linear\(.*heads",
    "A21": r"matmul|@|bmm|einsum",
    "A22": r"cross|memory|\benc|\bmem|src_key_padding_mask",
    "A23": r"view|reshape|transpose|permute", "A24": r"mask", "A25": r"tril|triu|mask",
    "A27": r"self_?att\w*\(|mask", "A28": r"Linear\(", "A29": r"masked_fill|mask\w* ?=", "A30": r"mask|tril|triu",
    "A31": r"mask", "A35": r"\.view\(|reshape\(", "A34": r"byte|uint8|ByteTensor|1 *-|mask", "B6": r"dropout|return",
    "B14": r"return", **dict.fromkeys(OF_NORMS, r"norm|\bln\w*\("),
    "B31": r"(?i)(norm|\bln)\w*(\[\w+\])?\(\w*(enc|mem|src|context|key|val|\b[kv]\b)",
    "B16": r"return", "B17": r"relu|gelu|GELU|ReLU|act", "B19": r"for ", "B20": r"att",
    "A36": r"\b(enc|mem|src|context)\w*\b(?<!mask).*[,)]",
    "B21": r"\b[A-Z]\w*\([^()]*(\([^()]*\)[^()]*)*\)\(",
    "B22": r"empty\(", "B28": r"(for |range\()(?!.*\bmax_)|layers=[\w.]*layers", "B29": r"Linear\(|Embedding\(|//",
    "B4": r"\bTransformer(En|De)coder\(|ModuleList\(|(clones?|copies)\w*\(|Sequential\(",
    "B27": r"no_grad|inference_mode|detach\(|\.data\b",
    "B23": r"\+", "B24": r"dropout", "B34": r"(?i)drop",
    "B7": r"dropout", "B8": r"relu|gelu|GELU|ReLU", "B9": r"\* ?\w+|for ", "B10": r"\[", "B11": r"training",
    "B12": r"dropout", "T1": r"softmax", "T2": r"softmax", "T3": r"\([^()]* - [12]\)", "T4": r"pad|ignore",
    "T5": r"pad|ignore", "T7": r"min|step",
    "T13": r"^ *(y|target|label)\w* *=|return|: *\w+ *\+", "T26": r"randint|integers\(|randrange",
    "D1": r"log|score", "D2": r"eos|end", "D3": r"eos|end",
    "D4": r"(?i)eos|\bend(_?tok|_?id|_?sym)?|stop", "D6": r"argmin|largest=False|\.min\(", "D8": r"\[(:, ?)?0(, ?:)?\]",
    "D9": r"\[[^\]]*:[^\]:]*[a-zA-Z]\w*[^\]:]*\]", "D10": r"cat\w*\(|stack\(|insert\(|\] *\+|= *\[",
    "D12": r"zeros\(.*(beam|width|k\b)|\* ?\w*(beam|width|k\b)|repeat\w*\(.*(beam|width)|for _ in range\(\w*(beam|k\b)",
    "D11": r"\[[^\]]*-1:\]|\b(model|self|decoder?|forward|net|transformer)\(",
}  # fmt: skip


OTHERWISE = {
    "T3": r"fill_|smooth", "S5": r"penal",
    "LN3": r"/.*\b(std|var|sigma)", "A8": r"where|\d{5}|inf",
    "A18": r"dropout", "LN10": r"mean|var", "A14": r"Parameter\(", "P2": r"\*\*",
    "G3": r"view\(|reshape\(|permute\(",
    "W5": r"compile\(|a-z", "B27": r"torch\.tensor\(|\bround\(", **dict.fromkeys(("A5", "A6"), r"mask"),
    "B7": r"(?i)[gr]elu|silu|\bact\w*\(",
    "LN13": r"self\.\w*(weight|scale|gain|gamma|shift|bias|beta)\w* *=[^=]",
    "A1": r"(?i)( @ |matmul\(|bmm\(|einsum\(|scores).* [*/]=? ",
}  # fmt: skip
"""For what the usual pattern fits nowhere: a norm that has no eps, or calls it something else; base ** exponent; a
network without any dropout."""
AT_LAST = {
    "LN3": r"\.(std|var)\(|sqrt\(",
    "B7": r"(?i)linear\(",
    "A14": r"(?i)self\.w\w*\b[^=]*=.*\.(rand\w*|normal)\(",
}
"""For what neither fits: what a norm divides by has a line of its own."""
OF_QUERIES = r"mask.*(unsqueeze\((dim=)?(3|-1)\)|, None\])"
"""A mask (B, 1, T, 1): padding's own rows."""
OF_BOTH_SIDES = r"(unsqueeze|None\b).*( & | \* |@|, ).*(unsqueeze|None\b)|(bmm|einsum|matmul|outer)\(.*(?i:mask|pad)"
"""The padding of queries and of keys, as a product."""
SCALED = ("times d_model", "divided by √d_model", "plus √d_model")
WEIGHED = r"einsum\(.*(att|weight|prob|score|softmax)"
GOES_ROUND = r"lambda (\w+) *:(?!.*\b\1\b).*\)$"
"""What does not use what its norm makes."""
TWO_SUBLAYERS = [*itertools.combinations(("first", "second", "third"), 2)]
NETWORK_CALLED = r"(?i)self\.(\w*(feed|ffn|fnn|mlp|network)|ff|fc|lin)\w*\("
SHIFTED = r"\+ *self\.(?!\w*eps)"
OF_ONE_SPLIT = r"(?i)^\s*x?{}\w* *=[^=].*(view|reshape)\((?!.*(transpose|permute|swapaxes))"
ONE_HEADS = (ONE_HEAD, ONE_TURNED, f"{ONE_HEAD}, with √d_k of several")
PRODUCTS = r" @ |matmul\(|bmm\(|einsum\(|scaled_dot_product_attention\("
FIRST_POSITIONS = r"(?i)(cos|sin|freq|cis|pe|pos|rope|rot|table|angle)\w*\[(:, *)?: *[a-z]"
"""The first rows of a table, however many tokens came before."""
OF_FORMS: dict[tuple[str, str], str] = {
    **{("P7", form): FIRST_POSITIONS for form in ("all the first", "all the first after a prompt")},
    (
        "P8",
        ROUNDED_ANGLES,
    ): r"(?i)^(?!.*(cos|sin)\().*=.*(type_as\(|\.to\((?!.*device)|dtype=(?!torch\.)|\.to\(\w*dtype)",
    ("P14", "the position's number in every feature"): r"arange\(",
    ("P14", "the angles themselves"): r"10_?000(?!\d)|pow\w*\(|\*\*",
    ("D9", ALL_BUT): r"\[.*: *-",
    ("D9", FROM_BELOW_ZERO): r"\[.*[\w)\]] *- *[\w.]+ *:|=.*(size\(|shape|len\().* - ",
    ("R5", "the numbers of the features"): r"arange\(",
    ("R9", FIRST_ROWS): r"pos\w*(\.\w+\(.*\))?\[0(, ?:)?\]",
    ("K1", ""): r"\bis_causal=True *[,)]",
    ("B30", SOURCES_TABLE): r"(?i)\b\w*(emb\w*_?(src|source|enc)|(src|source|enc)\w*emb)\w*\(.*\b(tgt|trg|target|dec)",
    ("D4", AT_THE_BEGINNING): r"(?i)(==|!=).*(bos|sos|start|begin|go_)|(bos|sos|start|begin|go_)\w* *(==|!=)",
    **{("S4", form): r"topk\(.*[kK]\)? ?[-+] ?1|[\w\])] [<>]=? \w" for form in ("one fewer", "one more")},
    **{(id, "it is not used"): r"^\s*[\w.]+\.masked_fill\(" for id in ("S2", "S4")},
    ("A1", "not scaled"): r" @ |matmul\(|bmm\(|einsum\(",
    ("E2", "not scaled"): r"\bself\.(\w+\.)*\w*(emb|tok|wte)\w*[(\[](?!\w*:)|\.embedding\(",
    **{("E2", form): r"sqrt|\*\*|\*.*dim|\*.*model" for form in SCALED},
    ("B9", ""): r"[(\[] *(?!(\w+) for \1 )[\w.]+ for \w+ in |\] *\* *\w|for \w+ in range\(.*\):",
    ("A7", "queries instead of keys"): OF_QUERIES,
    ("A7", BEHIND_THE_PRESENT): OF_QUERIES,
    ("A7", "queries instead of keys, in the target"): OF_QUERIES,
    ("A7", "queries instead of keys, in the source"): OF_QUERIES,
    ("A11", SPREADS): OF_BOTH_SIDES,
    ("A38", WEIGHTS_APART): WEIGHED,
    ("A38", OWN_VALUE): rf"{WEIGHED}|(att|weight|prob|score)\w*(\[.*\]|\.\w+\(.*\))? \*",
    ("A23", "features before heads"): r"stack\(.*-1\)",
    ("A17", ""): r"self\.\w*(att|weight|score|prob)\w* *= *(?!nn\.|None)",
    **{("A13", form): OF_ONE_SPLIT.format(form.removeprefix("the ")[0]) for form in SPLIT_ALONE},
    **{("A13", form): rf"(?i)^\s*q\w*(, *\w+)* *=[^=]|{PRODUCTS}" for form in ONE_HEADS},
    ("P2", "the cosine has the next exponent"): r"cos\(.*(10_?000|1e4|pow|exp)|1::2.*cos\((?!.*1::2)",
    ("A4", ""): r"masked_fill_?\(.*(?i:eps|tiny|1e-\d)|^(?!.*mask\w*[^*=]*\* *\w*mask).*"
    r"(\*=? [\w.]*\(?\w*mask|mask\w*(\.\w+\(.*\))? \*|mul_?\(.*mask)",
    ("A4", NEAR_ZERO): r"masked_fill_?\(.*(?i:eps|tiny|e-\d)",
    ("R4", "the keys are not, and the values are"): r"(?i)^\s*v\w* *=.*(rot|rope)",
    ("T4", "divided by all positions"): r"batchmean|\.mean\(|['\"]mean['\"]|/ *(\w+\.)*(numel|size|shape|len)\b",
    ("A27", CAUSAL_ENCODER): r"(?i)(src|source|enc|\bx_?)\w*mask\w* *=[^=]|enc\w*\(.*(tril|triu|mask|causal)",
    ("A24", POOLED): r"mean\(|\bmax\(|amax\(|sum\(|\[:, *-1|pool\w*\(",
    ("A24", TARGET_ONLY): r"(?i)tril|triu|causal\w*\(|(trg|tgt|target)\w*mask\w* *=[^=]",
    ("A29", BESIDE_FLAG): r"(?i)causal.* and .*mask|mask.* and .*causal|causal\w* *=[^=]|\bif .*causal",
    ("A34", ""): r"\.byte\(|uint8|ByteTensor",
    ("B15", ""): r"ModuleList\(\[.*\] ?\* ?\d",
    ("O10", GONE_THROUGH): r"\bfor .* in ",
    ("B19", ""): r"for .* in .*\bself\b",
    (
        "P4",
        ATTENTION_ALONG_IT,
    ): r"\b(Transformer(\w+Layer)?|MultiheadAttention)\((?!.*batch_first *= *(?!False))|transpose\((0, *1|1, *0)\)"
    r"|permute\(1, *0\b|swapaxes\((0, *1|1, *0)\)",
    ("P4", ""): r"\[[^\]]*:[^\]]*(size|shape|len)|arange\(.*(size\(|shape\[)",
    **{("B14", form): GOES_ROUND for form in ("", *(IN_BOTH.format(*two) for two in TWO_SUBLAYERS))},
    ("A36", ""): r"(?i)(att|mha|cross)\w*\(.*\b(enc|mem|src|context)\w*\b(?<!mask)",
    ("B24", ""): r"drop\w*\(.*[^(,] \+|return self\.\w*drop\w*\(|^\s*x = self\.\w*drop\w*\(x\)",
    **{("B6", form.format("self-attention")): r"(?i)self\.\w*(att|mha|heads)\w*\(" for form in (KEPT, NOT_DROPPED)},
    **{("B6", form.format("the feed-forward network")): NETWORK_CALLED for form in (KEPT, NOT_DROPPED)},
    ("B12", ""): r"\bdropout\(.*True|(F|functional)\.dropout\((?!.*training)",
    ("LN3", OF_A_SIZE): r"\b(?!super)[A-Z]\w*(Norm|LN)\w*\([\w.]+[,)]|\b(LN|Norm)\([\w.]+[,)]",
    **{("LN3", f"{AT_LEAST}, and {what}"): r"clamp|clip|max" for what in ("ε is added to that", "none is added")},
    **{
        ("LN14", form): rf"[*/].*{SHIFTED}|{SHIFTED}.*[*/]|{SHIFTED}"
        for form in ("the shift is scaled too", IN_DIVISOR)
    },
    ("LN6", ""): r"\bif \w*bias\b|Norm\(.*\bbias=",
    ("B29", DROPS_ANYWAY): r"\b(nn\.)?Transformer(En|De)coderLayer\(|MultiheadAttention\(|Dropout\(",
    ("B29", WIDTH_OF_HEADS): r"(?i)head_?(size|dim|width)|dim_?head|\bd_?(k|head)\b",
    ("LN13", "the shift"): r"(beta|bias|shift|offset|\bb\w*) *=.*Parameter\(",
    **{
        (
            "B23",
            f"the feed-forward network is given {what}",
        ): NETWORK_CALLED
        for what in ("the block's first input", "the output of the attention, without residual and norm")
    },
    ("B23", "the attention to the encoder is given the block's first input"): r"\b(enc|mem|src|context)\w*\b.*[,)]",
    **dict.fromkeys(
        (("B23", OF_CROSS), ("B23", OF_BOTH)),
        r"\b\w+ \+.*(cross|enc|mem|src|context)|(cross|enc|mem|src|context)\w*\)* \+",
    ),
    ("A21", "values come from the decoder"): r"(\w+), *(key=|k=)?(enc|mem|src|context)\w*, *(value=|v=)?\1\b",
    **{
        (
            "A21",
            f"{made} are made with the projection of the {other}",
        ): rf"(?i)^\s*\w*{made[0]}\w* *= *self\.\w*{other[0]}\w*\("
        for made, other in itertools.permutations(("queries", "keys", "values"), 2)
    },
}
"""Forms of a mistake that are seen elsewhere than the others: looked for first."""
