# SPDX-License-Identifier: Apache-2.0
# Does the model of examples/python/transformer_inference.py compute what it should? A prompt that is taken at once, with
# many tokens in each matrix, must lead to the token that it leads to when it is fed one by one through the decode step.
# Prints how often it does. With an argument: on that device.
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
from transformer_inference import Model, Size, make_prompt  # noqa: E402 (found by the line above)

device, lengths = (sys.argv + ["cuda"])[1], (2, 3, 17, 64, 100)
torch.manual_seed(1)
with torch.inference_mode():
    model = Model(Size(), device, torch.float32)
    agreed = 0
    for length in lengths:
        prompt = make_prompt(model.size, length, device)
        model.prefill(prompt)
        at_once = model.token.item()
        model.position.fill_(0)
        for i in range(length):
            model.token.copy_(prompt[i:i + 1])
            model.step()
        agreed += model.token.item() == at_once
print(f"{agreed} of {len(lengths)} prompts lead to the same token at once and one by one")
sys.exit(0 if agreed == len(lengths) else 1)
