"""The heads as transformers' users find them: a classifier of sentence pairs, and losses for `transformers.Trainer`."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    pipeline,
)

from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import KINDS, SENTENCES, build, build_part, pack, pad, save

PREMISES = ["How old are you?", "the dog runs", "", "hello"]
HYPOTHESES = ["the big dog", "", "", "hello you, how are you today?"]
NAMES = ["entailment", "neutral", "contradiction"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind: str, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved multitask model and its tokenizer."""
    return save(build(kind), tiny_tokenizer, tmp_path_factory.mktemp(kind))


def expected_logits(folder: Path) -> np.ndarray:
    return Encoder.from_pretrained(folder).nli_logits(PREMISES, HYPOTHESES)


# -- the classifier ---------------------------------------------------------------------------------------------------


def test_the_config_names_the_three_classes(kind: str, folder: Path) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert config.num_labels == 3
    assert [config.id2label[label] for label in range(3)] == NAMES
    assert config.label2id == {"entailment": 0, "neutral": 1, "contradiction": 2}
    two = AutoConfig.from_pretrained(folder, id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    assert two.num_labels == 2 and type(two)(num_labels=5).num_labels == 5


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_number_of_classes_is_saved(kind: str, folder: Path, tmp_path: Path, labels: int) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=labels, ignore_mismatched_sizes=True)
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.id2label == model.config.id2label and again.nli_head.output.out_features == labels


def test_the_pipeline_classifies_pairs(folder: Path) -> None:
    classify = pipeline("text-classification", str(folder), device="cpu")
    pairs = [{"text": first, "text_pair": second} for first, second in zip(PREMISES, HYPOTHESES, strict=True)]
    probabilities = softmax(expected_logits(folder), axis=1)
    for pair, row in zip(pairs, probabilities, strict=True):
        scores = {answer["label"]: answer["score"] for answer in classify([pair], top_k=None)[0]}
        np.testing.assert_allclose([scores[name] for name in NAMES], row, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_of_pairs_has_the_logits_of_the_multitask_model(folder: Path, side: str) -> None:
    model, loading = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not any(loading.values())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(PREMISES, HYPOTHESES, padding=True, padding_side=side, return_tensors="pt")
    labels = torch.tensor([2, 0, 1, 1])
    output = model.eval()(**batch, labels=labels)
    expected = expected_logits(folder)
    np.testing.assert_allclose(output.logits.numpy(), expected, atol=1e-5)
    losses = -log_softmax(expected.astype(np.float64), axis=1)[np.arange(4), labels]
    assert output.loss.item() == pytest.approx(losses.mean(), abs=1e-5)
    assert model(**batch, labels=labels, num_items_in_batch=8).loss.item() == pytest.approx(losses.sum() / 8, abs=1e-5)
    assert model(**batch).loss is None
    del batch["token_type_ids"]
    with pytest.raises(ValueError, match="return_token_type_ids=True"):
        model(**batch)


def test_a_classifier_saved_by_itself_opens_as_a_classifier_and_as_an_encoder(folder: Path, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.save_pretrained(tmp_path)
    again, loading = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values())
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    encoder, loading = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading.values()) and type(encoder) is type(model.encoder)
    assert set(AutoConfig.from_pretrained(tmp_path).auto_map) == {
        "AutoConfig", "AutoModel", "AutoModelForSequenceClassification",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["dan", "pretrained"], indirect=True)
def test_a_classifier_is_fine_tuned_with_other_labels(kind: str, folder: Path, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, ignore_mismatched_sizes=True)
    assert model.nli_head.output.out_features == 2
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [
        {**tokenizer(first, second), "labels": int(first != second)}
        for first in ("hello", "the dog runs", "how are you")
        for second in ("hello", "the dog runs", "how are you")
    ]
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=9, report_to=[], use_cpu=True,
        learning_rate=0.02, max_steps=60, save_strategy="no", logging_steps=60, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer))
    before = trainer.evaluate(rows)["eval_loss"]
    trainer.train()
    predicted = trainer.predict(rows).predictions.argmax(1)
    assert trainer.evaluate(rows)["eval_loss"] < before / 2
    assert predicted.tolist() == [row["labels"] for row in rows]


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path: Path, tiny_tokenizer) -> None:
    """Whatever the loss is: a mean of squares does not read `num_items_in_batch`, so the Trainer divides it."""
    model = build_part("dan_best", "classifier")
    model.config.problem_type, model.config.num_labels = "regression", 1
    model.nli_head.output = torch.nn.Linear(model.nli_head.output.in_features, 1)
    rows = [{**tiny_tokenizer(word, "the dog"), "labels": float(len(word))} for word in ("a", "see", "hello", "I")]
    weights = []
    for size in (4, 2):
        arguments = TrainingArguments(
            str(tmp_path), max_steps=1, per_device_train_batch_size=size, gradient_accumulation_steps=4 // size,
            learning_rate=0.1, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trained = copy.deepcopy(model)
        trained.encoder.eval()
        collate = DataCollatorWithPadding(tiny_tokenizer)
        Trainer(trained, arguments, train_dataset=rows, data_collator=collate).train()
        weights.append(trained.nli_head.output.weight.detach())
    assert not torch.equal(weights[0], model.nli_head.output.weight)
    torch.testing.assert_close(*weights)


# -- the losses of the multitask model --------------------------------------------------------------------------------


def with_prefix(prefix: str, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{prefix}_{name}": value for name, value in batch.items()}


@torch.no_grad()
@pytest.mark.parametrize("layout", [pack, pad])
def test_losses_are_the_cross_entropies_of_the_outputs(kind: str, layout) -> None:
    model, rows = build(kind), np.arange(len(SENTENCES))
    responses, hypotheses = (
        with_prefix("response", layout(SENTENCES[::-1])),
        with_prefix("hypothesis", layout(SENTENCES)),
    )
    labels = torch.tensor([0, 1, 2, 1, 2, 0, 0])
    batch = layout(SENTENCES)
    output = model(**batch, **responses, **hypotheses, labels=labels, return_loss=True)
    scale = 1.0 if output.response_scale is None else output.response_scale.double().numpy()
    scores = scale * output.pooler_output.double().numpy() @ output.response_embeds.double().numpy().T
    response_loss = -log_softmax(scores, axis=1)[rows, rows]
    label_loss = -log_softmax(output.nli_logits.double().numpy(), axis=1)[rows, labels]
    assert output.loss.item() == pytest.approx(response_loss.mean() + label_loss.mean(), rel=1e-5)
    assert model(**batch, **responses, return_loss=True).loss.item() == pytest.approx(response_loss.mean(), rel=1e-5)
    one = model(**batch, **hypotheses, labels=labels, num_items_in_batch=14)
    assert one.loss.item() == pytest.approx(label_loss.sum() / 14, rel=1e-5)
    assert model(**batch, **responses, **hypotheses).loss is None


def test_the_loss_of_a_model_with_an_input_network_scores_its_query_vectors() -> None:
    model = build("dan_input_network")
    batch, responses = pad(SENTENCES), with_prefix("response", pad(SENTENCES[::-1]))
    output = model(**batch, **responses, return_loss=True)
    scores = (output.response_scale * output.query_embeds @ output.response_embeds.T).detach().double().numpy()
    assert output.loss.item() == pytest.approx(-np.diag(log_softmax(scores, axis=1)).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": torch.zeros(7, dtype=torch.int64)}, "hypothesis_input_ids"),
        ({"return_loss": True}, "response_input_ids"),
    ],
)
def test_a_loss_without_its_texts_is_refused(kind: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(kind)(**pad(SENTENCES), **options)
