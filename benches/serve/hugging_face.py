#!/usr/bin/env python3
"""Uses a service with Hugging Face's own client: pip install huggingface_hub

    nerzoo serve -m runs/quickstart --port 8080 &
    python3 benches/serve/hugging_face.py http://127.0.0.1:8080
"""

import sys

from huggingface_hub import InferenceClient

address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
text = "Marta Keller visited the University of Lindholm."
client = InferenceClient(model=address)
for strategy in (None, "simple", "none"):
    entities = client.token_classification(text, aggregation_strategy=strategy)
    print(strategy, [(one.entity_group or one.entity, one.word, one.start, one.end, round(one.score, 3)) for one in entities])
    assert all(text[one.start : one.end] == one.word for one in entities)
labels = {one.entity_group for one in client.token_classification(text)}
if labels:
    ignored = sorted(labels)[0]
    left = {one.entity_group for one in client.token_classification(text, ignore_labels=[ignored])}
    assert left == labels - {ignored}, left
