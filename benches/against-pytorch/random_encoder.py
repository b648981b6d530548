"""Makes an encoder of a family's base size with random weights, and a tokenizer for a corpus.

    python random_encoder.py deberta-v2 FOLDER --sentences train.jsonl

`compare.py --family` calls it. Speed does not depend on the values of weights.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

# The settings of published base models where they are not the defaults of transformers.
FAMILIES = {
    "bert": {},
    "roberta": dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1),
    "xlm-roberta": dict(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1),
    "distilbert": {},
    "electra": dict(embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    "albert": dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072, hidden_act="gelu_new"),
    # microsoft/deberta-v3-base
    "deberta-v2": dict(
        vocab_size=128100,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
    ),
    "mpnet": dict(max_position_embeddings=514, layer_norm_eps=1e-5),
    "modernbert": {},
}

# The padding piece has the id that RoBERTa and MPNet expect.
SPECIALS = {"cls_token": "[CLS]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"}


def word_pieces(sentences):
    """A WordPiece tokenizer trained on the words of a corpus."""
    words = (word for line in open(sentences, encoding="utf-8") for word in json.loads(line)["tokens"])
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = list(SPECIALS.values())
    trainer = trainers.WordPieceTrainer(vocab_size=20000, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **SPECIALS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", required=True)
    parser.add_argument("--layers", type=int, help="fewer layers than the base size, to try the script")
    args = parser.parse_args()
    torch.manual_seed(1)
    config = AutoConfig.for_model(args.family, **FAMILIES[args.family])
    if args.layers:
        config.num_hidden_layers = args.layers
    args.folder.mkdir(parents=True, exist_ok=True)
    word_pieces(args.sentences).save_pretrained(args.folder)
    # Last: a folder that has weights has everything.
    AutoModel.from_config(config).save_pretrained(args.folder)


if __name__ == "__main__":
    main()
