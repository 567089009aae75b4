"""The update of a model with scaled losses (fp16): both optimizers, each gradient unscaled once."""

from collections.abc import Iterator

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor, nn
from transformers import AutoTokenizer

from data_scripts.errors import InputError
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from modeling_convsim.encoding.checksums import write_checksums
from trainer.arguments import Arguments
from trainer.training.loading import load_pretrained
from trainer.training.model import build_model
from trainer.training.model_evaluator import ModelEvaluator
from trainer.training.trainable_model import TrainableModel

RATE = 0.5
BATCH = {"input_ids": torch.tensor([3, 3, 7, 1, 2]), "cu_seqlens": torch.tensor([0, 3, 5])}


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    """An Accelerator that scales losses as it does on a GPU in fp16; the layers compute in float32."""
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=True, mixed_precision="fp16")
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    yield accelerator
    AcceleratorState._reset_state(reset_partial_state=True)


def new_model() -> ConvSimDanForMultitask:
    torch.manual_seed(0)
    sizes = {"vocab_size": 10, "word_embedding_size": 4, "bigram_buckets": 8, "hidden_sizes": [4], "embedding_size": 3}
    return ConvSimDanForMultitask(ConvSimDanConfig(**sizes, response_hidden_sizes=[3], nli_hidden_size=3))


def trainable(accelerator: Accelerator, **options) -> TrainableModel:
    model = TrainableModel(new_model(), Arguments(optimizer="adamw", learning_rate=RATE, **options), accelerator)
    accelerator.native_amp = True  # from here on only: the layers compute in float32
    return model


def loss_of(model: nn.Module, batch: dict[str, Tensor] = BATCH) -> Tensor:
    return (model(**batch).pooler_output * torch.tensor([1.0, -2.0, 3.0])).sum()


class FloatReference:
    """The same model in float64: AdamW of torch for the layers, row-wise Adagrad by its formula for the tables."""

    def __init__(self, max_norm: float | None) -> None:
        self.model, self.max_norm = new_model().double(), max_norm
        self.tables = self.model.embedding_tables()
        held = {id(table) for table in self.tables}
        layers = [parameter for parameter in self.model.parameters() if id(parameter) not in held]
        self.layers = torch.optim.AdamW(layers, lr=RATE, weight_decay=0.0)
        self.sums = [torch.zeros(len(table), dtype=torch.float64) for table in self.tables]

    def step(self) -> None:
        self.model.zero_grad()
        loss_of(self.model).backward()
        if self.max_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.layers.step()
        for table, sums in zip(self.tables, self.sums, strict=True):
            sums += table.grad.square().mean(1)
            table.data -= RATE * table.grad / (sums.sqrt() + 1e-10).unsqueeze(1)


@pytest.mark.parametrize("max_norm", [None, 0.01])
def test_two_optimizers_with_a_scaled_loss_make_the_steps_of_float64(accelerator, max_norm):
    reference = FloatReference(max_norm)
    model = trainable(accelerator, max_grad_norm=max_norm)
    for _ in range(3):  # the scale grows at every step
        reference.step()
        model.backward(loss_of(model.wrapped))
        model.apply_gradients()
    assert accelerator.scaler.get_scale() == 2.0**13
    parameters = zip(reference.model.named_parameters(), model.wrapped.parameters(), strict=True)
    for (name, expected), actual in parameters:
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("overflows", ["layers", "tables"])
def test_an_overflow_in_one_optimizer_skips_the_step_of_both(accelerator, overflows):
    model = trainable(accelerator, max_grad_norm=1.0)
    before = {name: value.clone() for name, value in model.wrapped.state_dict().items()}
    held = {id(table) for table in model.wrapped.embedding_tables()}
    model.backward(loss_of(model.wrapped))
    for parameter in model.wrapped.parameters():
        if parameter.grad is not None and (id(parameter) in held) == (overflows == "tables"):
            (parameter.grad._values() if parameter.grad.is_sparse else parameter.grad).fill_(torch.inf)
            break
    model.apply_gradients()
    for name, value in model.wrapped.state_dict().items():
        assert value.equal(before[name]), name
    assert accelerator.scaler.get_scale() == 2.0**9


def test_a_model_to_start_from_trains_with_dropout_also_after_an_evaluation(tiny_tokenizer, tmp_path):
    sizes = {"vocab_size": len(tiny_tokenizer), "word_embedding_size": 4, "hidden_sizes": [4], "embedding_size": 3}
    config = ConvSimDanConfig(**sizes, token_dropout=0.5, response_hidden_sizes=[3], nli_hidden_size=3)
    ConvSimDanForMultitask(config).save_pretrained(tmp_path)
    arguments = Arguments(initialize_from=str(tmp_path))
    AcceleratorState._reset_state(reset_partial_state=True)
    trainable = TrainableModel(build_model(arguments, tiny_tokenizer), arguments, Accelerator(cpu=True))

    def varies() -> bool:
        torch.manual_seed(0)
        return len({trainable.wrapped(**BATCH).pooler_output.sum().item() for _ in range(10)}) > 1

    assert varies()
    evaluator = ModelEvaluator(trainable.full, tiny_tokenizer, {}, skip=(), threads=1)
    evaluator.evaluate("dev")
    assert varies()


def test_a_model_to_start_from_must_be_whole(tiny_tokenizer, tmp_path):
    sizes = {"vocab_size": len(tiny_tokenizer), "word_embedding_size": 4, "hidden_sizes": [4], "embedding_size": 3}
    model = ConvSimDanForMultitask(ConvSimDanConfig(**sizes, response_hidden_sizes=[3], nli_hidden_size=3))
    model.get_parameter("encoder.embed_tokens.weight").data[3, 1] = torch.nan
    model.save_pretrained(tmp_path)
    arguments = Arguments(initialize_from=str(tmp_path))
    with pytest.raises(InputError, match=r"initialize_from: the weights encoder\.embed_tokens\.weight .* not finite"):
        build_model(arguments, tiny_tokenizer)
    write_checksums(tmp_path, ["config.json"])
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text() + " ")
    with pytest.raises(InputError, match=r"config\.json is damaged: its checksum differs"):
        build_model(arguments, tiny_tokenizer)


def test_a_damaged_tokenizer_is_refused_in_one_line(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "trunc')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with pytest.raises(InputError, match=r"^tokenizer: .* cannot be loaded: .+$"):
        load_pretrained(AutoTokenizer, str(tmp_path), "tokenizer")
