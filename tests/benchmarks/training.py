"""Training speed: our training loop against the trainer of sentence-transformers, on the same pairs."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sentence_transformers.util import dot_score
from torch import nn
from transformers import TrainerCallback

from modeling_convsim.encoding.torch_model import has_fast_bfloat16
from modeling_convsim.modeling_heads import ConvSimForMultitask
from modeling_convsim.modeling_transformer import ConvSimTransformerConfig, ConvSimTransformerModel
from tests.benchmarks.material import MAX_TOKENS, Material
from tests.benchmarks.measuring import Benchmark, Contender, Values, peak_megabytes, time_steps
from trainer.data.datasets import load_run_data
from trainer.processes import start_accelerator
from trainer.runs import RunContext
from trainer.settings import build_settings
from trainer.training.inputs import build_tasks, build_tokenizer
from trainer.training.loop import TrainingLoop
from trainer.training.model import build_model
from trainer.training.train import plan_batches
from trainer.training.trainable_model import TrainableModel

WARM_UP = 5
SMALL_BATCH = 512
SMALL_TRANSFORMER = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "embedding_size": 256}
MAX_STEPS = 100_000  # never reached: measurements end after some seconds


def dan(material: Material, batch_size: int, words: float = 1, pairs: str = "pairs") -> Values:
    """Measure our DAN with the paper's layers over word and bigram embeddings; `words`: share of the vocabulary."""
    batch_size = min(batch_size, material.largest_batch)
    config = {"word_embedding_size": material.width, "bigram_buckets": material.bigram_buckets}
    loop, _ = _start(material, "dan", config, batch_size, round(words * material.words), material.folder / pairs)
    return _values(batch_size, *time_steps(loop.step, WARM_UP, material.seconds))


def static_embedding(material: Material, batch_size: int, sparse: bool = False) -> Values:
    """Measure a StaticEmbedding in the sentence-transformers trainer, with AdamW (its default) or sparse Adagrad."""
    batch_size = min(batch_size, material.largest_batch)
    module = StaticEmbedding(material.tokenizer(material.words), embedding_dim=material.width)
    model = SentenceTransformer(modules=[module], device="cpu")
    settings: dict[str, Any] = {}
    optimizer = None
    if sparse:
        module.embedding.sparse = True
        settings["max_grad_norm"] = 0.0
        optimizer = torch.optim.Adagrad(model.parameters())
    return _train_peer(material, model, MultipleNegativesRankingLoss(model), batch_size, optimizer, settings)


def transformer(material: Material, batch_size: int) -> Values:
    """Measure our Transformer at the paper's size, with AdamW."""
    batch_size = min(batch_size, material.largest_batch)
    config = material.transformer_config
    loop, _ = _start(material, "transformer", config, batch_size, material.transformer_words, material.pairs)
    return _per_token(material, _values(batch_size, *time_steps(loop.step, 1, 2 * material.seconds)))


def transformer_peer(material: Material, batch_size: int) -> Values:
    """Measure the same model and loss in the sentence-transformers trainer: padded, tokenized during training."""
    batch_size = min(batch_size, material.largest_batch)
    model = SentenceTransformer(str(material.transformer), device="cpu")
    loss = MultipleNegativesRankingLoss(model, scale=1.0, similarity_fct=dot_score)
    settings = {"router_mapping": {"input": "query", "response": "document"}, "learning_rate": 1e-4}
    return _per_token(material, _train_peer(material, model, loss, batch_size, None, settings, 1, 2 * material.seconds))


def small_transformer(material: Material, layers: int) -> Values:
    """Measure whole steps of a Transformer of 256 dimensions, with AdamW and dropout."""
    batch_size = min(SMALL_BATCH, material.largest_batch)
    loop, _ = _start(
        material, "transformer", SMALL_TRANSFORMER | {"num_hidden_layers": layers}, batch_size,
        material.transformer_words, material.pairs,
    )  # fmt: skip
    return _values(batch_size, *time_steps(loop.step, 1, material.seconds))


def layer_products(material: Material, layers: int) -> Values:
    """Measure only the matrix products of that Transformer's layers, forward and backward, on as many tokens."""
    batch_size = min(SMALL_BATCH, material.largest_batch)
    columns = material.token_columns(material.transformer_words).values()
    tokens = round(batch_size * sum(len(column.ids) / len(column) for column in columns))
    config = ConvSimTransformerConfig(vocab_size=8, **SMALL_TRANSFORMER, num_hidden_layers=layers)
    dtype = torch.bfloat16 if has_fast_bfloat16(torch.device("cpu")) else torch.float32
    linear = [module for module in ConvSimTransformerModel(config).modules() if isinstance(module, nn.Linear)]
    operands = [
        (torch.randn(tokens, module.in_features), module.weight.detach(), torch.randn(tokens, module.out_features))
        for module in linear
    ]
    operands = [tuple(operand.to(dtype) for operand in three) for three in operands]

    def step(_: int) -> None:
        for inputs, weights, gradients in operands:
            inputs @ weights.T, gradients @ weights, gradients.T @ inputs

    return _values(batch_size, *time_steps(step, 1, material.seconds))


def gpu_transformer(material: Material) -> Values:
    """Measure operations per second at the paper's size in bf16, counting only dense layers and scores."""
    batch_size = material.largest_batch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loop, model = _start(
        material, "transformer", material.transformer_config, batch_size, material.transformer_words, material.pairs,
        mixed_precision="bf16",
    )  # fmt: skip

    def step(index: int) -> None:
        loop.step(index)
        if device == "cuda":
            torch.cuda.synchronize()

    values = _per_token(material, _values(batch_size, *time_steps(step, WARM_UP, material.seconds)))
    encoder, head = (
        sum(module.weight.numel() for module in part.modules() if isinstance(module, nn.Linear))
        for part in (model.encoder, model.response_head)
    )
    scores = batch_size * model.config.embedding_size
    # Six operations per weight: two forward, four backward.
    operations = 6 * (encoder * values["tokens/s"] + (head + scores) * values["pairs/s"])
    return {"Tflop/s": operations / 1e12}


def matrix_rate(material: Material) -> Values:
    """Measure operations per second of large bf16 matrix products, an upper bound for training."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = 8192 if material.real else 64
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))

    def step(_: int) -> None:
        for _ in range(10):
            torch.matmul(a, b)
        if device == "cuda":
            torch.cuda.synchronize()

    steps, elapsed = time_steps(step, WARM_UP, material.seconds / 3)
    return {"Tflop/s": 10 * steps * 2 * size**3 / elapsed / 1e12}


def _start(
    material: Material,
    model_type: str,
    config: dict[str, Any],
    batch_size: int,
    words: int,
    pairs: Path,
    **options: Any,
) -> tuple[TrainingLoop, ConvSimForMultitask]:
    """Build the loop of a run and its model as `trainer.training.train` does, without evaluation or saving."""
    arguments = build_settings(
        model_type=model_type,
        model_config=config,
        tokenizer=str(material.tokenizer_folder(words)),
        max_tokens=MAX_TOKENS,
        pairs=[str(pairs)],
        cache_dir=str(material.folder / "cache"),
        tasks={"response_prediction": 1},
        optimizer="adamw",
        learning_rate=1e-3 if model_type == "dan" else 1e-4,
        max_grad_norm=1.0,  # the default of the peer's trainer
        max_steps=MAX_STEPS,
        batch_size=batch_size,
        trackers=["none"],
        output_dir=tempfile.gettempdir(),
        **options,
    )
    accelerator = start_accelerator(arguments)
    data = load_run_data(arguments)
    tokenizer = build_tokenizer(arguments, data)
    tasks = build_tasks(arguments, data, tokenizer, show_progress=False)
    model = build_model(arguments, tokenizer)
    model.train()
    trainable = TrainableModel(model, arguments, accelerator)
    plan = plan_batches(arguments, tasks, accelerator.num_processes)
    context = RunContext(arguments, accelerator, Path(arguments.output_dir))
    loop = TrainingLoop(context, trainable, tasks, plan)
    return loop, model


class _SparseTrainer(SentenceTransformerTrainer):
    """The peer's trainer without the gradient norm, which it computes even without clipping and not for sparse ones."""

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> None:
        return None


class _Clock(TrainerCallback):
    """Times the steps after a warm-up, and stops the training after `seconds`."""

    def __init__(self, warm_up: int, seconds: float) -> None:
        self.warm_up, self.seconds = warm_up, seconds
        self.steps, self.started, self.elapsed = 0, 0.0, 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.warm_up:
            self.started = time.perf_counter()
        elif state.global_step > self.warm_up:
            self.steps = state.global_step - self.warm_up
            self.elapsed = time.perf_counter() - self.started
            control.should_training_stop = self.elapsed >= self.seconds


def _train_peer(
    material: Material,
    model: SentenceTransformer,
    loss: nn.Module,
    batch_size: int,
    optimizer: torch.optim.Optimizer | None,
    settings: dict[str, Any],
    warm_up: int = WARM_UP,
    seconds: float | None = None,
) -> Values:
    clock = _Clock(warm_up, seconds or material.seconds)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=MAX_STEPS,
            per_device_train_batch_size=batch_size,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        )
        trainer_class = _SparseTrainer if optimizer else SentenceTransformerTrainer
        trainer = trainer_class(
            model=model,
            args=arguments,
            train_dataset=material.train_pairs().select_columns(["input", "response"]),
            loss=loss,
            callbacks=[clock],
            optimizers=(optimizer, None),  # type: ignore[arg-type]
        )
        trainer.train()
    return _values(batch_size, clock.steps, clock.elapsed)


def _values(batch_size: int, steps: int, elapsed: float) -> Values:
    rate = steps * batch_size / elapsed
    return {"pairs/s": rate, "microseconds/pair": 1e6 / rate, "MB": peak_megabytes()}


def _per_token(material: Material, values: Values) -> Values:
    """Add tokens per second, counting the same tokens, without padding, for every contender."""
    columns = material.token_columns(material.transformer_words).values()
    tokens_per_pair = sum(len(column.ids) / len(column) for column in columns)
    return values | {"tokens/s": values["pairs/s"] * tokens_per_pair}


def _dan(batch_size: int, name: str = "ours", **options: Any) -> Contender:
    return Contender(name, dan, {"batch_size": batch_size, **options})


def _static(batch_size: int) -> Contender:
    name = "sentence-transformers trainer, StaticEmbedding + MultipleNegativesRankingLoss, its default optimizer"
    return Contender(name, static_embedding, {"batch_size": batch_size})


def _steps(layers: int) -> Benchmark:
    return Benchmark(
        f"Transformer of {layers} layers of 256 dimensions, batch 512, dropout, AdamW: whole steps", "pairs/s", 0.8,
        Contender("ours", small_transformer, {"layers": layers}),
        Contender("the matrix products of its layers alone", layer_products, {"layers": layers}),
    )  # fmt: skip


SPARSE_STATIC = Contender(
    "sentence-transformers trainer, StaticEmbedding + MultipleNegativesRankingLoss, sparse gradients, Adagrad, without "
    "the gradient norm", static_embedding, {"batch_size": 128, "sparse": True},
)  # fmt: skip
CARD = Contender("the card's own rate on bf16 matrix products of size 8,192", matrix_rate)
SIZES = "DAN, 200,000 words and 2^18 bigrams, width 300, row-wise Adagrad and AdamW, clipped, bf16 where possible"
BENCHMARKS = {
    "train_dan_128": Benchmark(f"{SIZES}; batch 128", "pairs/s", 20, _dan(128), _static(128)),
    "train_dan_128_sparse": Benchmark(f"{SIZES}; batch 128", "pairs/s", 1, _dan(128), SPARSE_STATIC),
    "train_dan_2048": Benchmark(f"{SIZES}; batch 2,048", "pairs/s", 1.2, _dan(2048), _static(2048)),
    "memory_dan": Benchmark(
        "peak resident memory of train_dan_128 (460,000 rows against 200,000)", "MB", 1, _dan(128), _static(128),
        "lower",
    ),
    "train_transformer": Benchmark(
        "paper size, batch 128, AdamW, ours in bf16 where the processor has it, tokens exclude padding", "tokens/s",
        1.5, Contender("ours", transformer, {"batch_size": 128}),
        Contender(
            "sentence-transformers trainer, same model and loss, its default optimizer", transformer_peer,
            {"batch_size": 128},
        ),
    ),
    "train_transformer_steps_2": _steps(2),
    "train_transformer_steps_4": _steps(4),
    "growth_pairs": Benchmark(
        "DAN training, batch 128, with ten times the pairs", "microseconds/pair", 1.1, _dan(128),
        _dan(128, "ours on a tenth of the pairs", pairs="tenth_of_pairs"), "lower",
    ),
    "growth_vocabulary": Benchmark(
        "DAN training, batch 128, with ten times the words", "microseconds/pair", 1.2, _dan(128),
        _dan(128, "ours with a tenth of the words", words=0.1), "lower",
    ),
    "gpu_transformer": Benchmark(
        "paper size, batch 2,048, bf16; operations of the dense layers and scores", "Tflop/s", 0.4,
        Contender("ours", gpu_transformer), CARD, needs="GPU",
    ),
}  # fmt: skip
