"""What the parameters of constructors mean: tutorials have ten names for every setting. A new name goes in here."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from scratch_transformer.kit.resolve.names.words import plain, words

# Names in lower case without underscores, whatever their style.
SETTINGS: dict[str, str] = {
    "d_model": """
        dmodel embeddim embeddingdim embedsize embdim embsize emb embeddingsize embeddings embed features
        numfeatures hiddensize hiddendim hidden hid hiddim nembd nembed dim dims size modeldim modelsize
        numhiddens normshape normalizedshape normalizedshapes dimmodel units channels nstate nx width din dout
        dimin dimout indim outdim inputdim outputdim ninp inputsize outputsize modeldimension keysize querysize
        dimension dimensions inputdimension
        valuesize ffnnuminput ffnnumoutputs ffninputsize dembed demb nfeatures featuresize dhidden hiddenunits
        embedwidth modelwidth attdim attndim attentiondim querydim contextdim kdim vdim ndim edim e c d
        embeddingdimension dimensionality inputfeatures infeatures outfeatures numembeddingdims sizemodel inputsnum
        parametersshape parametershape layershape featureshape featuresshape dhid dwordvec wordvecdim wordvecsize demb
        nembeds numembeds numembed nembds numembd embdims nin qinputdim kvinputdim kinputdim vinputdim hdim
        srcdim tgtdim trgdim
    """,
    "d_out": """
        outfeatures outputfeatures dout outputdim outdim outputsize nout fanout out outputdimension outdims unitsnum
    """,
    "num_heads": """
        numheads nheads nhead nhd nh heads h head numattentionheads numhead headsnum nheadcount attentionheads
        numberofheads noheads attnheads numatthead hn numofheads headcount nattnheads numqueryheads nquery
    """,
    "d_k": """
        dk dv dq dkq dqk dh headdim dimhead headsize dhead dimkey dimvalue headwidth dkey dvalue dimperhead sizeperhead
        dimensionperhead dhidhead dval attentionheadsize headdimension headfeatures dimk dimv
    """,
    "num_kv_heads": """
        nkvheads numkvheads nkvhead numkeyvalueheads kvheads nkv numkv nheadkv nheadskv numheadskv kvhead hkv
        numkvgroups nkvgroups numgroups ngroups kvgroups nkeyvalueheads kh
        numheadkv
    """,
    "num_heads/num_kv_heads": """
        nrep numrep kvrep nrepkv numreps queriesperkv numqueriesperkv queriespergroup kvheadrep nkvheadrep nkvheadsrep
        kvheadsrep kvrepeats nkvrepeats numkvrepeats
    """,
    "rope_base": """
        theta ropetheta base ropebase rotarybase thetabase freqbase thetaropebase rotarytheta ropefreqbase
        rotaryembbase basetheta frequencybase
    """,
    "d_ff": """
        dff ffdim ffndim ffnhidden ffnhiddensize ffnhiddendim dimfeedforward intermediatesize dimff ffhidden
        ffsize ffnnumhiddens dinner pfdim innerdim ffhiddendim feedforwarddim feedforwardsize ffnsize hiddenff
        hiddendim hiddensize hid dhidden hdim
        dhid nhid hidden mlpdim mlphidden mlphiddendim dimmlp filtersize innersize inner ff ffw ffwsize ffinnerdim nff
        dh dfeedforward hiddendimff dimfeedfwd positionwisedim ffinner dmlp nhidden ffndimension feedforwardhidden
        dimhidden intermediate hiddenlayersize ffwdim hiddenfeatures middim fsize
    """,
    "d_ff/d_model": """
        expansion forwardexpansion ffmult mult mlpratio expansionfactor ffnmult expansionratio ffratio ffexpansion
        mlpmult wideningfactor ffwexpansion feedforwardmultiplier multiplier multiple
    """,
    "eps": "eps epsilon varianceepsilon layernormeps normeps layernormepsilon rmsnormeps e lneps",
    "dropout": """
        dropout dropoutp drop dropprob droprate p pdrop dropoutrate dropoutprob residdropout attndropout
        embddropout residpdrop attnpdrop embdpdrop attentiondropout attndrop residdrop projdrop hiddendropout
        hiddendropoutprob attentionprobsdropoutprob ffdropout ffndropout dropoutratio embdropout resdrop pdropout
        dropoutprobability activationdropout dropoutvalue reludropout residualdropout embeddropout dropoutembd drate
        keepdropout
    """,
    "vocab_size": """
        size vocabsize vocab nvocab ntoken ntokens numembeddings vocabularysize vsize nvocabulary numtokens v
        numclasses nclasses nvocabs vocablen lenvocab vocabdim sizevocab padvocabsize inputvocabsize dictsize
        nwords tokens voc vocsize vocabulary inputdim outputdim inputsize outputsize numvocab nsymbols outputsizevocab
        srcdim tgtdim trgdim
        noutput noutputs numoutput numoutputs nout outdim outputfeatures dout dimout outputdimension
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
        numlayers nlayers nlayer n l layers numblocks depth nblocks nblock numhiddenlayers numblks numenclayers
        numdeclayers nenclayers ndeclayers numencoderlayers numdecoderlayers enclayers declayers encoderlayers
        decoderlayers nx stacks nstacks numlayer blocks nl numofblocks numberoflayers noflayers nblks layersnum
        numtransformerblocks encdepth decdepth nencoders ndecoders numencoders numdecoders nencoder ndecoder numencoder
        numdecoder nenc ndec numenc numdec
    """,
    "max_len": """
        maxlen maxlength maxseqlen maxseqlength seqlen seqlength blocksize contextlength contextsize contextlen
        ctxlen ctx nctx nctxs ctxsize maxctx nposition npositions maxpositionembeddings maxsequencelength
        srcseqlen tgtseqlen sequencelength maxposition maxpositions srcmaxlen tgtmaxlen numpositions maxtokens
        windowsize window slidingwindow windowlength attentionwindow localwindow t context
        maxsentencelength maxlenseq maxsrclen maxtgtlen maxtimesteps maxpos srclen tgtlen targetlen sourcelen
        contextwindow maxcontext srcmaxlength trgmaxlength peinput petarget positions maxtrglen numsteps seqlenmax
        maxseq tmax maxt length srcmaxseqlen tgtmaxseqlen maximumpositionencoding maxcontextlength
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
    "warmup": """
        warmup warmupsteps nwarmupsteps numwarmupsteps warmupstep nwarmup warmsteps warm
        warmupiters tw twarmup warmupiterations warmupit tup
    """,
    "max_lr": """
        maxlearningrate maxlr lrmax alphamax peaklr peaklearningrate learningrate lr baselr initiallr amax maxalpha
        learningratemax etamax peak highest lrpeak maxrate peakrate lrhigh top high hi
    """,
    "min_lr": """
        minlearningrate minlr lrmin alphamin etamin amin minalpha learningratemin finallr endlr floor lrfloor lowest
        minrate lrlow lrend low lo bottom end
    """,
    "total": """
        cosinecycleiters totalsteps maxiters lrdecayiters maxsteps numtrainingsteps totaliters cosinesteps tc
        cosineiters numiterations annealingiters numsteps decaysteps lrdecaysteps cosinecycle maxit cosineannealingiters
        cosinecyclesteps totaliterations tcosine tmax total totalupdates maxiterations cosineannealingsteps
        iterations iters niterations t0 firstcyclesteps totalepochs maxepochs numepochs
    """,
    "factor": "factor scale lrmul lrscale initlr lrfactor k multiplier",
    "step": "step stepnum steps currentstep nsteps t iteration globalstep stepno",
}

FRACTIONS = ("dropout", "eps", "label_smoothing", "factor", "d_ff/d_model", "rope_base", "max_lr", "min_lr")
"""Settings that need not be whole numbers."""
SHARING = re.compile(r"shar(e|ed|ing)|^tie|tied|tying")
"""Of weights: vocabularies of two sizes cannot share theirs."""
FLAG = re.compile(r"^(return|output|log|use|using|need|with|is|has|save|store|verbose|share|tie)(?!put)")
"""How the names of parameters begin that are True or False."""
SWITCH = re.compile(
    r"(use|using|uses|no|is|has|with|enable|disable|do|apply|add|need|tie|tied|share|learn|learnable|learned)(_|(?=[A-Z]))"
)
"""The same of names with words apart."""
SCALES_BY = re.compile(r"(is|use|do|with)?(scaled?|scaling)(scores|attn|attention)?")
"""Whether scores are divided by √d_k: a flag without which a part is another one than its model has."""
CROSSING = re.compile(
    r"(?i)(?<![a-z])(cross|enc(oder)?_dec(oder)?)_?att(entio)?n|^(use|has|with|add)_cross$|^(is_?)?decoder$"
)
"""Whether a layer attends to an encoder's output, which it need not: use_cross_attention=False, is_decoder=False."""
OUT = ("dout", "dimout", "outdim", "outputdim", "outfeatures")
ROTARY_BASE = re.compile(r"^base$|theta|ropebase|^(max)?wavelength$")

PROCESSES = re.compile(r"world_?size|(tensor|model|pipeline)_?parallel_?size|[tmp]p_?size", re.IGNORECASE)
"""How many processes a model is cut for: one here."""

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
    "unbiased": False,
}  # fmt: skip


COUNT = {"n", "num", "number", "no", "nb", "nr", "count", "total", "amount"}
SIZE = {"dim", "dims", "dimension", "dimensions", "size", "width", "d", "units", "unit", "features", "channels"}
LENGTH = {"len", "length", "size", "max", "maximum", "window"}
SOURCE, TARGET = {"src", "source", "enc", "encoder"}, {"tgt", "trg", "target", "dec", "decoder"}
FEED_FORWARD = {"ff", "ffn", "ffw", "mlp", "pf", "inner", "intermediate", "feed", "feedforward"}
RATIO = {"mult", "multiple", "multiplier", "ratio", "expansion", "factor"}
PLACES = {"seq", "sequence", "context", "ctx", "position", "positions", "pos", "sentence", "timesteps", "block"}
VECTORS = {"model", "embed", "embedding", "embeddings", "embd", "emb", "hidden", "hid", "feature", "features", "token",
           "word", "vector", "state", "residual"}  # fmt: skip

# The words that a name must have, some of each set, and those that it must not have -> settings. The first that fits.
RULES: tuple[tuple[tuple[set[str], ...], set[str], tuple[str, ...]], ...] = (
    (({"drop", "dropout", "dropouts", "droprate"},), {"path"}, ("dropout",)),
    (({"smoothing"},), set(), ("label_smoothing",)),
    (({"eps", "epsilon"},), set(), ("eps",)),
    (({"warmup"},), {"ratio", "lr"}, ("warmup",)),
    (({"batch"}, {"size", "max", "maximum"}), {"norm", "first"}, ("batch",)),
    (({"pad", "padding"}, {"id", "idx", "ind", "index", "token", "value", "symbol"}), set(), ("pad",)),
    (({"pad", "padding"}, {"vocab", "vocabulary"}), SIZE | LENGTH | COUNT | {"multiple", "to"}, ("pad",)),
    (({"kv"}, {"head", "heads", "group", "groups"}), SIZE, ("num_kv_heads",)),
    (({"key", "value"}, {"head", "heads"}), SIZE, ("num_kv_heads",)),
    (({"query"}, {"group", "groups"}), SIZE, ("num_kv_heads",)),
    (({"head", "heads"}, SIZE), COUNT - {"n"}, ("d_k",)),
    (({"head", "heads"},), {"layer", "layers", "lm", "bias", "init"}, ("num_heads",)),
    (({"key", "keys", "value", "values", "query", "queries", "qk", "kv"}, SIZE), set(), ("d_k", "d_model")),
    (({"q", "k", "v"}, SIZE), COUNT | {"max"}, ("d_k",)),
    (({"attention", "attn"}, {"dim", "d", "size", "width"}), {"head", "heads"}, ("d_model", "d_k")),
    (({"vocab", "vocabulary"},), {"path", "file"}, ("vocab_size",)),
    (({"token", "tokens", "word", "words", "embedding", "embeddings", "class", "classes"}, COUNT), SIZE - {"size"},
     ("vocab_size",)),
    (({"softmax", "logit", "logits", "class", "classes", "label", "labels"}, SIZE), {"embedding"}, ("vocab_size",)),
    ((FEED_FORWARD, RATIO), set(), ("d_ff/d_model",)),
    ((RATIO, {"hidden", "forward", "dim", "expansion", "expand"}), {"scale", "bias", "of"}, ("d_ff/d_model",)),
    ((FEED_FORWARD, SIZE | {"hidden", "hid"}), {"activation"}, ("d_ff",)),
    (({"layer", "layers", "block", "blocks", "stack", "stacks", "modules"}, COUNT), {"norm", *SIZE}, ("num_layers",)),
    ((PLACES, LENGTH | COUNT), {"batch", "type"}, ("max_len",)),
    (({"max", "maximum"}, {"len", "length", "tokens", "seq"}), {"batch"}, ("max_len",)),
    ((VECTORS, SIZE), {"batch"}, ("d_model",)),
    (({"cos", "cosine", "anneal", "annealing"}, {"step", "steps", "iter", "iters", "iterations", "it", "cycle", "end"}),
     {"warmup"}, ("total",)),
    (({"train", "training", "total", "last"}, {"step", "steps", "iter", "iters", "iterations", "updates"}),
     {"warmup", "batch", "log", "save", "eval", "accumulation"}, ("total",)),
    (({"lr"}, {"min", "minimum", "final", "end"}), set(), ("min_lr",)),
    (({"lr"}, {"max", "maximum", "peak", "base"}), set(), ("max_lr",)),
    (({"learning"}, {"rate"}, {"min", "minimum", "final", "end"}), set(), ("min_lr",)),
    (({"learning"}, {"rate"}, {"max", "maximum", "peak", "base"}), set(), ("max_lr",)),
)  # fmt: skip
"""For names that no list has: words in any order."""


def side_of(said: set[str]) -> str:
    """The prefix of settings that source and target have each, by the words of a name; "" of both."""
    return "src_" if said & SOURCE else "tgt_" if said & TARGET else ""


def _by_words(name: str) -> tuple[str, ...]:
    found = set(words(name))
    for wanted, unwanted, settings in RULES:
        if all(found & some for some in wanted) and not found & unwanted:
            side = side_of(found)
            return tuple(f"{side}{setting}" if setting in ("vocab_size", "pad") else setting for setting in settings)
    return ()


@functools.lru_cache(maxsize=1)
def _settings() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for setting, names in SETTINGS.items():
        for name in names.lower().split():
            table[name] = (*table.get(name, ()), setting)
    return table


@functools.lru_cache(maxsize=4096)
def settings_of(name: str) -> tuple[str, ...]:
    """The settings that a parameter's name may mean, the likeliest first; () if the name says nothing."""
    if PROCESSES.fullmatch(name):
        return ()
    found = _settings().get(plain(name), ()) or _by_words(name)
    if not found and len(name) > 1:
        parts = [part for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name) if part]
        for start in range(1, len(parts)):  # encoder_embed_dim, config_n_layer: what follows a prefix counts
            rest = plain("".join(parts[start:]))
            if parts[start - 1].lower().startswith(("position", "pointwise")) and rest in FEED_FORWARD:
                break  # the network, and not its width
            found = found or (_settings().get(rest, ()) if len(rest) > 1 else ())
    return tuple(dict.fromkeys(found))


def settings_beside(name: str, others: Iterable[str]) -> tuple[str, ...]:
    """The same beside others: v_size is the width of values where q_size is told too, and else of a vocabulary;
    n_kv_groups, beside n_kv_heads, how many queries' heads share one of those.
    """
    found = settings_of(name)
    if plain(name) == "vsize" and any(settings_of(other)[:1] == ("d_k",) for other in others):
        return ("d_k",)
    shared = [other for other in others if settings_of(other) == ("num_kv_heads",)] if "group" in plain(name) else ()
    is_share = found == ("num_kv_heads",) and any("group" not in plain(other) for other in shared)
    return ("num_heads/num_kv_heads",) if is_share else found


def is_called_head(name: str) -> bool:
    """Whether a class is called one head: what it is told as n_head is how wide it is."""
    return re.fullmatch(r"(?i)(?!.*(multi|lm|class)).*head", name) is not None


EITHER = {"dh"}
"""Names of a width that number heads, where the width of the model is divided by them."""


def is_setting(name: str) -> bool:
    """Whether the whole name, and not only its end, is one for a setting."""
    return plain(name) in _settings() or bool(_by_words(name))
