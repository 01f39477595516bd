"""What has the name of a part of a Transformer and is none: recurrent, convolutional, abstract, not written yet."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from scratch_transformer.kit.arrays.engines import engine_of
from scratch_transformer.kit.arrays.libraries import own_tensors
from scratch_transformer.kit.definitions import (
    as_written,
    is_module_class,
    is_of_torch,
    is_own,
    leads_to,
    meant_by,
    names_in,
    namespace_of,
    tree_of,
)
from scratch_transformer.kit.discover.placeholders import Missing
from scratch_transformer.kit.judge.stops import attributes, no_forward
from scratch_transformer.kit.kind import NETWORKS
from scratch_transformer.kit.resolve import structure
from scratch_transformer.kit.resolve.build.config import is_config
from scratch_transformer.kit.resolve.names.settings import settings_of
from scratch_transformer.kit.resolve.not_there import NOT_INSTALLED, NOT_LOADED
from scratch_transformer.kit.resolve.other_designs import SAID
from scratch_transformer.kit.resolve.standardized import STANDARDIZES, standardizes
from scratch_transformer.kit.syntax import Function, last_name, nodes_in

A_TEST = "a test"
RECURRENT = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "RNNBase")
CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "conv1d", "conv2d")
IMAGE = re.compile(
    r"\(?(\w+, \w+, )?(h|height), (w|width)\)? = (?(1)\w+\.(shape|size\(\))|[\w.]+\.(shape|size\(\))\[-2:\])$",
    re.IGNORECASE,
)
UNFOLDED = re.compile(r"\bunfold\b")
"""Twice in one expression: along the height and along the width."""
OF_PLANES = re.compile(r"^(Adaptive)?(Max|Avg)Pool2d$|^BatchNorm2d$")
PRODUCT = re.compile(r"^(\w+\.)?(bmm|matmul)\(|\.(bmm|matmul)\([^()]*(\([^()]*\)[^()]*)*\)$")
PIXELS = ("784", "28 * 28", "1 * 28 * 28", "3072", "3 * 32 * 32", "32 * 32 * 3")
"""Of the data sets that first networks are trained on."""
WIDTHS = re.compile(r"^(hidden|layer)_?(sizes|dims|units|widths|features)$")
"""Of the layers of a network, however many."""
CALLED = ("forward", "__call__", "encode", "decode")
MOST_DEEP = 3
NOT_WRITTEN = "not written yet"
BREAKS_OFF = "its file breaks off behind its constructor"
NOT_ALONE = "a piece of a loop: it is given {}"
GIVES_BACK = "it gives back its {} as it is"
TAKEN = "an import of the same name has taken its place"
CHOOSES = "it chooses between {}"
NO_VALUES = "it gives the weights of attention, and weighs nothing by them"
GIVEN_PARTS = "a piece: it is given {}, and is judged in what gives it that"
POOLED = "it does not return a vector for every word: a classifier, perhaps"
LISTS = "it takes lists of tensors: {}"
OF_ITS_MODEL = "it asks its model for more than the kit's own gives, which takes the place of a trained one"
ONE_WORD = "it gives one word, the next: what writes text calls it"
HANDS_ON = "it leaves the decoding to {}"
OF_WORDS = "it is given words, not their ids, and looks them up itself"
WEIGHTLESS = "it has no weights: an activation"
READS = "it reads "
"""What is not there, as its file makes it in lines that were not run."""
RETURNS_NOTHING = "it returns nothing"
OWN_TENSORS = "of a tensor class of its own, in place of PyTorch's tensors or NumPy's arrays"
ACTIVATED = "it is a linear layer with more around it"
HALF = "half of a feed-forward network: judged in what has both halves"
NOTHING = (
    NOT_WRITTEN,
    NOT_LOADED,
    NO_VALUES,
    OF_WORDS,
    POOLED,
    WEIGHTLESS,
    ACTIVATED,
    HALF,
    RETURNS_NOTHING,
    OF_ITS_MODEL,
    ONE_WORD,
    READS,
    SAID.partition("{")[0],
    CHOOSES.partition("{")[0],
    *(said.partition("{")[0] for said in (NOT_ALONE, NOT_INSTALLED, HANDS_ON, GIVEN_PARTS, LISTS, STANDARDIZES)),
)
"""How the reasons begin for which there is nothing to judge."""


def why_not(thing: Any) -> str:
    """Why a class or function is no part of a Transformer, in a few words; "" if nothing speaks against it."""
    return _why(thing, 0) if isinstance(thing, type) or inspect.isfunction(thing) else ""


def keeps_a_state(thing: Any) -> str:
    """That a class of modules is recurrent, or made of what is: given one word, it knows of those before; else ""."""
    why = why_not(thing) if is_module_class(thing) else ""
    return why if "recurrent" in why else ""


def tests(thing: Any) -> bool:
    """Whether a class has tests, as unittest or pytest finds them: it may write text, or train, with a model."""
    is_class = isinstance(thing, type) and not issubclass(thing, nn.Module)
    bases = [base.__name__ for base in thing.__mro__[1:]] if is_class else []
    is_found = is_class and thing.__name__.startswith("Test") and any(name.startswith("test_") for name in vars(thing))
    return is_found or "TestCase" in bases


def of_own_tensors(thing: Any) -> str:
    """That a function, or a class with a forward and no module, computes with a tensor class of the learner's that does
    not keep arrays; "" of any other."""
    if isinstance(thing, type):
        is_one = any(inspect.isfunction(getattr(thing, name, None)) for name in CALLED)
        is_one = is_one and not issubclass(thing, nn.Module)
    else:
        is_one = inspect.isfunction(thing)
    return OWN_TENSORS if is_one and own_tensors(thing) and engine_of(thing) is None else ""


WHOLES = ("Encoder", "Decoder", "TokenEncoder", "TokenDecoder", "Transformer", "DecoderOnly", "LlamaModel")
WRITING = ("GreedyDecoding", "BeamSearch", "Sampling")
ATTENDS = re.compile(
    r"(?<!fl)att|softmax|mha|mhsa|query|queries|qkv|einsum|bmm|transformer|gpt|bert|llama|mask|heads", re.IGNORECASE
)
SCORES = re.compile(
    r"(?<!fl)att|softmax|mha|mhsa|quer|qkv|einsum|bmm|matmul|^transformer((en|de)coder(layer)?)?$", re.IGNORECASE
)
WEIGHS = re.compile(
    r"(?<!fl)att|softmax|^exp|mha|einsum|bmm|matmul|^mm$|scores|weights|transformer|sigmoid", re.IGNORECASE
)
LAYERS = re.compile(rf"{ATTENDS.pattern}|block|encoder|decoder", re.IGNORECASE)
NUMBERS = re.compile(r"num|^[nd]_|labels|classes|dim|size|drop|prob|len", re.IGNORECASE)
TABLE = re.compile(r"embed\w*_(matrix|weights?|table)$|pretrained|word_?vec", re.IGNORECASE)
"""What is given of words alone."""
INNER = re.compile("inner|model|module|net|fn|base|backbone")
GIVEN = re.compile(r"encoder|decoder|layer|block|model|module|attn|attention|stack|net", re.IGNORECASE)


NO_ATTENTION = "it attends to nothing"


def attends_to_nothing(thing: Any, kind: str) -> str:
    """That a whole, TransformerClassifierHead, BigramModel, has no attention anywhere; "" if it may have some.

    Nor has what only projects for one, PrepareForMultiHeadAttention. What it is given, or inherits from a class that
    is not known, may have any.
    """
    is_part = kind.endswith(("Attention", "Layer", "Block"))
    if not (kind in WHOLES or is_part) or not is_module_class(thing):
        return ""
    made = [thing, *leads_to(thing)]
    names = [name for name in _parameters(thing) if not name.startswith(("n_", "num_"))]
    is_open = any(map(INNER.fullmatch, names)) or any(GIVEN.search(name) and not settings_of(name) for name in names)
    is_open = is_open or any(
        p.default is p.empty and not (_is_number(p) or TABLE.search(p.name)) for p in as_written(thing)
    )
    is_strange = any(tree_of(one) is None or not _has_known_bases(one) or _takes_from_files(one) for one in made)
    is_head = structure.linears(thing) == 1 and len(made) == 1  # it may be given a mask, to average over words
    words = WEIGHS if is_part else SCORES if is_head else ATTENDS
    found = {name for one in made for name in _computing(one) if words.search(name)}
    found -= {"einsum"} if all(map(_multiplies_with_weights, made)) else set()
    is_sum = any(map(_weighs, made))
    attends = any(is_sum or name.lower() != "softmax" for name in found)
    attends = attends or any(LAYERS.search(getattr(one, "__name__", "")) for one in made[1:])
    return "" if is_open or is_strange or attends else NO_ATTENTION


def embeds_words(thing: Any, kind: str) -> str:
    """That a network, MLP(vocab_size, …), is told a vocabulary and looks words up: no part of a layer; else ""."""
    if kind not in NETWORKS or not isinstance(thing, type):
        return ""
    is_told = any(settings_of(name)[:1] == ("vocab_size",) and "voc" in name.lower() for name in _parameters(thing))
    names = {name.lower() for name in names_in(thing)}
    tree = tree_of(getattr(thing, "forward", None) or vars(thing).get("__call__"))
    given = {one.arg for one in nodes_in(tree, ast.arg)} if isinstance(tree, Function) else set()
    nodes = ast.walk(tree) if tree is not None else ()
    looked_up = [ast.unparse(node.slice) for node in nodes if isinstance(node, ast.Subscript)]
    looks_up = bool(names & {"embedding", "one_hot"} or given & {*looked_up})
    return "it embeds words: a language model of another sort" if is_told and looks_up else ""


def writes_alone(thing: Any, kind: str) -> str:
    """That a function is told how much to write and no more, generate(length=100): its file's model does it; or ""."""
    is_one = kind in WRITING and inspect.isfunction(thing)
    taken = as_written(thing) if is_one else []
    told = [type(p.default) in (int, float) or (_is_number(p) and not DRAWN_BY.search(p.name)) for p in taken]
    return "it is given no model and no words" if told and all(told) else ""


DRAWN_BY = re.compile(r"prob|logit|score")
"""What words are drawn by, and no number: lnprobs."""


def loads_its_model(thing: Any, kind: str) -> str:
    """That a function which writes text loads another library's model for that: AutoModel.from_pretrained(name); or "".

    One that a class of the learner's loads is the learner's own.
    """
    if kind not in WRITING or not inspect.isfunction(thing):
        return ""
    calls = [node.func for node in nodes_in(tree_of(thing), ast.Call) if last_name(node.func) == "from_pretrained"]
    loaders = [ast.unparse(func.value) for func in calls if isinstance(func, ast.Attribute)]
    found = {name: meant_by(name, namespace_of(thing)) for name in loaders if MODEL.search(name)}
    others = [name for name, cls in found.items() if not (isinstance(cls, type) and is_own(cls))]
    return f"it writes with another library's model: {others[0]}" if others else ""


MODEL = re.compile(r"Model|LMHead|For[A-Z]\w+$")


WRITES = re.compile(r"generat|sampl|predict|translat|loss|train|beam|greedy", re.IGNORECASE)


def _computing(thing: Any) -> Iterator[str]:
    """The names in what computes its output; writing text draws from a softmax too."""
    members = vars(thing).items() if isinstance(thing, type) else [("", thing)]
    for name, member in members:
        if inspect.isfunction(member) and not WRITES.search(name):
            yield from names_in(member)


def _multiplies_with_weights(thing: Any) -> bool:
    """Whether each einsum in its code is of something and one of its own weights: einsum(x, self.maps, "…")."""
    calls = [node for node in nodes_in(tree_of(thing), ast.Call) if last_name(node.func) == "einsum"]
    given = [[ast.unparse(arg) for arg in call.args if isinstance(arg, ast.Attribute)] for call in calls]
    return all(any(text.startswith("self.") for text in texts) for texts in given)


SUMMED = re.compile(r"matmul|^mm$|dot|sum|mean|cat$|stack|pool")


def _weighs(thing: Any) -> bool:
    """Whether anything in its code may be a sum over tokens, for which a softmax gives weights; True if unknown."""
    tree = tree_of(thing)
    nodes = list(ast.walk(tree)) if tree is not None else []
    is_product = any(isinstance(getattr(node, "op", None), ast.MatMult) for node in nodes)
    return is_product or not nodes or any(SUMMED.search(name) for name in names_in(thing))


PARTS = (nn.Module, nn.ModuleList, nn.Sequential, list, "nn.Module", "nn.ModuleList", "nn.Sequential", "list")
"""Annotations of what is given ready made: layers: nn.ModuleList."""


def _is_number(parameter: inspect.Parameter) -> bool:
    if parameter.annotation in PARTS:
        return False
    is_named = bool(settings_of(parameter.name) or NUMBERS.search(parameter.name)) or is_config(parameter)
    return is_named or parameter.annotation in (int, float, "int", "float")


def _takes_from_files(thing: Any) -> bool:
    """Whether it takes something out of a module of the learner's: layers.EncoderLayer(…)."""
    values = (namespace_of(thing).get(name) for name in names_in(thing))
    modules = [value.__name__ for value in values if isinstance(value, types.ModuleType)]
    return any(name.partition(".")[0] not in ("torch", "math", "numpy", "copy", "typing") for name in modules)


def _has_known_bases(thing: Any) -> bool:
    bases = [base for base in getattr(thing, "__mro__", ()) if base is not object and base is not thing]
    return all(is_of_torch(base) or tree_of(base) is not None for base in bases)


@functools.lru_cache(maxsize=1024)
def _why(thing: Any, depth: int) -> str:
    tree = tree_of(thing)
    if tree is None:
        return ""
    if isinstance(tree, Function):
        return _of_function(tree) or _of_maker(tree, thing) or of_own_tensors(thing)
    if is_module_class(thing):
        inherited = (type_ for type_ in thing.__mro__ if type_ is not nn.Module)
        if not any(name in vars(base) for base in inherited for name in CALLED):
            own = BREAKS_OFF if no_forward.breaks_off(thing) else _without_forward(tree)
            return "" if no_forward.lost(thing)[0] else own
        forward = tree_of(vars(thing).get("forward"))  # of a class that is defined twice, Python shows the first
        if isinstance(forward, Function) and (_is_unwritten(forward) or _stands_for_a_part(thing.__name__, forward)):
            return NOT_WRITTEN
        if left := attributes.left_to_heirs(thing):
            return f"abstract: what inherits from it has the {left} that it calls"
        if isinstance(forward, Function) and (given := _given_back(forward)):
            return GIVES_BACK.format(given[0])
        is_told = any("num_layers" in settings_of(name) or WIDTHS.search(name) for name in _parameters(thing))
        widths = (p.name for p in as_written(thing) if p.kind is p.VAR_POSITIONAL and p.name != "args")
        if "MLP" in thing.__name__ and (is_told or any(widths)):  # MLP(*dims)
            return "a network of any number of layers"
    elif isinstance(thing, type) and any("neuron" in getattr(one, "__name__", "").lower() for one in leads_to(thing)):
        return "made of single neurons"
    own = _of_absent_base(thing, tree) or _of_class(tree) or _of_one_state(tree)
    return own or (_made_of(thing, tree, depth) if depth < MOST_DEEP else "")


def _without_forward(tree: Any) -> str:
    """Of a class of methods that are called by their names, or of one for others to inherit."""
    methods = [node for node in tree.body if isinstance(node, Function) and not node.name.startswith("_")]
    is_base = any(isinstance(node, ast.Call) and ast.unparse(node.func) == "self" for node in ast.walk(tree))
    given = [node.name for node in methods if len(node.args.args) > 1 and not _is_unwritten(node)]
    if is_base or not given:
        return "abstract: it has no forward"
    return f"it has no forward: it is used by its {' and its '.join(given)}"


def _of_function(tree: Any) -> str:
    first = [*tree.args.posonlyargs, *tree.args.args][:1]
    if first and first[0].arg == "self":
        return "a method, outside its class"
    if tree.name.startswith(("test_", "benchmark_", "bench_", "profile_")):
        return A_TEST
    given = tree.args
    if not (given.posonlyargs or given.args or given.kwonlyargs or given.vararg or given.kwarg):
        return "it takes nothing"
    if _is_unwritten(tree):
        return NOT_WRITTEN
    returned = [node.value for node in _own(tree) if isinstance(node, ast.Return) and node.value is not None]
    if not returned and not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _own(tree)):
        return RETURNS_NOTHING
    calls = [value.func for value in returned if isinstance(value, ast.Call)]
    called = [getattr(call, "id", getattr(call, "attr", "")) for call in calls]
    if returned and len(called) == len(returned) and all(name.lower().endswith(("config", "args")) for name in called):
        return "it makes a configuration"
    if OF_STATES.search(tree.name) and returned and all(ONE_FEATURE.search(ast.unparse(value)) for value in returned):
        return "it makes a mask of states: their padding is set to 0, and no scores are hidden"
    return standardizes(tree)


OF_STATES = re.compile("non_?pad", re.I)
ONE_FEATURE = re.compile(r"unsqueeze\((dim=)?(-1|2)\)|\[(:, :|\.\.\.), None\]")


def _of_maker(tree: Any, thing: Any) -> str:
    """What makes a module and is told nothing of its sizes: build_transformer(share_embeddings=True).

    Or what makes anything, of a class that it is given: build(model_class, **sizes). Or one of several: norm(config).
    """
    own = [node for node in _own(tree) if isinstance(node, ast.Assign)]
    made = {ast.unparse(target): node.value for node in own for target in node.targets}
    returned = [node.value for node in _own(tree) if isinstance(node, ast.Return) and node.value is not None]
    values = [made.get(ast.unparse(value), value) for value in returned]
    names = {parameter.name for parameter in as_written(thing)}
    if values and all(isinstance(v, ast.Call) and _is_of_what_is_given(v, tree, names) for v in values):
        return "it makes what it is given the class of"
    ends = [end for value in values for end in _ends(value)]
    classes = [meant_by(ast.unparse(v.func), namespace_of(thing)) if isinstance(v, ast.Call) else None for v in ends]
    is_maker = all(is_module_class(cls) for cls in classes)
    if is_maker and len(set(classes)) > 1:
        return CHOOSES.format(" and ".join(dict.fromkeys(cls.__name__ for cls in classes if cls is not None)))
    if not all(map(_tells_no_size, as_written(thing))):
        return ""
    return "it makes a model of sizes that are written in" if classes and is_maker else ""


def _ends(value: ast.expr) -> list[ast.expr]:
    """What an expression may come to: A() if flag else B()."""
    return [*_ends(value.body), *_ends(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _is_of_what_is_given(call: ast.Call, tree: Any, names: set[str]) -> bool:
    """Whether a parameter is called with nothing but all that is left over: model_class(**sizes)."""
    rest = tree.args.kwarg.arg if tree.args.kwarg else ""
    given = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None]
    return ast.unparse(call.func) in names and not call.args and given == [rest]


def _tells_no_size(parameter: inspect.Parameter) -> bool:
    """A flag, a device, a path: nothing of a size, and no tensor."""
    is_flag = isinstance(parameter.default, (bool, str, type(None))) or parameter.name in ("device", "path")
    is_known = settings_of(parameter.name) or re.search(r"config|cfg|arg|param", parameter.name)
    return is_flag and (isinstance(parameter.default, bool) or not is_known)


def _of_absent_base(thing: Any, tree: ast.AST) -> str:
    """That what it inherits from is of a package that is not installed, as of JAX's: nobody can run it."""
    known = namespace_of(thing)
    for base in getattr(tree, "bases", ()):
        value = meant_by(ast.unparse(base), known)
        if isinstance(value, Missing) and not value.why:
            return NOT_INSTALLED.format(value.package)
    return ""


def _of_class(tree: ast.AST) -> str:
    methods = {node.name for node in ast.walk(tree) if isinstance(node, Function)}
    called = ("__init__", "forward")
    if methods >= {"encode", "decode"}:  # a model of two halves; without forward a tokenizer
        called = ("__init__", "__init__" if "forward" in methods else "encode")
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name in called and _is_unwritten(node):
            return NOT_WRITTEN
        if isinstance(node, ast.Attribute) and node.attr == "fft":
            return "it computes Fourier transforms"
        if isinstance(node, ast.Assign) and IMAGE.match(ast.unparse(node)):
            return f"of images: {ast.unparse(node)}"
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if len(UNFOLDED.findall(ast.unparse(node.func))) > 1:
                return "of images: patches"
            if name in RECURRENT:
                return f"recurrent: nn.{name}"
            if (name == "Flatten" and not _embeds(tree)) or OF_PLANES.search(name):
                return f"of images: {name}"
            if name == "Linear" and any(ast.unparse(given) in PIXELS for given in node.args[:1]):
                return f"of images: {ast.unparse(node.args[0])} pixels"
            if name in CONVOLUTIONS and not _is_pointwise(node):
                return f"convolutional: {name}"
    return ""


def _embeds(tree: ast.AST) -> bool:
    """Whether it has an nn.Embedding: of texts, then."""
    return any(last_name(call.func) == "Embedding" for call in nodes_in(tree, ast.Call))


def _of_one_state(tree: ast.AST) -> str:
    """Of a recurrent decoder: its one state asks, so scores and what they weigh lose the axis of the queries."""
    methods = [node.func for node in nodes_in(tree, ast.Call)]
    squeezed = [method.value for method in methods if isinstance(method, ast.Attribute) and method.attr == "squeeze"]
    products = [ast.unparse(one) for one in squeezed if PRODUCT.search(ast.unparse(one))]
    return "it attends with one state at a time, as a recurrent decoder does" if len(products) > 1 else ""


def _is_unwritten(function: Any) -> bool:
    """Nothing but a docstring, `pass`, `...`; or it ends in NotImplementedError; or a value is left out, x = ...

    Or all that it does is to return what nothing has made: return output, below a line that says where to write.
    """
    if any(map(_leaves_out, _own(function))):
        return True
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    body = [node for node in body if not isinstance(node, ast.Pass)]
    if len(body) == 1 and isinstance(body[0], ast.Return) and function.name == "forward":
        value = body[0].value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        return all(isinstance(part, ast.Name) and part.id not in given for part in parts)
    if not body:
        return function.name != "__init__"
    raised = [node.exc for node in body if isinstance(node, ast.Raise)]
    return any("NotImplementedError" in ast.unparse(error) for error in raised if error is not None)


STANDS_FOR = re.compile(r"dummy|placeholder|stub", re.IGNORECASE)
PART = re.compile(rf"{STANDS_FOR.pattern}|norm|block|layer|att|feed|encod", re.IGNORECASE)


def _stands_for_a_part(name: str, forward: Any) -> bool:
    """Whether what has the name of a part gives back what it is given: class DummyLayerNorm, to be written later."""
    given = _given_back(forward)
    return bool(given and given == [one.arg for one in forward.args.args[1:2]] and PART.search(name))


def _given_back(forward: Any) -> list[str]:
    """The one of its arguments that a forward gives back as it is, and does nothing else; [] if it computes."""
    body = [one for one in forward.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    return [one.arg for one in forward.args.args[1:] if isinstance(value, ast.Name) and one.arg == value.id]


def _leaves_out(node: ast.AST) -> bool:
    """Whether `...` stands where a value is to be filled in: as the whole of it, or as a call's argument."""
    values = node.args if isinstance(node, ast.Call) else [getattr(node, "value", None)]
    is_value = isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return, ast.Call))
    return is_value and any(isinstance(value, ast.Constant) and value.value is ... for value in values)


OF_ONE_PLACE = re.compile(r"\.unsqueeze\((dim=)?(-1|2)\)$|\[(\.\.\.|:, :), None\]$")


def _is_pointwise(call: ast.Call) -> bool:
    """A convolution with a kernel of one position is a linear layer, F.conv1d(x, matrix.unsqueeze(-1)) too."""
    if any(OF_ONE_PLACE.search(ast.unparse(kernel)) for kernel in call.args[1:2] if last_name(call.func)[0] == "c"):
        return True
    given = [word.value for word in call.keywords if word.arg == "kernel_size"] or call.args[2:3]
    return any(isinstance(value, ast.Constant) and value.value == 1 for value in given)


def _own(function: Any) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (Function, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _made_of(thing: Any, tree: ast.AST, depth: int) -> str:
    """A class that makes, or is given, what is recurrent or convolutional is that too."""
    given = {parameter.lower() for parameter in _parameters(thing)}
    calls = nodes_in(tree, ast.Call)
    made = [part for call in calls if not _asks_for_a_class(call) for part in (call.func, *call.args)]
    made += [part.value for part in made if isinstance(part, ast.Attribute)]  # Encoder.from_config(…)
    init = [node for node in nodes_in(tree, ast.FunctionDef) if node.name == "__init__"]
    made += [one.annotation for node in init for one in node.args.args if one.annotation is not None]
    used = {part.id for part in made if isinstance(part, ast.Name)}
    for name, value in [*namespace_of(thing).items()]:
        is_part = name in used or name.lower() in given
        if is_part and isinstance(value, type) and value is not thing and issubclass(value, nn.Module):
            why = _why(value, depth + 1)  # type: ignore[arg-type]
            if why == NOT_WRITTEN and STANDS_FOR.search(name):
                return f"{NOT_WRITTEN}: {name}"
            if why.startswith(("recurrent", "convolutional", "of images", "made of")):
                return f"made of {name}, which is {why.partition(':')[0]}"
    return ""


def _asks_for_a_class(call: ast.Call) -> bool:
    """isinstance(part, Recurrent) makes none."""
    return isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "issubclass")


def _parameters(thing: Any) -> list[str]:
    return [parameter.name for parameter in as_written(thing)]
