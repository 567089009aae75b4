"""The metric's Space: a form that computes it."""

import json

import gradio as gr
from mean_average_precision import MeanAveragePrecision

metric = MeanAveragePrecision()


def compute(predictions: str, references: str, queries: str) -> dict:
    """Compute the metric of inputs written as JSON lists."""
    return metric.compute(
        predictions=json.loads(predictions), references=json.loads(references), queries=json.loads(queries)
    )


if __name__ == "__main__":
    gr.Interface(
        fn=compute,
        inputs=[
            gr.Textbox(label="predictions (JSON)", value="[0.9, 0.2, 0.4]"),
            gr.Textbox(label="references (JSON)", value="[0, 1, 1]"),
            gr.Textbox(label="queries (JSON)", value='["q1", "q1", "q1"]'),
        ],
        outputs=gr.JSON(),
        title="Mean average precision",
        description=metric.description,
        article=metric.inputs_description,
    ).launch()
