"""The loops that are measured: training and inference as they are common, built from `torch.nn` with made-up data, and
micro-loads.

Data are drawn once and lie on the GPU, so that neither a disk nor a processor is measured. Labels mean nothing and
nothing is learnt; the work of a step does not depend on that. Sizes are those of well-known models:

| loop                | a step                                                                                            |
|---------------------|---------------------------------------------------------------------------------------------------|
| `cnn_train`         | training step of a residual network of 18 layers, images of 224 x 224                              |
| `cnn_infer`         | forward pass of it                                                                                |
| `encoder_train`     | training step of an encoder of 12 layers and width 768, 128 tokens a sample, mixed precision       |
| `lstm_train`        | training step of a language model of 2 LSTM layers of width 650, 35 tokens a sample                |
| `recommender_train` | training step of 26 embeddings of 100,000 rows and width 64 under a perceptron                     |
| `decode_infer`      | the next token of a decoder of 24 layers and width 1,024 with 1,024 tokens of context for a sample |
| `micro_compute`     | product of two matrices of 4,096 x 4,096 (arithmetic of the SMs)                                   |
| `micro_dram`        | copy of 512 MiB within the GPU (DRAM)                                                             |
| `micro_l2`          | 64 sums over vectors that fill half of the L2 cache                                               |
| `micro_pcie`        | 128 MiB to the GPU and 128 MiB from it at once (PCIe)                                              |

`size` makes a model smaller than that, for tests on a processor.
"""

from __future__ import annotations

from typing import Callable, Dict, List

import torch
from torch import nn
from torch.nn import functional

MIB = 1 << 20
# L2 where PyTorch does not tell it, bytes: that of a V100.
USUAL_L2 = 6 * MIB


class Loop:
    """Steps that can be repeated for ever."""

    def __init__(self, step: Callable[[], None], device: torch.device, model: "nn.Module | None" = None):
        self.step = step
        self._device = device
        self.facts = {"parameters": None if model is None else sum(p.numel() for p in model.parameters())}

    def wait(self) -> None:
        """Waits until all steps so far are done."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        alike = inside == outside and stride == 1
        around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.around = nn.Identity() if alike else around

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.path(images) + self.around(images))


def residual_network(width: int) -> nn.Module:
    """Stem, four stages of two blocks, 1,000 classes."""
    layers: List[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = width
    for stage in range(4):
        outside = width << stage
        layers += [Residual(inside, outside, 1 if stage == 0 else 2), Residual(outside, outside, 1)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def training(model: nn.Module, optimizer, loss: Callable[[], torch.Tensor], device: torch.device) -> Loop:
    """Forward, backward and update."""

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    return Loop(step, device, model)


def cnn_train(batch: int, device: torch.device, size: Dict) -> Loop:
    model = residual_network(size.get("width", 64)).to(device).train()
    side = size.get("image", 224)
    images = torch.randn(batch, 3, side, side, device=device)
    labels = torch.randint(1000, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return training(model, optimizer, lambda: functional.cross_entropy(model(images), labels), device)


def half_where_it_pays(device: torch.device) -> torch.dtype:
    return torch.float16 if device.type == "cuda" else torch.float32


def cnn_infer(batch: int, device: torch.device, size: Dict) -> Loop:
    kind = half_where_it_pays(device)
    model = residual_network(size.get("width", 64)).to(device, kind).eval()
    side = size.get("image", 224)
    images = torch.randn(batch, 3, side, side, device=device, dtype=kind)

    def step() -> None:
        with torch.no_grad():
            model(images)

    return Loop(step, device, model)


class Encoder(nn.Module):
    """Tokens in, a guess of each token out."""

    def __init__(self, vocabulary: int, tokens: int, width: int, heads: int, layers: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(tokens, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.guess = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.guess(self.layers(self.tokens(tokens) + self.places))


def encoder_train(batch: int, device: torch.device, size: Dict) -> Loop:
    vocabulary, length, width = size.get("vocabulary", 30_522), size.get("tokens", 128), size.get("width", 768)
    model = Encoder(vocabulary, length, width, size.get("heads", 12), size.get("layers", 12)).to(device).train()
    tokens = torch.randint(vocabulary, (batch, length), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    mixed = device.type == "cuda"
    # PyTorch 2.3 moved it.
    if hasattr(torch.amp, "GradScaler"):
        scaler = torch.amp.GradScaler(device.type, enabled=mixed)
    else:
        scaler = torch.cuda.amp.GradScaler(enabled=mixed)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16 if mixed else torch.bfloat16, enabled=mixed):
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return Loop(step, device, model)


class LanguageModel(nn.Module):
    """Tokens in, a guess of each next token out."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.LSTM(width, width, 2, dropout=0.5, batch_first=True)
        self.guess = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.guess(self.layers(self.tokens(tokens))[0])


def lstm_train(batch: int, device: torch.device, size: Dict) -> Loop:
    vocabulary = size.get("vocabulary", 33_278)
    model = LanguageModel(vocabulary, size.get("width", 650)).to(device).train()
    text = torch.randint(vocabulary, (batch, 36), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()

    return Loop(step, device, model)


class Recommender(nn.Module):
    """Categories and numbers of a visit in, the log-odds of a click out."""

    def __init__(self, tables: int, rows: int, width: int):
        super().__init__()
        # All tables in one, each with an offset of its own.
        self.table = nn.Embedding(tables * rows, width, sparse=True)
        self.numbers = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        inside = (tables + 1) * width
        self.click = nn.Sequential(
            nn.Linear(inside, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        seen = torch.cat([self.table(categories).flatten(1), self.numbers(numbers)], dim=1)
        return self.click(seen).squeeze(1)


def recommender_train(batch: int, device: torch.device, size: Dict) -> Loop:
    tables, rows = 26, size.get("rows", 100_000)
    model = Recommender(tables, rows, size.get("width", 64)).to(device).train()
    offsets = torch.arange(tables, device=device) * rows
    categories = torch.randint(rows, (batch, tables), device=device) + offsets
    numbers = torch.randn(batch, 13, device=device)
    clicks = torch.randint(2, (batch,), device=device).float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = functional.binary_cross_entropy_with_logits
    return training(model, optimizer, lambda: loss(model(categories, numbers), clicks), device)


class DecoderLayer(nn.Module):
    """Attention to all that is in the cache, and a perceptron."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask, self.answer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, state: torch.Tensor, cache: torch.Tensor, place: int) -> torch.Tensor:
        batch, width = state.shape
        query, key, value = self.ask(self.before(state)).view(batch, 3, self.heads, width // self.heads).unbind(1)
        cache[0, :, :, place], cache[1, :, :, place] = key, value
        weights = torch.matmul(cache[0], query.unsqueeze(-1)) * (width // self.heads) ** -0.5
        seen = torch.matmul(weights.softmax(dim=2).transpose(2, 3), cache[1]).reshape(batch, width)
        state = state + self.answer(seen)
        return state + self.think(self.between(state))


class Decoder(nn.Module):
    """A token in, the most likely next one out; what came before lies in the cache."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.guess = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, cache: List[torch.Tensor], place: int) -> torch.Tensor:
        state = self.tokens(tokens)
        for layer, own in zip(self.layers, cache):
            state = layer(state, own, place)
        return self.guess(self.last(state)).argmax(dim=1)


def decode_infer(batch: int, device: torch.device, size: Dict) -> Loop:
    kind = half_where_it_pays(device)
    vocabulary, width, heads = size.get("vocabulary", 50_257), size.get("width", 1024), size.get("heads", 16)
    layers, context = size.get("layers", 24), size.get("context", 1024)
    model = Decoder(vocabulary, width, heads, layers).to(device, kind).eval()
    shape = (2, batch, heads, context, width // heads)
    cache = [torch.randn(shape, device=device).to(kind) for _ in range(layers)]
    state = {"tokens": torch.randint(vocabulary, (batch,), device=device), "place": 0}

    def step() -> None:
        with torch.no_grad():
            state["tokens"] = model(state["tokens"], cache, state["place"])
        # The oldest token makes room: the context keeps its length.
        state["place"] = (state["place"] + 1) % context

    return Loop(step, device, model)


def micro_compute(_: None, device: torch.device, size: Dict) -> Loop:
    side = size.get("side", 4096)
    a, b = torch.randn(side, side, device=device), torch.randn(side, side, device=device)
    product = torch.empty(side, side, device=device)
    return Loop(lambda: torch.mm(a, b, out=product), device)


def micro_dram(_: None, device: torch.device, size: Dict) -> Loop:
    source = torch.zeros(size.get("mib", 512) * MIB, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return Loop(lambda: target.copy_(source), device)


def micro_l2(_: None, device: torch.device, size: Dict) -> Loop:
    on_gpu = device.type == "cuda"
    l2 = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", USUAL_L2) if on_gpu else USUAL_L2
    # Two vectors that are read and one that is written fill half of it.
    numbers = max(1, l2 // 2 // 3 // 4)
    a, b, c = (torch.zeros(numbers, device=device) for _ in range(3))
    sums = size.get("sums", 64)

    def step() -> None:
        for _ in range(sums):
            torch.add(a, b, out=c)

    if not on_gpu:
        return Loop(step, device)
    # One launch for all sums, or the launches would be what is measured.
    step()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return Loop(graph.replay, device)


def micro_pcie(_: None, device: torch.device, size: Dict) -> Loop:
    count, on_gpu = size.get("mib", 128) * MIB, device.type == "cuda"
    here, there = (torch.zeros(count, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2))
    up, down = (torch.zeros(count, dtype=torch.uint8, device=device) for _ in range(2))
    if not on_gpu:
        return Loop(lambda: (up.copy_(here), there.copy_(down)), device)
    streams = [torch.cuda.Stream(device) for _ in range(2)]

    def step() -> None:
        with torch.cuda.stream(streams[0]):
            up.copy_(here, non_blocking=True)
        with torch.cuda.stream(streams[1]):
            there.copy_(down, non_blocking=True)

    return Loop(step, device)


LOOPS = {
    function.__name__: function
    for function in (
        cnn_train,
        cnn_infer,
        encoder_train,
        lstm_train,
        recommender_train,
        decode_infer,
        micro_compute,
        micro_dram,
        micro_l2,
        micro_pcie,
    )
}


def about() -> Dict:
    """Versions of what computes, and whether it sees a GPU."""
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return {**versions, "sees_cuda": torch.cuda.is_available()}


def build(specification: Dict, device: str = "cuda") -> Loop:
    """The loop of a specification (see `gpu.Gpu.start`)."""
    torch.manual_seed(specification["seed"])
    return LOOPS[specification["loop"]](specification["batch"], torch.device(device), specification.get("size", {}))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that GPU memory did not suffice."""
    told = str(error)
    return isinstance(error, getattr(torch.cuda, "OutOfMemoryError", ())) or any(
        words in told for words in ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
    )
