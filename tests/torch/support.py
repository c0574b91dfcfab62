# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/guide/pytorch_support.md: what people write around and inside a training step, and what Remora does.

Each row runs twice as plain eager and twice by Remora from the same state, and compares results, gradients, buffers and
the generator bit for bit. Its verdict is "works", or the first line with which it is refused.
"""

from __future__ import annotations

import copy
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import checking
import models
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import remora
import remora.torch as rt

OPTIONS: dict[str, Any] = {"cost": "flops", "time_limit": 1.0, "threads": 1}
Loss = Callable[..., Any]


@dataclass
class Row:
    """One line of the table: in which group, what is tried, and for each way a function that gives the verdict."""

    group: str
    what: str
    ways: dict[str, Callable[[], str]]


ROWS: list[Row] = []


def row(group: str, what: str, **ways: Callable[[], str]) -> None:
    ROWS.append(Row(group, what, ways))


def verdict_of(run: Callable[[], str]) -> str:
    """What a row's function gives: its own verdict, or what it was refused with, in one line."""
    torch.manual_seed(0)
    random.seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run()
    except (remora.Error, TypeError, ValueError) as error:
        return f"rejected: {one_line(str(error))}"
    except Exception as error:  # no row may end so, and the test says which does
        return f"ERROR: {type(error).__name__}: {one_line(str(error))}"


def one_line(text: str) -> str:
    """A message in Remora's words: without PyTorch's, places in files and addresses, short enough for a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0] if lines else ""
    hints = [line for line in lines[1:] if line.startswith("Explanation:")]
    if hints:
        said += f" ({hints[0].removeprefix('Explanation:').strip()})"
        said = re.sub(r"0x[0-9a-f]+", "0x...", re.sub(r"(/[\w.\-]+)+/", "", said))
    said = re.sub(r"\b[uz]\d+\b", "u", said).replace("|", "/").partition(" PyTorch says: ")[0]
    return said if len(said) <= 160 else said[:157] + "..."


def clean(*modules: nn.Module) -> None:
    for module in modules:
        module.zero_grad()


def left_behind(module: nn.Module, value: Any, inputs: tuple[Any, ...]) -> checking.Outcome:
    gradients = {n: dense(p.grad) for n, p in module.named_parameters()}
    gradients |= {f"input {i}": dense(t.grad) for i, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
    results = [t.detach().clone() for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
    buffers = {n: b.clone() for n, b in module.named_buffers()}
    buffers |= {n: p.detach().clone() for n, p in module.named_parameters()}
    return checking.Outcome(results, gradients, buffers, torch.get_rng_state(), 0)


def dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.to_dense().detach().clone()


def compared(
    mine: nn.Module, eager: nn.Module, runs: tuple[Loss, Loss], inputs: Callable[[int], tuple[Any, ...]]
) -> str:
    """Runs both twice, from the same seeds, and compares what they leave."""
    for call in range(2):
        found = []
        for module, run in zip((eager, mine), runs, strict=True):
            clean(module)
            given = inputs(call)
            torch.manual_seed(100 + call)
            found.append(left_behind(module, run(*given), given))
        different = checking.differences(found[1], found[0])
        if different:
            return f"WRONG: {', '.join(different[:3])}"
    return "works"


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Two models made alike; a copy would have no hooks."""
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        made.append(make())
    return made[0], made[1]


def in_step(make: Callable[[], nn.Module], loss: Loss, inputs: Any, budget: str = "100%", **options: Any) -> str:
    """Loss and `backward()` inside a `train_step`."""
    mine, eager = twins(make)

    def body(module: nn.Module) -> Loss:
        def run(*given: Any) -> torch.Tensor:
            value = loss(module, *given)
            value.backward()
            return value.detach()  # type: ignore[no-any-return]

        return run

    step = rt.train_step(body(mine), budget=budget, **{**OPTIONS, **options})
    return compared(mine, eager, (body(eager), step), several(inputs))


def wrapped(make: Callable[[], nn.Module], loss: Loss, inputs: Any, budget: str = "100%", **options: Any) -> str:
    """A wrapped module, whose loss and `backward()` are the user's."""
    mine, eager = twins(make)
    rt.wrap(mine, budget=budget, **{**OPTIONS, **options})

    def run(module: nn.Module) -> Loss:
        def called(*given: Any) -> Any:
            value = loss(module, *given)
            value.backward()
            return value.detach()

        return called

    return compared(mine, eager, (run(eager), run(mine)), several(inputs))


def several(inputs: Any) -> Callable[[int], tuple[Any, ...]]:
    if callable(inputs):
        return inputs  # type: ignore[no-any-return]
    return lambda _: copy.deepcopy(inputs)


def both(group: str, what: str, make: Callable[[], nn.Module], loss: Loss, inputs: Any, **options: Any) -> None:
    """A row tried both ways."""
    row(
        group,
        what,
        train_step=lambda: in_step(make, loss, inputs, **options),
        wrap=lambda: wrapped(make, loss, inputs, **options),
    )


class Of(nn.Module):
    """A module of a function and the parts that it uses."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *given: Any) -> Any:
        return self.function(self, *given)


def mlp(width: int = 16, count: int = 2) -> nn.Sequential:
    return nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(width, width), nn.Tanh())])


def squared(module: nn.Module, *given: Any) -> torch.Tensor:
    return module(*given).square().mean()  # type: ignore[no-any-return]


X = torch.randn(32, 16, generator=torch.Generator().manual_seed(5))
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(6))
TOKENS = torch.randint(0, 50, (4, 12), generator=torch.Generator().manual_seed(7))


# -- Networks ----------------------------------------------------------------------------------------------------------

N = "Networks"
both(N, "multilayer perceptron", mlp, squared, (X,))
both(
    N,
    "convolution and batch normalization",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
    squared,
    (IMAGES,),
)
both(
    N,
    "the same in channels-last",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).to(memory_format=torch.channels_last),
    squared,
    (IMAGES.to(memory_format=torch.channels_last),),
)
both(
    N,
    "ReLU and Dropout in place",
    lambda: nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3, inplace=True), nn.ReLU(inplace=True), nn.Linear(16, 4)),
    squared,
    (X,),
)
both(
    N,
    "language model with tied weights and dropout",
    lambda: models.Gpt(layers=1),
    lambda m, t: F.cross_entropy(m(t).flatten(0, 1), t.flatten()),
    (torch.randint(0, 64, (2, 16)),),
)
both(
    N,
    "nn.MultiheadAttention",
    lambda: Of(lambda s, x: s.a(x, x, x, need_weights=False)[0], a=nn.MultiheadAttention(16, 4, batch_first=True)),
    squared,
    (X.view(4, 8, 16),),
)
both(
    N,
    "nn.TransformerEncoder with a padding mask",
    lambda: Of(
        lambda s, x, m: s.e(x, src_key_padding_mask=m),
        e=nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False),
    ),
    squared,
    (X.view(4, 8, 16), torch.arange(8).expand(4, 8) > 5),
)
both(N, "attention without dropout", lambda: attending(is_causal=True), squared, (X.view(4, 8, 16),))
both(N, "attention with dropout", lambda: attending(dropout_p=0.2), squared, (X.view(4, 8, 16),))
both(N, "nn.LSTM", lambda: Of(lambda s, x: s.r(x)[0], r=nn.LSTM(16, 8)), squared, (X.view(4, 8, 16),))
both(N, "nn.GRU", lambda: Of(lambda s, x: s.r(x)[0], r=nn.GRU(16, 8)), squared, (X.view(4, 8, 16),))
both(N, "LSTMCell in a loop", lambda: Of(cells, c=nn.LSTMCell(16, 8)), squared, (X.view(4, 8, 16),))
both(N, "U-Net", models.Unet, lambda m, x: m(x).square().mean(), (torch.randn(2, 3, 16, 16),))
both(
    N,
    "embedding, index_select, gather, cumsum, index_add",
    lambda: Of(lookups, e=nn.Embedding(50, 8)),
    squared,
    (TOKENS,),
)
both(N, "EmbeddingBag", lambda: Of(lambda s, t: s.e(t), e=nn.EmbeddingBag(50, 8)), squared, (TOKENS,))
both(
    N,
    "Embedding(sparse=True)",
    lambda: nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 8)),
    squared,
    (TOKENS,),
)
both(
    N,
    "complex parameters and FFT",
    lambda: Of(
        lambda s, x: torch.fft.irfft(torch.fft.rfft(s.l(x)) * s.w),
        l=nn.Linear(16, 16),
        w=nn.Parameter(torch.randn(9, dtype=torch.cfloat)),
    ),
    squared,
    (X,),
)
both(
    N,
    "singular values",
    lambda: Of(lambda s, x: torch.linalg.svdvals(s.l(x).view(4, 8, 16)), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    N,
    "cdist, topk, sort",
    lambda: Of(lambda s, x: torch.cdist(s.l(x), x).topk(4)[0].sort()[0], l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    N,
    "grid_sample and interpolate",
    lambda: Of(
        lambda s, x: F.interpolate(
            F.grid_sample(s.c(x), s.g.expand(4, -1, -1, -1), align_corners=False), scale_factor=2
        ),
        c=nn.Conv2d(3, 4, 3),
        g=nn.Parameter(torch.rand(1, 6, 6, 2)),
    ),
    squared,
    (IMAGES,),
)
both(
    N,
    "InstanceNorm and ReLU in place",
    lambda: nn.Sequential(nn.Conv1d(8, 8, 3), nn.InstanceNorm1d(8), nn.ReLU(inplace=True)),
    squared,
    (X.view(4, 8, 16),),
)
both(
    N,
    "BatchNorm1d(momentum=None)",
    lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16, momentum=None)),
    squared,
    (X,),
)
both(
    N,
    "CTC loss",
    lambda: Of(lambda s, x: s.l(x).log_softmax(-1), l=nn.Linear(16, 6)),
    lambda m, x: F.ctc_loss(m(x), torch.ones(8, 2, dtype=torch.long), torch.full((8,), 4), torch.full((8,), 2)),
    (X.view(4, 8, 16),),
)
both(
    N,
    "cross entropy with ignore_index",
    lambda: nn.Linear(16, 5),
    lambda m, x: F.cross_entropy(m(x), torch.arange(32) % 5, ignore_index=2),
    (X,),
)
both(
    N,
    "weight_norm and spectral_norm (parametrizations)",
    lambda: nn.Sequential(
        parametrizations.weight_norm(nn.Linear(16, 16)), parametrizations.spectral_norm(nn.Linear(16, 16))
    ),
    squared,
    (X,),
)
both(N, "orthogonal (parametrization)", lambda: parametrizations.orthogonal(nn.Linear(16, 16)), squared, (X,))
both(N, "old utils.weight_norm", lambda: torch.nn.utils.weight_norm(nn.Linear(16, 16)), squared, (X,))
both(N, "old utils.spectral_norm", lambda: torch.nn.utils.spectral_norm(nn.Linear(16, 16)), squared, (X,))
both(
    N,
    "fake_quantize (QAT by hand)",
    lambda: Of(lambda s, x: torch.fake_quantize_per_tensor_affine(s.l(x), 0.1, 0, -128, 127), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(N, "frozen layers", lambda: frozen(mlp()), squared, (X,))
both(
    N,
    "parameters that nothing uses",
    lambda: Of(lambda s, x: s.a(x), a=nn.Linear(16, 16), b=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(N, "an input that requires a gradient", mlp, squared, lambda _: (X.clone().requires_grad_(),))
both(
    N,
    "a dictionary of outputs with views",
    lambda: Of(lambda s, x: {"y": (y := s.l(x)), "v": y[:, :4], "x": x}, l=nn.Linear(16, 16)),
    lambda m, x: sum(v.square().mean() for v in m(x).values()),
    (X,),
)
both(
    N,
    "an output that no loss reaches",
    lambda: Of(lambda s, x: (s.a(x), s.b(x)), a=nn.Linear(16, 16), b=nn.Linear(16, 16)),
    lambda m, x: m(x)[0].square().mean(),
    (X,),
)
both(N, "float64", lambda: mlp().double(), squared, (X.double(),))
both(N, "a model in bfloat16", lambda: mlp().bfloat16(), lambda m, x: m(x).float().square().mean(), (X.bfloat16(),))
both(N, "two passes through one module (siamese)", mlp, lambda m, x: (m(x) - m(x.flip(0))).square().mean(), (X,))
both(
    N,
    "batch normalization with two forwards",
    lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)),
    lambda m, x: (m(x) - m(x * 2)).square().mean(),
    (X,),
)
both(
    N,
    "a tensor subclass as an input",
    mlp,
    lambda m, x: m(x).square().mean(),
    (X.as_subclass(nn.Parameter.__mro__[1]),),
)


def attending(**options: Any) -> nn.Module:
    def attention(s: Any, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*s.l(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4), **options)

    return Of(attention, l=nn.Linear(16, 48))


def cells(s: Any, x: torch.Tensor) -> torch.Tensor:
    h = c = torch.zeros(8, 8)
    for row_ in x:
        h, c = s.c(row_, (h, c))
    return h


def lookups(s: Any, t: torch.Tensor) -> torch.Tensor:
    rows = s.e(t).flatten(0, 1)
    return (
        torch.zeros(50, 8)
        .index_add(0, t.flatten(), rows.cumsum(0))
        .gather(0, (t.flatten() % 50)[:, None].expand(-1, 8))
    )


def frozen(model: nn.Sequential) -> nn.Sequential:
    model[0].requires_grad_(False)
    return model


# -- Random numbers ----------------------------------------------------------------------------------------------------

R = "Random numbers"
for name, function in {
    "dropout": lambda s, x: F.dropout(s.l(x), 0.3),
    "randn_like": lambda s, x: torch.tanh(s.l(x) + torch.randn(32, 16)),
    "bernoulli": lambda s, x: s.l(x) * torch.bernoulli(torch.full((32, 16), 0.5)),
    "rrelu": lambda s, x: F.rrelu(s.l(x), training=True),
    "gumbel_softmax": lambda s, x: F.gumbel_softmax(s.l(x), hard=True) * x,
    "randperm": lambda s, x: s.l(x)[:, torch.randperm(16)],
    "alpha dropout": lambda s, x: F.alpha_dropout(s.l(x), 0.2, True),
    "dropout that nothing reads": lambda s, x: (F.dropout(x, 0.3), torch.rand(3), F.dropout(s.l(x), 0.3))[2],
    "feature dropout": lambda s, x: F.dropout1d(s.l(x)[:, :, None], 0.2, True)[..., 0],
}.items():
    both(R, name, lambda f=function: Of(f, l=nn.Linear(16, 16)), squared, (X,))
both(
    R,
    "dropout, recomputed at 70 %",
    lambda: nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.2))]),
    squared,
    (torch.randn(2048, 16),),
    budget="70%",
)
both(
    R,
    "a generator of your own",
    lambda: Of(
        lambda s, x: s.l(x) * torch.rand(32, 16, generator=s.g), l=nn.Linear(16, 16), g=torch.Generator().manual_seed(3)
    ),
    squared,
    (X,),
)
both(
    R,
    "random.random() in the model (stochastic depth)",
    lambda: Of(lambda s, x: s.l(x) if random.random() < 2 else x, l=nn.Linear(16, 16)),
    squared,
    (X,),
)

# -- Autograd ----------------------------------------------------------------------------------------------------------

A = "Autograd"


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.by, None


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        i = x.argmax(-1)
        ctx.mark_non_differentiable(i)
        ctx.save_for_backward(x.softmax(-1))
        return F.one_hot(i, x.shape[-1]).to(x.dtype), i

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (s,) = ctx.saved_tensors
        return s * (gradients[0] - (gradients[0] * s).sum(-1, keepdim=True))


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.relu_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (y,) = ctx.saved_tensors
        return gradients[0] * (y > 0)


both(
    A,
    "autograd.Function",
    lambda: Of(lambda s, x: torch.tanh(Scale.apply(s.l(x), 0.5)), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    A,
    "autograd.Function with an output without gradient",
    lambda: Of(lambda s, x: Straight.apply(s.l(x))[0] * x, l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    A,
    "autograd.Function that works in place",
    lambda: Of(lambda s, x: InPlace.apply(s.l(x) * 1.5) + 1, l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(A, "hook on a value inside the model", lambda: Of(hooked, l=nn.Linear(16, 16)), squared, (X,))
both(A, "forward hook that changes the output", lambda: with_hook(mlp(), "forward"), squared, (X,))
both(A, "forward pre-hook", lambda: with_hook(mlp(), "pre"), squared, (X,))
both(A, "full backward hook of a module", lambda: with_hook(mlp(), "backward"), squared, (X,))
both(A, "register_hook on a parameter", lambda: with_hook(mlp(), "gradient"), squared, (X,))
both(A, "register_post_accumulate_grad_hook", lambda: with_hook(mlp(), "post"), squared, (X,))
both(A, "optimizer in the backward pass", lambda: with_hook(mlp(), "optimizer"), squared, (X,))
both(
    A,
    "torch.func.grad and vmap in the loss",
    mlp,
    lambda m, x: m(x).square().mean() + torch.vmap(torch.func.grad(lambda a: a.sin().sum()))(m(x)).mean(),
    (X,),
)
both(
    A,
    "vmap of a factorization",
    lambda: Of(
        lambda s, x: torch.vmap(torch.linalg.qr)(s.l(x).view(8, 4, 16)[:, :, :4] + 3 * torch.eye(4))[1],
        l=nn.Linear(16, 16),
    ),
    squared,
    (X,),
)
both(A, "views changed in place", lambda: Of(viewed, l=nn.Linear(16, 16)), squared, (X,))
both(
    A,
    "checkpoint (non-reentrant)",
    lambda: Of(lambda s, x: checkpoint(s.b, x, use_reentrant=False), b=mlp()),
    squared,
    (X,),
)
both(
    A,
    "checkpoint with dropout",
    lambda: Of(
        lambda s, x: checkpoint(s.b, x, use_reentrant=False),
        b=nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3), nn.Tanh()),
    ),
    squared,
    (X,),
)
both(
    A,
    "checkpoint (reentrant)",
    lambda: Of(lambda s, x: checkpoint(s.b, s.a(x), use_reentrant=True), a=nn.Linear(16, 16), b=mlp()),
    squared,
    (X,),
)


def hooked(s: Any, x: torch.Tensor) -> torch.Tensor:
    y = s.l(x)
    y.register_hook(lambda g: g * 3)
    return y.sin()  # type: ignore[no-any-return]


def viewed(s: Any, x: torch.Tensor) -> torch.Tensor:
    z = s.l(x) * 1.0
    z[:, ::2] *= 0.5
    z.t()[1] = x[:, 0]
    return z.sin()  # type: ignore[no-any-return]


def with_hook(model: nn.Sequential, kind: str) -> nn.Sequential:
    weight = model[0].weight
    assert isinstance(weight, torch.Tensor)

    def update(p: torch.Tensor) -> None:
        with torch.no_grad():
            p.add_(p.grad, alpha=-0.1)  # type: ignore[arg-type]
        p.grad = None

    def small(p: torch.Tensor) -> None:
        p.grad.clamp_(-1e-3, 1e-3)  # type: ignore[union-attr]

    register: dict[str, Callable[[], Any]] = {
        "forward": lambda: model[0].register_forward_hook(lambda _, __, out: out * 2),
        "pre": lambda: model[0].register_forward_pre_hook(lambda _, given: (given[0] * 2,)),
        "backward": lambda: model[0].register_full_backward_hook(lambda _, given, __: tuple(given)),
        "gradient": lambda: weight.register_hook(halved),
        "post": lambda: weight.register_post_accumulate_grad_hook(small),
        "optimizer": lambda: weight.register_post_accumulate_grad_hook(update),
    }
    register[kind]()
    model.kind = kind  # type: ignore[assignment]
    return model


def halved(g: torch.Tensor) -> torch.Tensor:
    return g * 0.5


# -- Buffers and inputs that change ------------------------------------------------------------------------------------

B = "What changes"
both(
    B,
    "running statistics read before they change",
    lambda: Of(running, l=nn.Linear(16, 16), b=nn.Buffer(torch.zeros(16))),
    squared,
    (X,),
)
both(
    B,
    "the same, recomputed at 70 %",
    lambda: nn.Sequential(*[Of(running, l=nn.Linear(16, 16), b=nn.Buffer(torch.zeros(16))) for _ in range(6)]),
    squared,
    (torch.randn(2048, 16),),
    budget="70%",
)
both(
    B,
    "a delay line of buffers",
    lambda: Of(delayed, l=nn.Linear(16, 16), a=nn.Buffer(torch.zeros(16)), b=nn.Buffer(torch.zeros(16))),
    squared,
    (X,),
)
both(
    B,
    "a counter that is a tensor",
    lambda: Of(counted, l=nn.Linear(16, 16), n=nn.Buffer(torch.zeros((), dtype=torch.long))),
    squared,
    (X,),
)
both(
    B,
    "an argument changed in place",
    lambda: Of(lambda s, x: s.l(x.relu_().add_(1)), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(B, "other values in each call", mlp, squared, lambda call: (X * (call + 1),))
both(
    B,
    "slices of one token buffer",
    lambda: Of(lambda s, a, b: F.cross_entropy(s.e(a).flatten(0, 1), b.flatten()), e=nn.Embedding(50, 50)),
    lambda m, a, b: m(a, b),
    lambda c: (TOKENS[:, c : c + 4], TOKENS[:, c + 1 : c + 5]),
)
both(B, "an input that is not contiguous", mlp, squared, (X.t().contiguous().t(),))


def running(s: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.sigmoid(x * 2 - s.b) * torch.cos(x + s.b)
    s.b.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
    return s.l(y).tanh()  # type: ignore[no-any-return]


def delayed(s: Any, x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(s.l(x) + s.a - s.b)
    s.b.copy_(s.a)
    s.a.copy_(y.detach().mean(0))
    return y


def counted(s: Any, x: torch.Tensor) -> torch.Tensor:
    s.n.add_(1)
    return s.l(x) * s.n  # type: ignore[no-any-return]


# -- Precision ---------------------------------------------------------------------------------------------------------

P = "Precision and options"


def cast(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = m(x)
    return y.float().square().mean()  # type: ignore[no-any-return]


both(P, "autocast, linear layers", mlp, cast, (X,))
both(
    P,
    "autocast, layer normalization",
    lambda: nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()),
    cast,
    (X,),
)
both(P, "autocast, batch normalization", lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)), cast, (X,))
both(P, "autocast, group normalization", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)), cast, (IMAGES,))
both(
    P,
    "autocast, measured costs",
    lambda: nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()),
    cast,
    (X,),
    cost="measured",
)
both(P, "measured costs", mlp, squared, (X,), cost="measured")
both(P, "arena=True", mlp, squared, (X,), arena=True, cost="measured")
both(P, 'order="free"', mlp, squared, (X,), order="free")
both(P, 'order="auto"', mlp, squared, (X,), order="auto")
both(P, "a budget in bytes", mlp, squared, (X,), budget="1MiB")
both(P, "deterministic algorithms", mlp, squared, (X,))


# -- Control flow ------------------------------------------------------------------------------------------------------

C = "Control flow and Python"
both(
    C,
    "`.item()` in the model",
    lambda: Of(lambda s, x: s.l(x) * float(x.sum().item()), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    C,
    "`if` on a tensor's value",
    lambda: Of(lambda s, x: s.l(x) if x.sum() > 0 else x, l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(C, "boolean mask", lambda: Of(lambda s, x: s.l(x)[x[:, 0] > 0], l=nn.Linear(16, 16)), squared, (X,))
both(
    C,
    "nonzero (experts chosen by data)",
    lambda: Of(lambda s, x: s.l(x[(x[:, 0] > 0).nonzero()[:, 0]]), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    C,
    "torch.where in place of a mask",
    lambda: Of(lambda s, x: torch.where(x > 0, s.l(x), x), l=nn.Linear(16, 16)),
    squared,
    (X,),
)
both(
    C, "an `if` on shapes", lambda: Of(lambda s, x: s.l(x) if x.shape[0] > 3 else x, l=nn.Linear(16, 16)), squared, (X,)
)
both(C, "assert on shapes", lambda: Of(lambda s, x: asserted(s, x), l=nn.Linear(16, 16)), squared, (X,))
both(C, "print in the model", lambda: Of(lambda s, x: (print(end=""), s.l(x))[1], l=nn.Linear(16, 16)), squared, (X,))
both(C, "a number of Python that counts", lambda: Of(ticking, l=nn.Linear(16, 16), ticks=0), squared, (X,))
both(
    C,
    "keyword arguments",
    lambda: Of(lambda s, x: s.l(x), l=nn.Linear(16, 16)),
    lambda m, x: m(x).square().mean(),
    (X,),
)
both(
    C,
    "a compiled submodule",
    lambda: nn.Sequential(torch.compile(nn.Linear(16, 16), backend="eager"), nn.Tanh()),
    squared,
    (X,),
)
both(C, "a batch of 0 rows", mlp, lambda m, x: m(x).square().sum(), (X[:0],))
both(C, "a batch of 1 row", mlp, squared, (X[:1],))


def asserted(s: Any, x: torch.Tensor) -> torch.Tensor:
    assert x.shape[1] == 16
    return s.l(x)  # type: ignore[no-any-return]


def ticking(s: Any, x: torch.Tensor) -> torch.Tensor:
    s.ticks += 1
    return s.l(x) * s.ticks  # type: ignore[no-any-return]


# -- Loops -------------------------------------------------------------------------------------------------------------

L = "Loops"


def loop(
    way: str, body: Callable[[nn.Module, Callable[[torch.Tensor], torch.Tensor], int], Any], budget: str = "100%"
) -> str:
    """Runs a loop of four rounds with a step, on a planned model and on its twin, and compares after each round."""
    mine = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 16))
    eager = copy.deepcopy(mine)
    if way == "wrap":
        rt.wrap(mine, budget=budget, **OPTIONS)

    def plain(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            value = squared(module, x)
            value.backward()
            return value.detach()

        return run

    steps = {id(eager): plain(eager), id(mine): rt.train_step(plain(mine), budget=budget, **OPTIONS)}
    if way == "wrap":
        steps[id(mine)] = plain(mine)
    state: dict[int, Any] = {}
    for i in range(4):
        found = []
        for module in (eager, mine):
            torch.manual_seed(i)
            value = (
                body(module, steps[id(module)], i)
                if body.__code__.co_argcount == 3
                else body(module, steps[id(module)], i, state)
            )  # type: ignore[call-arg]
            found.append(left_behind(module, value, ()))
        different = checking.differences(found[1], found[0])
        if different:
            return f"WRONG: round {i}: {', '.join(different[:3])}"
    return "works"


def loops(what: str, body: Any, **options: Any) -> None:
    row(L, what, train_step=lambda: loop("train_step", body, **options), wrap=lambda: loop("wrap", body, **options))


def optimized(m: nn.Module, step: Loss, i: int, state: dict[int, Any]) -> Any:
    optimizer = state.setdefault(id(m), torch.optim.AdamW(m.parameters(), lr=0.01))
    value = step(X)
    torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1)
    optimizer.step()
    optimizer.zero_grad()
    return value


def accumulated(m: nn.Module, step: Loss, i: int) -> Any:
    if i % 2 == 0:
        m.zero_grad()
    return step(X * (i + 1))


def zeroed(m: nn.Module, step: Loss, i: int) -> Any:
    m.zero_grad(set_to_none=False)
    return step(X)


def thawed(m: Any, step: Loss, i: int) -> Any:
    m.zero_grad()
    m[0].requires_grad_(i != 1)
    return step(X)


def replaced(m: Any, step: Loss, i: int) -> Any:
    if i == 2:
        torch.manual_seed(9)
        m[3] = nn.Linear(16, 16)
    m.zero_grad()
    return step(X)


def loaded(m: Any, step: Loss, i: int) -> Any:
    m.load_state_dict({k: torch.full_like(v, 0.1 * i) for k, v in m.state_dict().items()}, assign=i == 2)
    m.zero_grad()
    return step(X)


def evaluated(m: Any, step: Loss, i: int) -> Any:
    m.zero_grad()
    value = step(X)
    m.eval()
    with torch.no_grad():
        out = m(X)
    with torch.inference_mode():
        out = out + m(X[:3]).sum()
    m.train()
    return value, out


def lengths(m: Any, step: Loss, i: int) -> Any:
    m.zero_grad()
    return step(X[: 8 * (i + 1)])


def last_smaller(m: Any, step: Loss, i: int) -> Any:
    m.zero_grad()
    return step(X if i < 3 else X[:5])


def in_eval(m: Any, step: Loss, i: int) -> Any:
    m.zero_grad()
    m.train(i % 2 == 0)
    return step(X)


def flat_gradients(m: Any, step: Loss, i: int, state: dict[int, Any]) -> Any:
    parameters = list(m.parameters())
    flat = state.setdefault(id(m), torch.zeros(sum(p.numel() for p in parameters)))
    if i == 0:
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
    flat.zero_()
    value = step(X)
    assert all(p.grad.untyped_storage().data_ptr() == flat.data_ptr() for p in parameters)
    return value, flat.clone()


loops("gradients that are views of one flat buffer", flat_gradients)
loops("AdamW, gradient clipping", optimized)
loops("accumulation", accumulated)
loops("zero_grad(set_to_none=False)", zeroed)
loops("freezing and thawing layers", thawed)
loops("a submodule is replaced", replaced)
loops("load_state_dict, also with assign=True", loaded)
loops("evaluation under no_grad and inference_mode in between", evaluated)
loops("the model in eval mode, with gradients", in_eval)
loops("several lengths", lengths)
loops("a smaller last batch", last_smaller)
loops("a smaller last batch at 90 %", last_smaller, budget="90%")


def retained(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    value = squared(module, x)
    value.backward(retain_graph=True)
    return value


def penalized(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    out = m(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return out.mean() + (g.norm(dim=1) - 1).square().mean()  # type: ignore[no-any-return]


both(L, "backward twice (retain_graph)", mlp, retained, (X,))
both(L, "gradient penalty (create_graph)", mlp, penalized, (X,))


# -- What only one of the two ways has ---------------------------------------------------------------------------------

M = "Mistakes and refusals"


def refused_meta(way: str) -> str:
    with torch.device("meta"):
        model, x = mlp(), torch.empty(4, 16)
    if way == "wrap":
        rt.wrap(model, budget="100%", **OPTIONS)(x)
    else:
        rt.train_step(lambda y: squared(model, y).backward(), budget="100%", **OPTIONS)(x)
    return "works"


def mistaken(way: str, **options: Any) -> str:
    model = mlp()
    if way == "wrap":
        rt.wrap(model, **{**OPTIONS, **options})(X)
    else:
        rt.train_step(lambda x: squared(model, x).backward(), **{**OPTIONS, **options})(X)
    return "works"


def anomaly(way: str) -> str:
    with torch.autograd.detect_anomaly(check_nan=True):
        try:
            return (in_step if way == "train_step" else wrapped)(mlp, lambda m, x: m(x).sub(10).sqrt().sum(), (X,))
        except RuntimeError as error:
            if isinstance(error, remora.Error):
                raise
            return "works: raises as eager does"


row(A, "anomaly mode with a NaN", train_step=lambda: anomaly("train_step"), wrap=lambda: anomaly("wrap"))
row(M, "a model on `meta`", train_step=lambda: refused_meta("train_step"), wrap=lambda: refused_meta("wrap"))
for what, given in {
    'budget="80"': {"budget": "80"},
    "budget=0.8": {"budget": 0.8},
    "budget=None": {"budget": None},
    'budget="lots"': {"budget": "lots"},
    'budget="1%"': {"budget": "1%"},
    'order="fre"': {"order": "fre"},
    'time_limit="5"': {"time_limit": "5"},
    "an unknown option": {"bugdet": "80%"},
}.items():
    row(M, what, train_step=lambda g=given: mistaken("train_step", **g), wrap=lambda g=given: mistaken("wrap", **g))


def updated(kind: str) -> str:
    """Four steps with the optimizer inside, beside eager ones with its step behind."""
    mine = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1), nn.Linear(16, 4))
    eager = copy.deepcopy(mine)
    make = {"LBFGS": torch.optim.LBFGS, "foreign": type("Own", (torch.optim.SGD,), {})}.get(kind, torch.optim.AdamW)

    def body(model: nn.Module) -> Callable[..., torch.Tensor]:
        def run(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            value = squared(model, x) * scale
            value.backward()
            if kind == "norm":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            return value.detach()

        return run

    optimizers = [make(model.parameters()) for model in (mine, eager)]
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in optimizers]
    step = rt.train_step(body(mine), update=optimizers[0], **OPTIONS)
    scale = rt.scale_of(torch.amp.GradScaler("cpu", init_scale=8.0)) if kind == "scaler" else torch.ones(())
    if kind == "accumulation":
        squared(mine, X).backward()
    for i in range(4):
        found = []
        for model, run in ((mine, step), (eager, body(eager))):
            torch.manual_seed(i)
            value = run(X, scale)
            if model is eager:
                optimizers[1].step()
                optimizers[1].zero_grad()
            found.append(left_behind(model, value, ()))
        different = checking.differences(found[1], found[0])
        weights = zip(mine.parameters(), eager.parameters(), strict=True)
        if different or not all(checking.same(a, b) for a, b in weights):
            return f"WRONG: round {i}: {', '.join(different[:3])}"
        for schedule in schedules:
            schedule.step()
    return "works"


row(L, "update=optimizer and a scheduler", train_step=lambda: updated("AdamW"))
for what, kind in {
    "update= where gradients exist": "accumulation",
    "update= with clip_grad_norm_": "norm",
    "update= with the scale of a GradScaler": "scaler",
    "update=LBFGS": "LBFGS",
    "update= with an optimizer of your own": "foreign",
}.items():
    row(M, what, train_step=lambda k=kind: updated(k))
