"""What the parameters of forward mean: tokens, ids, memory, masks. A new name for one of them goes in here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.names.words import plain

INPUTS: dict[str, str] = {
    "query": "query queries q xq inputsq queryinput qin xquery querytensor qx inputq queryvectors",
    "key": "key keys k xk inputsk keyinput kin xkey keytensor kx inputk keyvectors",
    "value": "value values v xv inputsv valueinput vin xvalue valuetensor vx inputv val valuevectors",
    "memory": """
        memory encoderoutput encoutput encout encoderout encoderoutputs encoutputs encoderhiddenstates context enc
        srcenc eoutputs encoded kv y cross crossinput encx encsrc encoderx encodings encoding encoderstates ctx
        mem encoderoutputtensor encoderhidden encoderstate crosskv eoutput encodedsrc srcencoded xenc xencoder
        encval states enck encv enckey encvalue encodermemory keyvalue contextx encodersequence encodero enchidden
    """,
    "ids": """
        ids x idx inputids tokens inputs input seq tokenids src tgt trg target inp inputseq sequence text
        inputtokens xids trginput tgtseq sent sentence srcseq batch inindices indices
    """,
    "positions": """
        positions tokenpositions positionids pos posids inputpos inputpositions position positionidx positionindices
        posidx tokenpos cachepositions
    """,
    "steps": """
        steps step stepnum t iteration globalstep stepno n it currentstep nsteps epoch i curstep currstep curit curiter
        currentit currentiter currentiteration iter itr stepidx stepcount iternum iterationnum updatenum
    """,
    "length": "length size sz n seqlen len t l maxlen sequencelength dim ntokens blocksize num",
    "next_logits": "model decoder net transformer logitsfn nextlogits stepfn fn decode predict",
    "bos": """
        bos sos startsymbol start bosid sosid startid startsymb sostoken bostoken bosidx sosidx begin startindex
        gosymbol starttoken
    """,
    "eos": "eos endsymbol end eosid endid eostoken eosidx stop endsymb endtoken eossymbol",
    "max_len": """
        maxlen maxlength maxnewtokens maxsteps maxtokens steps maxseqlen n length limit maxdecodelen nnewtokens
        newtokens numnewtokens ntokens numtokens ntokenstogenerate tokenstogenerate numtokenstogenerate maxgenlen
        genlen numsteps nsteps generatelength maxoutputlen maxtargetlen targetlen maxtgtlen nwords numwords
    """,
    "beam_size": "beamsize beamwidth k beam nbeams numbeams width beams",
    "x": "x scores logits input inputs z a hiddenstates infeatures inputfeatures inqueryorkey",
    "src": """
        src source sources srctokens srcids encinput encinputs encoderinput encoderinputs srcseq inputids encx inp
        inputs srcs input encoderinputids srcinput sourceinput sourceids sourcetokens encoderx e srcsequence x xsrc s
        encseq
    """,
    "tgt": """
        tgt target trg tgttokens tgtids decinput decinputs decoderinput decoderinputs tgtseq trgseq decx tar
        decoderinputids tgtinput targetids output outputs decoderx tgts targets tgtsequence y xtgt t decseq
        targettokens trginput targetinput targetinputs
    """,
    "target": "target targets y labels label tgt trg truth gold gt tgtout trues ytrue targetids tgty",
    "logits": "logits x pred preds predictions outputs output input inputs yhat scores logprobs ypred",
    "groups": "nrep numrep nreps reps rep n times groups numgroups ngroups repeats nrepeats numrepeats factor g",
    "residual": "residual residue inputtensor input skip shortcut identity inputstates layerinput x attentionoutput",
    "sublayer": """
        sublayer sublayerfn fn f func function sublayeroutput module layer block sublayerx sublayermodule net
    """,
}

OF_IDS = r"(in|inps?|inputs?|ids?|idxs?|ind(ic|ex)es|tok(en)?s?|words?|seqs?|sequences?|sent(ence)?s?|batch)+"
OF_SIDES = {
    "src": re.compile(rf"(src|sources?|enc(oder)?){OF_IDS}"),
    "tgt": re.compile(rf"(tgt|trg|targets?|dec(oder)?){OF_IDS}"),
}
"""The ids of either language, in whatever words: tgt_ids_in."""
SIDE = re.compile(r"src|source|^enc|^mem|tgt|targ|trg|^tar$|^dec|^outputs?$")
"""In a name that says whether it is the source or the target, as x and y do not."""
OF_ENDS = {
    "bos": re.compile(r"(tgt|trg|target)?(sos|bos|start|begin)(tok(en)?|symb(ol)?|id|ind|idx|index|word)*"),
    "eos": re.compile(r"(tgt|trg|target)?(eos|end|stop)(tok(en)?|symb(ol)?|id|ind|idx|index|word)*"),
}
"""The first and the last id of a sentence."""
OF_ATTENTION = {
    name: re.compile(rf"(idx|ids|in|inputs?|inp|emb|embeddings?|seq|tokens?|hidden|hiddenstates)(for)?{said}")
    for name, said in (("query", "(q|query|queries)"), ("key", "(k|keys?)"), ("value", "(v|values?)"))
}
"""What is projected to queries, keys, values: idx_q, hidden_states_for_keys."""
OF_KEYS_AND_VALUES = r"^(kv|keyvalue)s?(pad(ding)?)?mask$"
"""Beside a mask of the target's own, of what the encoder gives."""
SOURCE_MASK = re.compile(
    r"(src|source|enc|memory|mem|cross|crs).*mask|^[se](pad(ding)?|att(entio)?n)?mask|encpad|mask.*(src|source|enc|mem|cross)"
    rf"|{OF_KEYS_AND_VALUES}"
)
TARGET_MASK = re.compile(
    r"(tgt|trg|tar|target|dec|self|look|peek|peak|ahead|tri[lu]|causal|combined|subseq|^t(?!ok|ext)|^d(?!oc)|future|slf).*mask|causal|lookahead|subsequent"
    r"|mask.*(tgt|trg|tar|dec|self|future)"
)
BOTH = r"(src|source)(tgt|trg|tar|target)|(tgt|trg|tar|target)(src|source)"
CROSS_MASK = re.compile(
    rf"(decenc|encdec|encoderdecoder|cross|crs|memory|{BOTH}).*mask|mask(decenc|encdec|{BOTH})$|^dec(oder)?pad(ding)?mask$"
    rf"|{OF_KEYS_AND_VALUES}"
)
"""Of these, what says `dec` is no mask of the target; dec_padding_mask is TensorFlow's, for what the encoder gives."""
LENGTHS = re.compile(
    r"^(seq|sequences?|inputs?)?(lengths|lens)$|^inputs?len$|valid(len|length)s?$"
    r"|^(enc|dec|src|source|tgt|trg|target|key|memory)\w*(lengths|lens|sequences?length)$"
)
"""How many words of every sentence are none of padding, in place of a mask."""
ANY_MASK = re.compile(rf"mask|{LENGTHS.pattern}|padding|^pad$|^m$")
FILL = re.compile(
    r"mask(ing|ed)?(with)?(minus|neg(ative)?)?(inf(inity|inite)?|fill|(fill|score)?val(ue)?)$"
    r"|^(minus|neg(ative)?)inf(inity|inite)?$"
)
"""What scores are filled with where a mask blocks: mask_value=-1e9."""
FILLED = -1e9
SEGMENT = re.compile(r"^seg(ment)?s?(x|label|id|ids|info|ind|inputs?|tokens|mask)?$|tokentype|segmentlabel|sentenceids")
"""Which of two sentences a token is of, as BERT is told."""
CAUSAL_FLAGS = (
    *("causal", "iscausal", "usecausal", "causalmask", "usecausalmask", "autoregressive"),
    *("maskfuture", "futuremask", "usefuturemask", "hidefuture"),
)
"""Flags of a constructor or a forward, False by default, with which the future is hidden."""


ALONE = ("usemask", "applymask", "masked", "lookahead")
"""The same, where nothing takes a mask that they might be about."""
OF_MASKED = ("mask", "masking", "ismask", "ismasked", "withmask", "hasmask", "domask", "isdecoder", "indecoder")
"""The same of a constructor: a forward may be given False in place of a mask."""


def causal_flags(parameters: Iterable[inspect.Parameter], alone: bool = False, constructs: bool = False) -> list[str]:
    """The names of those among the parameters. alone: no mask is taken. constructs: they are a constructor's, which may
    have to be told: is_decoder: bool."""
    names = (*CAUSAL_FLAGS, *(ALONE if alone else ()), *(OF_MASKED if alone and constructs else ()))
    flags = [p for p in parameters if plain(p.name) in names]
    return [p.name for p in flags if p.default is False or (constructs and p.default is p.empty and _is_bool(p))]


def _is_bool(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in (bool, "bool")


KEEPING = re.compile(r"(non|not)pad|^npm")
"""Of masks of 1 for words and 0 for padding, with which tokens are multiplied."""
KEY_PADDING = re.compile(rf"pad|validlen|length|{LENGTHS.pattern}|attentionmask$")


MASKED = re.compile(
    r"(?:un)?masked(?=(?:x|(?:input|token|src)?ids|inputs?|tokens?|src|seqs?|sequences?|text|features|emb(?:edding)?s?)$)"
    r"|mask(?=(?:queries|tokens|features)$)|mask(?:ed)?(?=lm|languagem)"
)
"""What words are hidden in, as BERT is given them, or what finds them; what stands for a mask of an image: no mask of
attention."""


LABELS = re.compile(r"mask\w*label")
"""masked_lm_labels: what is to be found where words are hidden."""


def is_mask(name: str) -> bool:
    """Whether a forward's parameter takes a mask."""
    if "pad" in settings_of(name)[:1] or is_fill(name) or MASKED.match(plain(name)) or LABELS.search(plain(name)):
        return False
    return bool(ANY_MASK.search(plain(name))) or bool(TARGET_MASK.search(plain(name)))


def is_segment(name: str) -> bool:
    """Whether a parameter takes the segments of ids, which come beside these."""
    return bool(SEGMENT.search(plain(name)))


def is_fill(name: str) -> bool:
    """Whether a parameter takes the number that scores are filled with."""
    return bool(FILL.search(plain(name)))


def input_of(name: str, among: tuple[str, ...]) -> str | None:
    """The canonical input that a parameter's name means, of those that the kind has."""
    word = MASKED.sub("", plain(name), count=1)
    for canonical in among:
        if word == plain(canonical) or word in INPUTS.get(canonical, "").split():
            return canonical
        if any(canonical in forms and forms[canonical].fullmatch(word) for forms in (OF_ENDS, OF_ATTENTION, OF_SIDES)):
            return canonical
    return None


def says_sides(parameters: Iterable[str]) -> bool:
    """Whether one of two parameters says that it is the source's, or the target's: then the other is the other's."""
    return any(SIDE.search(plain(name)) for name in parameters)


def first_or_last(word: str) -> int | None:
    """The id of what a text begins or ends with, where a name asks for that."""
    return next((number for number, end in enumerate(OF_ENDS.values(), 1) if end.fullmatch(word)), None)
