#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The OpenAI client with `nib serve`: examples/openai_client.py [URL]

Nothing here is special to nib but the address. The package is `openai` of PyPI; the key, if the
server has one, is in NIB_API_KEY.
"""
import os
import sys

import openai

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
client = openai.OpenAI(base_url=url + "/v1", api_key=os.environ.get("NIB_API_KEY", "none"))

model = client.models.list().data[0].id
print("model:", model)

answer = client.chat.completions.create(
    model=model, max_tokens=40, temperature=0,
    messages=[{"role": "system", "content": "You answer in one sentence."},
              {"role": "user", "content": "What is ink made of?"}])
print("chat:", answer.choices[0].message.content)
print("tokens:", answer.usage.prompt_tokens, "+", answer.usage.completion_tokens)

print("stream: ", end="")
stream = client.chat.completions.create(
    model=model, max_tokens=24, temperature=0, stream=True,
    stream_options={"include_usage": True},
    messages=[{"role": "user", "content": "Count to five."}])
for event in stream:
    if event.choices and event.choices[0].delta.content:
        print(event.choices[0].delta.content, end="", flush=True)
    if event.usage:
        print("\nstreamed tokens:", event.usage.completion_tokens)

several = client.chat.completions.create(
    model=model, max_tokens=8, n=2, seed=1, logprobs=True, top_logprobs=2,
    messages=[{"role": "user", "content": "Name a colour."}])
for choice in several.choices:
    first = choice.logprobs.content[0]
    print(f"choice {choice.index}: {choice.message.content!r}, the first token"
          f" {first.token!r} had {first.logprob:.2f}")

text = client.completions.create(
    model=model, prompt="The capital of France is", max_tokens=4, temperature=0)
print("completion:", text.choices[0].text)

vectors = client.embeddings.create(model=model, input=["ink and paper", "pen and paper"])
similarity = sum(a * b for a, b in zip(vectors.data[0].embedding, vectors.data[1].embedding))
print(f"embeddings: {len(vectors.data[0].embedding)} numbers, similarity {similarity:.3f}")

try:
    client.chat.completions.create(model=model, messages=[], max_tokens=4)
except openai.BadRequestError as error:
    print("refused:", error.body["message"])
