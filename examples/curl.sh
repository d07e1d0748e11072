#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The routes of `nib serve` with curl: examples/curl.sh [URL]. The key, if the server has one, is in
# NIB_API_KEY.
set -euo pipefail
url=${1:-http://127.0.0.1:8080}
key=()
[ -z "${NIB_API_KEY:-}" ] || key=(-H "Authorization: Bearer $NIB_API_KEY")

title() { printf '\n\n== %s\n' "$1"; }
get() { curl -sS --fail-with-body "${key[@]}" "$url$1"; }
post() { curl -sS --fail-with-body "${key[@]}" -H "Content-Type: application/json" "$url$1" -d "$2"; }

title "Is the server ready?"
get /health

title "Which models are there?"
get /v1/models

title "A chat"
post /v1/chat/completions '{
    "messages": [
        {"role": "system", "content": "You answer in one sentence."},
        {"role": "user", "content": "What is ink made of?"}
    ],
    "max_tokens": 40, "temperature": 0
}'

title "The same as a stream of events, with the counts at the end"
curl -sSN --fail-with-body "${key[@]}" -H "Content-Type: application/json" "$url/v1/chat/completions" -d '{
    "messages": [{"role": "user", "content": "Count to five."}],
    "max_tokens": 24, "temperature": 0, "stream": true, "stream_options": {"include_usage": true}
}'

title "Text that goes on, with log-probabilities of the three best tokens"
post /v1/completions '{
    "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, "logprobs": 3
}'

title "The other form of a completion, with more about how it was made"
post /completion '{"prompt": "Once upon a time", "n_predict": 16, "seed": 7, "top_k": 20}'

title "Text to tokens and back"
post /tokenize '{"content": "Hello world"}'
post /detokenize '{"tokens": [1, 2]}'

title "What the model sees of a chat"
post /apply-template '{"messages": [{"role": "user", "content": "Good morning"}]}'

title "Embeddings (the first numbers)"
post /v1/embeddings '{"input": ["ink and paper"]}' | cut -c 1-160

title "How busy the server is"
get /metrics | grep -v '^#' | sed -n '1,12p'
