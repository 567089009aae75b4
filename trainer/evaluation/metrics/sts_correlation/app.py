"""The metric's Space: a form that computes it."""

import json

import gradio as gr
from sts_correlation import StsCorrelation

metric = StsCorrelation()


def compute(predictions: str, references: str) -> dict:
    """Compute the metric of inputs written as JSON lists."""
    return metric.compute(predictions=json.loads(predictions), references=json.loads(references))


if __name__ == "__main__":
    gr.Interface(
        fn=compute,
        inputs=[
            gr.Textbox(label="predictions (JSON)", value="[0.9, 0.1, 0.5, 0.4]"),
            gr.Textbox(label="references (JSON)", value="[5.0, 0.0, 2.5, 3.0]"),
        ],
        outputs=gr.JSON(),
        title="STS correlation",
        description=metric.description,
        article=metric.inputs_description,
    ).launch()
