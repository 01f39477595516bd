"""What the parameters of constructors mean: tutorials have ten names for every setting. A new name goes in here."""

from __future__ import annotations

import functools
import re

from scratch_transformer.kit.resolve.names.words import plain

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
