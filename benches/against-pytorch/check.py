"""Whether a twin computes what nerzoo computes: with the weights of a nerzoo model it should find the same entities.

    nerzoo train model-zoo/recipes/bopn-genia-minilm.toml --set data.limit=1000 --set train.tune=false --out FOLDER
    nerzoo data convert GENIA/test.jsonl words.jsonl
    nerzoo predict --model FOLDER words.jsonl --format tokens_jsonl --out found.jsonl
    python check.py --model FOLDER --encoder ENCODER --sentences words.jsonl --found found.jsonl

For BERT as the encoder and the heads BOPN, Locate and Label and DiffusionNER with the settings of their GENIA recipes.
DiffusionNER starts from noise, which is not the same in the two programs: only the scores can be compared.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file

import twin

ENCODER = {
    "word_embeddings": "embeddings.word_embeddings",
    "position_embeddings": "embeddings.position_embeddings",
    "token_type_embeddings": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
ENCODER_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward_inner": "intermediate.dense",
    "feed_forward_outer": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
# By head: our modules and the twin's. Linear layers have transposed weights, norms other names.
HEAD = {
    "bopn": {
        "biaffine.left": "biaffine.left",
        "biaffine.right": "biaffine.right",
        "span_norm.gamma": "gamma",
        "span_norm.beta": "beta",
        "region": "region",
        "convolutions.layers.0": "convolutions.0",
        "convolutions.layers.1": "convolutions.1",
        "convolutions.layers.2": "convolutions.2",
        "convolutions.predictor": "predictor",
    },
    "locate_label": {
        f"{part}.{layer}": f"{part}.{number}"
        for part in ["filter", "regressor", "classifier"]
        for layer, number in [("inner", 1), ("outer", 3)]
    },
    "diffusion_ner": {
        "classifier.inner": "classifier.0",
        "classifier.outer": "classifier.2",
        "layers.0.self_attention.output": "layer.self_attn.out_proj",
        "layers.0.cross_attention.output": "layer.multihead_attn.out_proj",
        "layers.0.self_norm": "layer.norm1",
        "layers.0.cross_norm": "layer.norm2",
        "layers.0.feed_norm": "layer.norm3",
        "layers.0.inner": "layer.linear1",
        "layers.0.outer": "layer.linear2",
        **{f"{side}.{part}": f"{side}.{part}" for side in ["left", "right"] for part in ["words", "spans", "output"]},
    },
}


def weights(ours, layers, head):
    """The twin's tensors from those of a nerzoo model; every tensor is used once."""
    found = {}

    def module(theirs, name):
        for key in ["weight", "bias", "gamma", "beta"]:
            if f"{theirs}.{key}" in ours:
                tensor = ours.pop(f"{theirs}.{key}")
                is_linear = key == "weight" and tensor.dim() == 2 and "embedding" not in theirs and "region" not in theirs
                name_of = {"gamma": "weight", "beta": "bias"}.get(key, key)
                found[f"{name}.{name_of}"] = tensor.t() if is_linear else tensor

    def lstm(theirs, layer):
        weight, bias = ours.pop(f"{theirs}.input.weight").chunk(2, 1), ours.pop(f"{theirs}.input.bias").chunk(2)
        recurrent = ours.pop(f"{theirs}.recurrent")
        for side, suffix in enumerate([f"l{layer}", f"l{layer}_reverse"]):
            found[f"head.lstm.weight_ih_{suffix}"] = weight[side].t()
            found[f"head.lstm.weight_hh_{suffix}"] = recurrent[side].t()
            found[f"head.lstm.bias_ih_{suffix}"] = bias[side]
            found[f"head.lstm.bias_hh_{suffix}"] = torch.zeros_like(bias[side])

    for theirs, name in ENCODER.items():
        module(f"encoder.transformer.{theirs}", f"encoder.{name}")
    for layer in range(layers):
        for theirs, name in ENCODER_LAYER.items():
            module(f"encoder.transformer.layers.{layer}.{theirs}", f"encoder.encoder.layer.{layer}.{name}")
    if head == "bopn":
        found["head.prompts"], found["head.biaffine.form"] = ours.pop("head.types"), ours.pop("head.biaffine.form")
        lstm("head.lstm", 0)
    if head == "diffusion_ner":
        for layer in range(2):
            lstm(f"head.lstm.{layer}", layer)
        for theirs, name in [("self_attention", "self_attn"), ("cross_attention", "multihead_attn")]:
            parts = [f"head.layers.0.{theirs}.{part}" for part in ["query", "key", "value"]]
            found[f"head.layer.{name}.in_proj_weight"] = torch.cat([ours.pop(f"{p}.weight").t() for p in parts])
            found[f"head.layer.{name}.in_proj_bias"] = torch.cat([ours.pop(f"{p}.bias") for p in parts])
    for theirs, name in HEAD[head].items():
        module(f"head.{theirs}", f"head.{name}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a model folder of nerzoo")
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--sentences", required=True)
    parser.add_argument("--found", required=True, help="nerzoo's entities in these sentences")
    args = parser.parse_args()
    described = json.loads((args.model / "config.json").read_text())
    types = {name: number for number, name in enumerate(described["labels"])}
    model = twin.Model(args.encoder, len(types), described["head"])
    ours = load_file(args.model / "model.safetensors")
    tensors = weights(ours, model.encoder.config.num_hidden_layers, described["head"])
    missing = model.load_state_dict(tensors, strict=False)
    # Position numbers and the noise schedule are not learned.
    missing = [name for name in missing.missing_keys if not name.endswith(("position_ids", "schedule"))]
    print(json.dumps({"tensors without a place": list(ours), "tensors that are missing": missing}))
    sentences, found = twin.numbered(twin.read(args.sentences), types), twin.numbered(twin.read(args.found), types)
    tokenizer = twin.AutoTokenizer.from_pretrained(args.encoder)
    model.eval()
    same = entities = 0
    with torch.no_grad():
        for first in range(0, len(sentences), 32):
            part = sentences[first : first + 32]
            answers = model.entities(twin.collate(part, tokenizer, model, False))
            for (_, other), answer in zip(found[first : first + 32], answers):
                same += set(other) == set(answer)
                entities += len(answer)
    result = {"sentences": len(sentences), "with the same entities": same, "entities": entities}
    result["twin"] = twin.evaluate(model, model.head, tokenizer, sentences)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
