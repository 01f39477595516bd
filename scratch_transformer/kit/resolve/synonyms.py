"""What names mean: of constructor parameters, forward parameters, weights. Tutorials have ten names for every thing."""

from __future__ import annotations

import functools
import re

# Names in lower case without underscores, whatever their style.
SETTINGS: dict[str, str] = {
    "d_model": """
        dmodel embeddim embeddingdim embedsize embdim embsize emb embeddingsize embeddings embed features
        numfeatures hiddensize hiddendim hidden hid hiddim nembd nembed dim dims size modeldim modelsize
        numhiddens normshape normalizedshape normalizedshapes dimmodel units channels nstate nx width din dout
        dimin dimout indim outdim inputdim outputdim ninp inputsize outputsize modeldimension keysize querysize
        valuesize ffnnuminput ffnnumoutputs ffninputsize dembed demb nfeatures featuresize dhidden hiddenunits
        embedwidth modelwidth attdim attndim attentiondim querydim contextdim kdim vdim ndim edim e c d
        embeddingdimension dimensionality inputfeatures infeatures outfeatures numembeddingdims sizemodel
        parametersshape dhid dwordvec wordvecdim wordvecsize demb
    """,
    "num_heads": """
        numheads nheads nhead nhd heads h head numattentionheads numhead headsnum nheadcount attentionheads
        numberofheads noheads attnheads numatthead hn numofheads headcount nattnheads numqueryheads nquery
    """,
    "d_k": """
        dk dv dq headdim dimhead headsize dhead dimkey dimvalue headwidth dkey dvalue dimperhead sizeperhead
        dimensionperhead dhidhead dval attentionheadsize headdimension headfeatures dimk dimv
    """,
    "d_ff": """
        dff ffdim ffndim ffnhidden ffnhiddensize ffnhiddendim dimfeedforward intermediatesize dimff ffhidden
        ffsize ffnnumhiddens dinner pfdim innerdim ffhiddendim feedforwarddim feedforwardsize ffnsize hiddenff
        hiddendim hiddensize hid dhidden
        dhid nhid hidden mlpdim mlphidden mlphiddendim dimmlp filtersize innersize inner ff ffw ffwsize ffinnerdim nff
        dfeedforward hiddendimff dimfeedfwd positionwisedim ffinner dmlp nhidden ffndimension feedforwardhidden
        dimhidden intermediate hiddenlayersize ffwdim hiddenfeatures middim
    """,
    "d_ff/d_model": """
        expansion forwardexpansion ffmult mult mlpratio expansionfactor ffnmult expansionratio ffratio ffexpansion
        mlpmult wideningfactor ffwexpansion feedforwardmultiplier
    """,
    "eps": "eps epsilon varianceepsilon layernormeps normeps layernormepsilon rmsnormeps e lneps",
    "dropout": """
        dropout dropoutp drop dropprob droprate p pdrop dropoutrate dropoutprob residdropout attndropout
        embddropout residpdrop attnpdrop embdpdrop attentiondropout attndrop residdrop projdrop hiddendropout
        hiddendropoutprob attentionprobsdropoutprob ffdropout ffndropout dropoutratio embdropout resdrop pdropout
        dropoutprobability activationdropout dropoutvalue reludropout residualdropout embeddropout dropoutembd
        keepdropout
    """,
    "vocab_size": """
        size vocabsize vocab nvocab ntoken ntokens numembeddings vocabularysize vsize nvocabulary numtokens v
        numclasses nclasses nvocabs vocablen lenvocab vocabdim sizevocab padvocabsize inputvocabsize dictsize
        nwords tokens voc vocsize vocabulary inputdim outputdim numvocab nsymbols outputsizevocab
    """,
    "src_vocab_size": """
        srcvocabsize srcvocab nsrcvocab sourcevocabsize encvocabsize srcvocablen inputvocab nsrcvocabulary
        encvocab sourcevocab inputvocabsize vocabsizesrc srcvocabularysize encodervocabsize vocabenc srctokens
        srcvoc nvocabsrc encvoc numencodertokens encvocsize srcvocsize encnumtokens srcnumtokens
    """,
    "tgt_vocab_size": """
        tgtvocabsize tgtvocab ntgtvocab targetvocabsize trgvocabsize trgvocab ntrgvocab decvocabsize targetvocab
        outputvocab outputvocabsize decvocab vocabsizetgt vocabsizetrg tgtvocabularysize decodervocabsize vocabdec
        tgttokens trgvoc tgtvoc nvocabtgt decvoc numdecodertokens decvocsize trgvocsize tgtvocsize decnumtokens
        tgtnumtokens
    """,
    "num_layers": """
        numlayers nlayers nlayer n layers numblocks depth nblocks nblock numhiddenlayers numblks numenclayers
        numdeclayers nenclayers ndeclayers numencoderlayers numdecoderlayers enclayers declayers encoderlayers
        decoderlayers nx stacks nstacks numlayer blocks nl numofblocks numberoflayers noflayers nblks layersnum
        numtransformerblocks encdepth decdepth
    """,
    "max_len": """
        maxlen maxlength maxseqlen maxseqlength seqlen seqlength blocksize contextlength contextsize contextlen
        ctxlen ctx nctx nctxs ctxsize maxctx nposition npositions maxpositionembeddings maxsequencelength
        srcseqlen tgtseqlen sequencelength maxposition maxpositions srcmaxlen tgtmaxlen numpositions maxtokens
        windowsize t context
        maxsentencelength maxlenseq maxsrclen maxtgtlen maxtimesteps maxpos srclen tgtlen targetlen sourcelen
        contextwindow maxcontext srcmaxlength trgmaxlength peinput petarget positions maxtrglen numsteps seqlenmax
        maxseq length srcmaxseqlen tgtmaxseqlen maximumpositionencoding maxcontextlength
    """,
    "src_pad": "srcpadidx srcpadid srcpad sourcepad srcpadindex srcpadtoken padidxsrc srcpaddingidx",
    "tgt_pad": """
        tgtpadidx trgpadidx tgtpadid tgtpad trgpad targetpad trgpadid tgtpadindex tgtpadtoken padidxtgt
        tgtpaddingidx
    """,
    "pad": """
        paddingidx padidx padid padtokenid pad padtoken padindex srcpadidx tgtpadidx trgpadidx ignoreindex
        srcpadid tgtpadid srcpadtoken padding tgtpad srcpad paddingindex ignoreidx padvalue
    """,
    "label_smoothing": "smoothing labelsmoothing eps epsilon ls smooth alpha epsls smoothingfactor",
    "warmup": "warmup warmupsteps nwarmupsteps numwarmupsteps warmupstep nwarmup warmsteps warm",
    "factor": "factor scale lrmul lrscale initlr lrfactor k multiplier",
    "step": "step stepnum steps currentstep nsteps t iteration globalstep stepno",
}

SCALES = {"temperature": False, "temp": False, "sqrtdk": False, "scale": True, "scaling": True, "scalefactor": True,
          "scalingfactor": True, "normfactor": False, "scaler": True}  # fmt: skip
"""Constructor arguments of an attention for √d_k, or where True more likely for 1/√d_k."""

FLAGS: dict[str, bool] = {
    "bias": True, "qkvbias": True, "usebias": True, "attnbias": True, "hasbias": True, "attentionbias": True,
    "biases": True, "outbias": True, "projbias": True,
    "batchfirst": True, "affine": True, "elementwiseaffine": True, "flash": False, "useflash": False,
    "useflashattention": False, "flashattention": False, "usecache": False, "kvcache": False, "debug": False,
    "verbose": False, "inplace": False, "returnattention": False, "returnattn": False, "tieweights": False,
    "weighttying": False, "shareweights": False, "shareembeddings": False, "sharedembeddings": False,
    "usepositionalencoding": True, "normalize": False, "outputattentions": False, "gradientcheckpointing": False,
}  # fmt: skip

INPUTS: dict[str, str] = {
    "query": "query queries q xq inputsq queryinput qin xquery querytensor qx inputq queryvectors",
    "key": "key keys k xk inputsk keyinput kin xkey keytensor kx inputk keyvectors",
    "value": "value values v xv inputsv valueinput vin xvalue valuetensor vx inputv val valuevectors",
    "memory": """
        memory encoderoutput encoutput encout encoderout encoderoutputs encoutputs encoderhiddenstates context enc
        m srcenc eoutputs encoded kv y cross crossinput encx encsrc encoderx encodings encoding encoderstates ctx
        mem encoderoutputtensor encoderhidden encoderstate crosskv eoutput encodedsrc srcencoded xenc xencoder
        encval encodermemory keyvalue contextx encodersequence encodero enchidden
    """,
    "ids": """
        ids x idx inputids tokens inputs input seq tokenids src tgt trg target inp inputseq sequence text
        inputtokens xids trginput tgtseq sent sentence srcseq batch
    """,
    "steps": "steps step stepnum t iteration globalstep stepno n it currentstep nsteps epoch i",
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
    "x": "x scores logits input inputs z a hiddenstates",
    "src": """
        src source srctokens srcids encinput encinputs encoderinput encoderinputs srcseq inputids encx inp inputs
        srcs input encoderinputids srcinput sourceids sourcetokens encoderx e srcsequence x xsrc s encseq
    """,
    "tgt": """
        tgt target trg tgttokens tgtids decinput decinputs decoderinput decoderinputs tgtseq trgseq decx tar
        decoderinputids tgtinput targetids output outputs decoderx tgts targets tgtsequence y xtgt t decseq
        targettokens trginput
    """,
    "target": "target targets y labels label tgt trg truth gold gt tgtout trues ytrue targetids tgty",
    "logits": "logits x pred preds predictions outputs output input inputs yhat scores logprobs ypred",
    "sublayer": """
        sublayer sublayerfn fn f func function sublayeroutput module layer block sublayerx sublayermodule net
    """,
}

SOURCE_MASK = re.compile(r"(src|source|enc|memory|mem|cross|^s|^e)_?.*mask|srcmask|encmask|encpad|memorymask")
TARGET_MASK = re.compile(
    r"(tgt|trg|tar|target|dec|self|look|causal|subseq|^t|^d|future|slf).*mask|causal|lookahead|subsequent"
)
CROSS_MASK = re.compile(r"(decenc|encdec|encoderdecoder|cross|memory).*mask")
"""Of these, what says `dec` is no mask of the target."""
ANY_MASK = re.compile(r"mask|^validlens?$|^encvalidlens?$|^decvalidlens?$|padding|^pad$")
KEY_PADDING = re.compile(r"pad|validlen|length|attentionmask$")


@functools.lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """embedDim, embed_dim, EMBED_DIM -> embeddim."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@functools.lru_cache(maxsize=1)
def _settings() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for setting, names in SETTINGS.items():
        for name in names.lower().split():
            table[name] = (*table.get(name, ()), setting)
    return table


def settings_of(name: str) -> tuple[str, ...]:
    """The settings that a parameter's name may mean, the likeliest first; () if the name says nothing."""
    found = _settings().get(plain(name), ())
    if not found and len(name) > 1:
        words = [word for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name) if word]
        for start in range(1, len(words)):  # encoder_embed_dim, config_n_layer: what follows a prefix counts
            found = found or _settings().get(plain("".join(words[start:])), ())
    return tuple(dict.fromkeys(found))


def is_setting(name: str) -> bool:
    """Whether the whole name, and not only its end, is one for a setting."""
    return plain(name) in _settings()


def is_mask(name: str) -> bool:
    """Whether a forward's parameter takes a mask."""
    """Whether a forward's parameter takes a mask."""
    if "pad" in settings_of(name)[:1]:
        return False
    return bool(ANY_MASK.search(plain(name))) or bool(TARGET_MASK.search(plain(name)))


def input_of(name: str, among: tuple[str, ...]) -> str | None:
    """The canonical input that a parameter's name means, of those that the kind has."""
    word = plain(name)
    for canonical in among:
        if word == plain(canonical) or word in INPUTS.get(canonical, "").split():
            return canonical
    return None


# ---- Weights ----

FILLERS = {
    "w", "weight", "weights", "bias", "b", "proj", "projection", "projections", "linear", "linears", "layer", "layers",
    "lin", "dense", "fc", "matrix", "mat", "to", "head", "heads", "net", "transform", "map", "c", "all", "mh", "mha",
    "multihead", "attn", "attention", "self", "embedding", "embed", "kernel", "mapping", "param", "fn", "ff", "mlp",
    "vectors", "vector", "inner", "block", "module", "model", "a", "for", "the", "of", "s", "params", "msa",
}  # fmt: skip
ROLES = {
    "q": {"q", "query", "queries", "qs", "wq", "querys", "qw", "qb", "bq"},
    "k": {"k", "key", "keys", "ks", "wk", "kw", "kb", "bk"},
    "v": {"v", "value", "values", "vs", "wv", "val", "vals", "vw", "vb", "bv"},
    "o": {
        "o", "out", "output", "outputs", "os", "wo", "concat", "concatenate", "combine", "unify", "unifyheads", "final",
        "merge", "mix", "outputproj", "bo", "ow", "resid", "collapse", "cat", "last", "post",
    },
    "qkv": {"qkv", "in", "kqv", "wqkv", "qvk", "vkq", "input", "packed", "inproj", "fused"},
    "kv": {"kv", "wkv"},
    "qk": {"qk", "wqk"},
}  # fmt: skip


def role_of(path: str) -> str | None:
    """The role of a weight of attention by its path: "q", "k", "v", "o", "qkv", "kv", "qk"; None if it says nothing.

    attn.heads.0.query.weight -> "q"; c_attn.weight -> "qkv"; out_proj.bias, fc.weight, c_proj.weight -> "o".
    """
    parts = [part for part in path.split(".") if not part.isdigit()]
    for part in reversed(parts):
        words = [word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])|\d+", part) if word]
        if not words or part.lower() in ("weight", "bias"):
            continue
        if "".join(words) in ("cattn", "attnproj", "qkvproj"):
            return "qkv" if "".join(words) != "attnproj" else "o"
        telling = [word for word in words if word not in FILLERS]
        for role, names in ROLES.items():
            if telling and (telling[0] in names or "".join(telling) in names):
                return role
        if not telling and set(words) & {"proj", "projection", "fc", "dense", "linear", "lin"}:
            return "o"
    return None
