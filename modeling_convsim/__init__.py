"""Sentence encoders that learn what sentences mean from how people answer them.

Importing this package registers its models with `AutoConfig`, `AutoModel` (the encoder) and `AutoModelForPreTraining`
(the encoder with its response and inference heads).
"""

from transformers import AutoConfig, AutoModel, AutoModelForPreTraining

from .encoding import Encoder
from .modeling_base import (
    ConvSimConfig,
    ConvSimEncoder,
    ConvSimForMultitask,
    ConvSimMultitaskOutput,
    ConvSimPreTrainedModel,
    NliHead,
    ResponseHead,
)
from .modeling_bilstm import ConvSimBilstmConfig, ConvSimBilstmForMultitask, ConvSimBilstmModel
from .modeling_cbow import ConvSimCbowConfig, ConvSimCbowForMultitask, ConvSimCbowModel
from .modeling_dan import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimDanModel
from .modeling_transformer import (
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
    ConvSimTransformerModel,
)

__all__ = [
    "ConvSimBilstmConfig",
    "ConvSimBilstmForMultitask",
    "ConvSimBilstmModel",
    "ConvSimCbowConfig",
    "ConvSimCbowForMultitask",
    "ConvSimCbowModel",
    "ConvSimConfig",
    "ConvSimDanConfig",
    "ConvSimDanForMultitask",
    "ConvSimDanModel",
    "ConvSimEncoder",
    "ConvSimForMultitask",
    "ConvSimMultitaskOutput",
    "ConvSimPreTrainedModel",
    "ConvSimTransformerConfig",
    "ConvSimTransformerForMultitask",
    "ConvSimTransformerModel",
    "Encoder",
    "NliHead",
    "ResponseHead",
]

# exist_ok: a folder opened with trust_remote_code=True may have registered the same model types before this import.
for _config, _encoder, _multitask in (
    (ConvSimDanConfig, ConvSimDanModel, ConvSimDanForMultitask),
    (ConvSimTransformerConfig, ConvSimTransformerModel, ConvSimTransformerForMultitask),
    (ConvSimCbowConfig, ConvSimCbowModel, ConvSimCbowForMultitask),
    (ConvSimBilstmConfig, ConvSimBilstmModel, ConvSimBilstmForMultitask),
):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _encoder, exist_ok=True)
    AutoModelForPreTraining.register(_config, _multitask, exist_ok=True)
