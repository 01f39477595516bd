"""T1, T2 …: mistakes in the loss, the schedule and the training loop."""

from scratch_transformer.kit.kind import Mistake

LOSS = "Vaswani et al. 2017, section 5.4"
RATE = "Vaswani et al. 2017, section 5.3, equation 3"

OF_THE_SOURCE = "the source's, which is as right where both have one id"
"""A form of T5, as far as a text shows it."""
LAST_WINDOW = "the last window is never drawn"
"""A form of T26: a token too few is learned."""
LOGITS = """\
import torch
torch.manual_seed(0)
F = torch.nn.functional
logits, target = torch.randn(4, 5), torch.tensor([1, 2, 3, 4])
"""
PADDED = """\
import torch
torch.manual_seed(0)
F = torch.nn.functional
logits, target = torch.randn(6, 5), torch.tensor([1, 2, 3, 0, 0, 0])  # 0 is padding
"""

TRAINING = (
    Mistake(
        id="T1",
        title="log_softmax twice",
        severity="harmless",
        does="The loss gets log-probabilities where it expects logits, and takes their log_softmax once more.",
        expected="Logits. Here it does no harm: log-probabilities sum to 1 already, so log_softmax leaves them as they "
        "are. It only costs time.",
        fix="Return the logits from the model, or use nn.NLLLoss with log-probabilities.",
        source=LOSS,
        mathematics="log_softmax(log p) = log p - log Σ p = log p - log 1 = log p",
        demo=LOGITS
        + """\
print("once:", F.cross_entropy(logits, target).item())
print("twice:", F.cross_entropy(F.log_softmax(logits, -1), target).item())
""",
    ),
    Mistake(
        id="T2",
        title="softmax, then cross-entropy",
        does="The loss gets probabilities where it expects logits, and takes their softmax again. Even a perfect model "
        "has a large loss, and its gradients are tiny.",
        expected="nn.CrossEntropyLoss wants logits: it contains the softmax.",
        fix="Return the logits from the model; use softmax only to look at probabilities.",
        source=LOSS,
        mathematics="probabilities are between 0 and 1, so the loss is at least ln(e + V - 1) - 1 for V classes",
        changes={"": {"loss_input": "softmax twice"}},
        demo="""\
import math, torch
F = torch.nn.functional
logits, target = 100 * torch.eye(5), torch.arange(5)  # certain and right
print("logits:", F.cross_entropy(logits, target).item())
print("probabilities:", F.cross_entropy(logits.softmax(-1), target).item())
print("cannot be less than", math.log(math.e + 5 - 1) - 1)
""",
    ),
    Mistake(
        id="T3",
        title="label smoothing over other classes",
        severity="harmless",
        does="Shares the smoothing ε among the other V - 1 classes, or among all but the target and the padding, "
        "instead of all V.",
        expected="PyTorch gives ε/V to each of the V classes, the target included. The paper names only ε = 0.1; the "
        "difference is small. If the probabilities sum to more than 1, it is a mistake.",
        fix="nn.CrossEntropyLoss(label_smoothing=0.1).",
        source=LOSS,
        mathematics="PyTorch: q = (1 - ε) · target + ε/V      here: ε/(V - 1) or ε/(V - 2) for the others",
        changes={
            "V - 1 classes": {"smoothing": "other classes"},
            "V - 2 classes, without padding": {"smoothing": "without padding"},
            "the probabilities sum to more than 1": {"smoothing": "unnormalized"},
            "V - 1 classes, and the padding's share is lost": {"smoothing": "padding's share lost"},
            "a share of V - 2 for V - 1 classes: the probabilities sum to more than 1": {
                "smoothing": "other classes, padding's share too"
            },
        },
        severities={
            "the probabilities sum to more than 1": "mistake",
            "a share of V - 2 for V - 1 classes: the probabilities sum to more than 1": "mistake",
        },
        demo="""\
import torch
V, eps, target = 5, 0.1, 2
all_classes, others = torch.full((V,), eps / V), torch.full((V,), eps / (V - 1))
all_classes[target] += 1 - eps
others[target] = 1 - eps
print("over all classes:", all_classes, "sum", all_classes.sum().item())
print("over the others:", others, "sum", others.sum().item())
""",
    ),
    Mistake(
        id="T4",
        title="the loss counts padding",
        does="Padding enters the loss: as if it were words to be learned, or by dividing by the number of all "
        "positions. "
        "The loss of a sentence changes with the length of its padding.",
        expected="Average over the real tokens only.",
        fix="nn.CrossEntropyLoss(ignore_index=pad_id).",
        source=LOSS,
        changes={
            "padding is learned": {"counted": "everything"},
            "padding is learned, and the sum divided by the real tokens": {
                "counted": "everything",
                "reduction": "sum over real tokens",
            },
            "padding is learned as the first word, and the sum divided by the real tokens": {
                "counted": "everything, as the first word",
                "reduction": "sum over real tokens",
            },
            "in the smoothing's share alone": {"counted": "everything in the smoothing"},
            "divided by all positions": {"reduction": "mean over all positions"},
        },
        demo=PADDED
        + """\
print("right:", F.cross_entropy(logits, target, ignore_index=0).item())
print("padding is learned:", F.cross_entropy(logits, target).item())
total = F.cross_entropy(logits, target, ignore_index=0, reduction="sum")
print("divided by all positions:", (total / len(target)).item())
""",
    ),
    Mistake(
        id="T5",
        title="the padding of another tokenizer",
        does="Ignores (or masks) an id that is not the padding here: often the source's, where the target's is "
        "another.",
        expected="The padding's id of the language that is at hand.",
        fix="ignore_index=tokenizer_tgt.token_to_id('[PAD]') in the loss, for targets.",
        source=LOSS,
        changes={"": {"counted": "other padding"}},
        severities={OF_THE_SOURCE: "harmless"},
        demo=PADDED
        + """\
print("right, padding 0 is ignored:", F.cross_entropy(logits, target, ignore_index=0).item())
print("id 1, a word, is ignored:", F.cross_entropy(logits, target, ignore_index=1).item())
""",
    ),
    Mistake(
        id="T7",
        title="another schedule of the learning rate",
        does="The learning rate does not follow the paper: it starts at its largest, or rises or falls otherwise.",
        expected="It rises linearly for the warm-up steps, then falls with the root of the step; Adam has β2 = 0.98.",
        fix="d_model**-0.5 * min(step**-0.5, step * warmup**-1.5), and Adam(betas=(0.9, 0.98), eps=1e-9).",
        source=RATE,
        mathematics="lr = d_model^(-1/2) · min(step^(-1/2), step · warmup^(-3/2))\n"
        "d_model = 512, warmup = 4000: 1.74693e-7 at step 1, 6.98771e-4 at step 4000",
        changes={
            "no warm-up": {"schedule": "no warm-up"},
            "constant": {"schedule": "constant"},
            "no decay after the warm-up": {"schedule": "warm-up only"},
            "max in place of min": {"schedule": "maximum"},
            "warmup^(-1/2) in place of warmup^(-3/2)": {"schedule": "linear exponent"},
            "without d_model": {"schedule": "without d_model"},
            "d_model^(1/2)": {"schedule": "times sqrt(d_model)"},
        },
        severities={"without d_model": "harmless"},
        demo="""\
def rate(step, d_model=512, warmup=4000):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
for step in (1, 1000, 4000, 16000):
    print(f"step {step}: paper {rate(step):.5e}, without warm-up {512**-0.5 * step**-0.5:.5e}")
""",
    ),
    Mistake(
        id="T10",
        title="resumes without the model's weights",
        does="After a restart, epoch and optimizer are restored, and the model starts from random weights.",
        expected="model.load_state_dict(checkpoint['model']) too.",
        fix="Save and load model, optimizer, schedule, epoch and random states together.",
        source="documentation of torch.save",
        explain_only="It is in the training loop, which the kit does not run.",
        demo="""\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
checkpoint = {"epoch": 7, "model": model.state_dict()}
resumed = torch.nn.Linear(2, 1)
print("epoch", checkpoint["epoch"], "- same weights:", torch.equal(resumed.weight, model.weight))
resumed.load_state_dict(checkpoint["model"])
print("after load_state_dict:", torch.equal(resumed.weight, model.weight))
""",
    ),
    Mistake(
        id="T11",
        title="the latest checkpoint by name",
        does="Sorts the names of checkpoints as text, where epoch 100 comes before epoch 99.",
        expected="Sort by the number.",
        fix="max(files, key=lambda file: int(re.search(r'\\\\d+', file.stem)[0])), or names with leading zeros.",
        source="documentation of Python's sorted",
        explain_only="It is in the training loop, which the kit does not run.",
        demo="""\
files = ["model_9.pt", "model_99.pt", "model_100.pt"]
print("as text:", sorted(files)[-1])
print("by number:", max(files, key=lambda name: int(name[6:-3])))
""",
    ),
    Mistake(
        id="T12",
        title="another split after a restart",
        does="Splits training and validation data at random without a fixed seed. After a restart, validation "
        "sentences "
        "have been trained on.",
        expected="The same split in every run.",
        fix="random_split(data, sizes, generator=torch.Generator().manual_seed(42)).",
        source="documentation of torch.utils.data.random_split",
        explain_only="It is in the training loop, which the kit does not run.",
        demo="""\
import torch
data = list(range(10))
first = torch.utils.data.random_split(data, [8, 2])[1].indices
second = torch.utils.data.random_split(data, [8, 2])[1].indices
print("validation in two runs:", first, second)
seeded = [torch.utils.data.random_split(data, [8, 2], torch.Generator().manual_seed(42))[1].indices for _ in "ab"]
print("with a seed:", *seeded)
""",
    ),
    Mistake(
        id="T13",
        title="the labels are not shifted",
        does="The decoder is given the target, and asked for the same tokens: position t is to say token t, which it "
        "is looking at. It learns to copy, the loss falls to nothing, and in use there is nothing to copy.",
        expected="Position t is asked for token t + 1: the decoder gets tgt[:, :-1], the loss tgt[:, 1:].",
        fix="logits = model(src, tgt[:, :-1]), of a language model model(ids[:, :-1]); and loss = "
        "criterion(logits.reshape(-1, V), tgt[:, 1:].reshape(-1)), or with ids in the place of tgt. Of "
        "windows of a text, x = data[i : i + T] and y = data[i + 1 : i + 1 + T].",
        source="Vaswani et al. 2017, section 3.1: the outputs are shifted right",
        mathematics="right: -Σ_t log p(y_(t+1) | y_1 … y_t)      here: -Σ_t log p(y_t | y_1 … y_t)",
        changes={
            "a window of a text and the same again": {"targets": "the same"},
            "the tokens after the next": {"targets": "two later"},
        },
        demo="""\
sentence = ["<s>", "a", "small", "cat", "</s>"]
print("the decoder sees:", sentence[:-1])
print("right, is asked for:", sentence[1:])
print("here, is asked for:", sentence[:-1], "- it only has to copy")
""",
    ),
    Mistake(
        id="T14",
        title="gradients add up from step to step",
        does="No step sets the gradients to zero, and backward() adds to what is there. Every step is by the sum of "
        "all gradients so far: it goes on in the direction of old batches, ever faster.",
        expected="Each step is by the gradients of its own batch.",
        fix="optimizer.zero_grad() in each turn of the loop, before loss.backward().",
        source="documentation of torch.optim.Optimizer.zero_grad",
        mathematics="right: θ ← θ - η ∇L_t      here: θ ← θ - η (∇L_1 + … + ∇L_t)",
        demo="""\
import torch
weight = torch.ones(1, requires_grad=True)
for step in range(3):
    (2 * weight).sum().backward()
    print("step", step, "right: 2.0, here:", weight.grad.item())
""",
    ),
    Mistake(
        id="T15",
        title="trains in evaluation mode",
        does="model.eval() is called, to validate or to write a sample, and model.train() is not called again. From "
        "then on it trains without dropout, and overfits as if it had none; a batch norm learns no averages.",
        expected="model.train() before every epoch, or behind what has called model.eval().",
        fix="model.train() where a turn of the loop begins.",
        source="documentation of torch.nn.Module.eval; Srivastava et al. 2014",
        demo="""\
import torch
torch.manual_seed(0)
model, x = torch.nn.Dropout(0.5), torch.ones(6)
for epoch in range(2):
    print("epoch", epoch, "trains with:", model(x).tolist())
    model.eval()
    print("epoch", epoch, "validates with:", model(x).tolist())
""",
    ),
    Mistake(
        id="T16",
        title="clips gradients in vain",
        does="Gradients are clipped after the step that they were for, before they are computed, or while they are "
        "still multiplied by the scaler's factor of mixed precision, and so all cut down to next to nothing.",
        expected="Clip between loss.backward() and optimizer.step(), and behind scaler.unscale_(optimizer) if there is "
        "a scaler.",
        fix="loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(). With a "
        "scaler, scaler.unscale_(optimizer) before it is clipped.",
        source="Pascanu et al. 2013, algorithm 1; documentation of torch.amp: gradient clipping",
        demo="""\
import torch
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1.0)
for when in ("before the step", "after it"):
    weight.data.zero_(), optimizer.zero_grad(), (100 * weight).sum().backward()
    if when == "before the step":
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
    optimizer.step()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    print(f"clipped to length 1 {when}: the weight moves by {-weight.item():.0f}")
""",
    ),
    Mistake(
        id="T17",
        title="keeps the graphs of all steps",
        does="A sum or a list of losses, total += loss, is kept with what autograd has recorded of every step. The "
        "numbers are right, and memory grows until the loop ends.",
        expected="What is only shown or averaged is a number.",
        fix="total += loss.item(), or loss.detach() where waiting for a GPU in each step is to be avoided.",
        source="documentation of torch: frequently asked questions, on running out of memory",
        severity="harmless",
        demo="""\
import torch
weight, total, count = torch.ones(1, requires_grad=True), 0.0, 0
for step in range(100):
    loss = (2 * weight).sum()
    loss.backward()
    total += loss
node = total.grad_fn
while node is not None and node.next_functions:
    node, count = node.next_functions[0][0], count + 1
print("recorded operations that the total of 100 steps keeps, at least:", count)
""",
    ),
    Mistake(
        id="T18",
        title="no step is taken",
        does="The optimizer's step is never called, or it comes behind a zero_grad() that has set the gradients to "
        "zero: the weights stay what they were (with weight decay they only shrink).",
        expected="optimizer.zero_grad(), loss.backward(), optimizer.step(), in this order.",
        fix="optimizer.step() behind loss.backward(), and optimizer.zero_grad() before that, or behind the step.",
        source="documentation of torch.optim: taking an optimization step",
        demo="""\
import torch
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    (2 * weight).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
print("after three steps:", weight.item())
""",
    ),
    Mistake(
        id="T19",
        title="drops out where it does not train",
        does="The model validates, or writes, in training mode: nothing calls model.eval(). Dropout makes the loss "
        "larger than it is, another one every time, and what is written worse.",
        expected="model.eval() before, and model.train() before training goes on.",
        fix="model.eval() before it, and model.train() behind it if training goes on.",
        source="documentation of torch.nn.Module.eval; Srivastava et al. 2014, section 4",
        demo="""\
import torch
torch.manual_seed(0)
model, x = torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Dropout(0.3)), torch.ones(4, 8)
with torch.no_grad():
    print("twice the same:", *(f"{model(x).square().mean():.3f}" for _ in "ab"))
    model.eval()
    print("after eval():  ", *(f"{model(x).square().mean():.3f}" for _ in "ab"))
""",
    ),
    Mistake(
        id="T20",
        title="the schedule takes epochs for steps, or steps for epochs",
        does="The schedule of the learning rate is written in steps, as the paper's with a warm-up of 4000, and is "
        "told of epochs: scheduler.step() stands beside the loop over batches. The warm-up outlasts the training. Or "
        "it is as long as the epochs, T_max=epochs, and is told of every batch: its fall is over in the first of them.",
        expected="One step of the schedule for each of the optimizer's.",
        fix="scheduler.step() behind optimizer.step(), in the loop over batches; or a schedule that counts epochs.",
        source="Vaswani et al. 2017, section 5.3, equation 3: step_num; documentation of torch's OneCycleLR",
        demo="""\
def rate(step, d_model=512, warmup=4000):
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
batches = 1000
for epoch in (1, 5, 20):
    print(f"epoch {epoch:2}: {rate(epoch * batches):.2e} in steps, {rate(epoch):.2e} in epochs")
""",
    ),
    Mistake(
        id="T21",
        title="the schedule is never stepped",
        does="A schedule of the learning rate is made, and nothing ever tells it that a step was taken. The rate stays "
        "what it was when the schedule was made: the first of a warm-up, which is next to nothing, or the highest.",
        expected="scheduler.step() for each of the optimizer's steps, or of the epochs, whichever it counts.",
        fix="scheduler.step() behind optimizer.step(), or at an epoch's end where it counts epochs.",
        source="documentation of torch.optim: how to adjust learning rate",
        demo="""\
import torch
for is_stepped in (True, False):
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 4000))
    for step in range(1000):
        optimizer.step()
        if is_stepped:
            scheduler.step()
    print("stepped:" if is_stepped else "made alone:", optimizer.param_groups[0]["lr"])
""",
    ),
    Mistake(
        id="T22",
        title="the best weights are the last",
        does="best = model.state_dict() keeps no numbers: its tensors are the parameters' own, which each step changes "
        "in place. What is loaded at the end is what the model has by then anyway.",
        expected="A copy of the weights as they were in the best epoch.",
        fix="best = copy.deepcopy(model.state_dict()), or torch.save(model.state_dict(), path) at once.",
        source="documentation of PyTorch: saving and loading models, on state_dict() and deepcopy",
        demo="""\
import copy, torch
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.ones_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept, copied = model.state_dict(), copy.deepcopy(model.state_dict())
model.weight.sum().backward()
optimizer.step()
print("copied:", copied["weight"].item(), "kept:", kept["weight"].item())
""",
    ),
    Mistake(
        id="T23",
        title="added gradients are not divided",
        does="A step is taken by the sum of the gradients of several batches, where that of one large batch is their "
        "mean. Adam divides by the gradients' size, so its steps are the same; with SGD the rate is as many times as "
        "large as is written, and clipping sets in as many times earlier.",
        expected="The mean: then the rate and the norm to clip at mean the same for any number of batches.",
        fix="(loss / accumulation_steps).backward().",
        source="documentation of torch.amp: gradient accumulation",
        severity="harmless",
        mathematics="right: θ ← θ - η (∇L_1 + … + ∇L_n) / n      here: θ ← θ - η (∇L_1 + … + ∇L_n)",
        demo="""\
import torch
for made in (torch.optim.Adam, torch.optim.SGD):
    for count in (4, 1):
        weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
        optimizer = made([weight], lr=0.001)
        for step in range(5):
            for batch in range(4):
                ((batch + 1) * weight.square().sum() / count).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(made.__name__, "divided:" if count == 4 else "not divided:", f"{1 - weight.item():.6f} below 1")
""",
    ),
    Mistake(
        id="T24",
        title="the schedule steps first",
        does="scheduler.step() comes before optimizer.step(). The first step is taken with the second rate, and no "
        "step with the first: of a warm-up nothing is lost, of a schedule in epochs its first epoch. PyTorch warns.",
        expected="The optimizer's step, and then the schedule's.",
        fix="scheduler.step() behind optimizer.step().",
        source="documentation of torch.optim: how to adjust learning rate",
        severity="harmless",
        demo="""\
import torch, warnings
warnings.simplefilter("ignore")
for when in ("behind", "before"):
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    rates = []
    for epoch in range(4):
        if when == "before":
            scheduler.step()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        if when == "behind":
            scheduler.step()
    print(when, "the optimizer's step:", rates)
""",
    ),
    Mistake(
        id="T25",
        title="records what is not differentiated",
        does="The model validates, or writes, in evaluation mode, and autograd records every operation: model.eval() "
        "does not switch that off. The numbers are right; it takes more time, and the memory of a training step.",
        expected="Nothing is recorded where no gradients are asked for.",
        fix="with torch.no_grad(): around the loop, or @torch.no_grad() above the function.",
        source="documentation of torch: autograd mechanics, on evaluation mode and no-grad mode",
        severity="harmless",
        demo="""\
import contextlib, torch
model, x, kept = torch.nn.Sequential(*[torch.nn.Linear(64, 64), torch.nn.GELU()] * 6).eval(), torch.ones(32, 64), []
for name, mode in (("recorded", contextlib.nullcontext()), ("torch.no_grad()", torch.no_grad())):
    kept.clear()
    with mode, torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
        model(x)
    print(f"{name}: {sum(kept)} bytes are kept for a backward pass")
""",
    ),
    Mistake(
        id="T26",
        title="windows beyond the end of the text",
        does="Windows of a text may begin so late that the targets of the last one have an end too few. Once in a "
        "while a batch holds one, and training stops.",
        expected="Of n tokens, windows of T begin at 0, 1, … n - T - 1: the last target is the last token.",
        fix="torch.randint(len(data) - T, (B,)), which draws no number as large as its limit.",
        source="Radford et al. 2018, section 3.1, equation 1",
        changes={"": {"windows": "beyond the end"}, LAST_WINDOW: {"windows": "without the last"}},
        severities={LAST_WINDOW: "harmless"},
        demo="""\
data, T = list(range(10)), 4
for start in (0, len(data) - T - 1, len(data) - T):
    print(f"from {start}: {data[start : start + T]}, targets {data[start + 1 : start + T + 1]}")
""",
    ),
)
