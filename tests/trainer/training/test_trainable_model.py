"""The update of a model by both optimizers."""

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from trainer.settings import Settings
from trainer.training.trainable_model import TrainableModel, build_optimizers

RATE, DECAY = 0.5, 0.3
BATCH = {"input_ids": torch.tensor([3, 3, 7, 1, 2]), "cu_seqlens": torch.tensor([0, 3, 5])}


@pytest.fixture
def accelerator() -> Accelerator:
    return Accelerator(cpu=True)


def new_model() -> ConvSimDanForMultitask:
    torch.manual_seed(0)
    sizes = {"vocab_size": 10, "word_embedding_size": 4, "bigram_buckets": 8, "hidden_sizes": [4], "embedding_size": 3}
    return ConvSimDanForMultitask(ConvSimDanConfig(**sizes, response_hidden_sizes=[3], nli_hidden_size=3))


def build(accelerator: Accelerator, **options) -> TrainableModel:
    return TrainableModel(new_model(), Settings(learning_rate=RATE, **options), accelerator)


def loss_of(model: nn.Module, batch: dict[str, Tensor] = BATCH) -> Tensor:
    return (model(**batch).pooler_output * torch.tensor([1.0, -2.0, 3.0])).sum()


class FloatReference:
    """The same model in float64: AdamW of torch for the layers, row-wise Adagrad by its formula for the tables."""

    def __init__(self, max_norm: float | None) -> None:
        self.model, self.max_norm = new_model().double(), max_norm
        self.tables = self.model.embedding_tables()
        held = {id(table) for table in self.tables}
        layers = [parameter for parameter in self.model.parameters() if id(parameter) not in held]
        groups = [{"params": [p for p in layers if (p.ndim >= 2) == is_matrix], "weight_decay": DECAY * is_matrix}
                  for is_matrix in (True, False)]  # fmt: skip
        self.layers = torch.optim.AdamW(groups, lr=RATE)
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
def test_two_optimizers_make_the_steps_of_float64(accelerator, max_norm):
    reference = FloatReference(max_norm)
    model = build(accelerator, optimizer="adamw", weight_decay=DECAY, max_grad_norm=max_norm)
    for _ in range(3):
        reference.step()
        accelerator.backward(loss_of(model.wrapped))
        model.apply_gradients()
    parameters = zip(reference.model.named_parameters(), model.wrapped.parameters(), strict=True)
    for (name, expected), actual in parameters:
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_sgd_subtracts_each_gradient_times_its_rate_once(accelerator):
    model, reference = build(accelerator, optimizer="sgd"), new_model()
    for step, (layers, tables) in enumerate([(0.5, 0.1), (0.2, 3.0)]):
        model.set_learning_rates(layers=layers, tables=tables)
        accelerator.backward(loss_of(model.wrapped))
        model.apply_gradients()
        assert all(parameter.grad is None for parameter in model.wrapped.parameters())
        reference.zero_grad()
        loss_of(reference).backward()
        held = {id(table) for table in reference.embedding_tables()}
        with torch.no_grad():
            for parameter in reference.parameters():
                if parameter.grad is not None:
                    parameter -= (tables if id(parameter) in held else layers) * parameter.grad
        pairs = zip(reference.named_parameters(), model.wrapped.parameters(), strict=True)
        for (name, expected), actual in pairs:
            torch.testing.assert_close(actual, expected, msg=lambda text, n=name, s=step: f"step {s}, {n}: {text}")


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_weight_that_is_not_finite_is_found(accelerator, value):
    model = build(accelerator)
    assert model.has_finite_weights()
    with torch.no_grad():
        list(model.wrapped.parameters())[-1].view(-1)[-1] = value
    assert not model.has_finite_weights()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("trained", ["layer", "table", "neither"])
def test_frozen_parameters_have_no_optimizer(name, trained):
    model = nn.ModuleDict({"table": nn.Embedding(20, 4, sparse=True), "layer": nn.Linear(4, 2)}).requires_grad_(False)
    if trained != "neither":
        model[trained].requires_grad_(True)
    optimizers = build_optimizers(model, [model["table"].weight], name, 0.1, 0.1)
    held = [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in held} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(optimizers) == (trained != "neither")
