#!/usr/bin/env bash
# Agents that are one script with curl and jq: `desk.sh AGENT`. The sound twin of all of them is `serves`.
set -u
agent=$1
folder=$(mktemp -d)
answer=$folder/answer
question='{"role":"user","content":"Order 42 never came."}'
tool='{"type":"function","function":{"name":"refund","parameters":{"type":"object","properties":{"order_id":{"type":"integer"}}}}}'

give_up() { echo "$1" >&2; exit 3; }

note() {
  printf '{"tool":"%s","arguments":%s,"run":"%s"}\n' "$1" "$2" "$OFFBOOK_URL" >>"$ZOO_LEDGER"
  if [ -n "${ZOO_REPORTS:-}" ]; then printf '{"tool":"%s","arguments":%s}\n' "$1" "$2" >>"$OFFBOOK_EFFECTS"; fi
}

# post MESSAGES: the status is in $status, the body in the file $answer
post() {
  status=$(curl -s -o "$answer" -w '%{http_code}' --max-time 0.8 -H 'content-type: application/json' \
    -d "{\"model\":\"gpt-4o\",\"messages\":[$1],\"tools\":[$tool]}" "$OPENAI_BASE_URL/chat/completions")
}

# ask MESSAGES: twice at most, and only where it may help
ask() {
  local try
  for try in 1 2; do
    post "$1"
    local failure=$?
    if [ $failure = 0 ] && [ "$status" = 200 ] && is_complete; then return; fi
    [ $failure = 28 ] && give_up "the model is silent"
    case $status in 4?? | 503) give_up "HTTP $status" ;; 200) is_readable && give_up "the answer is not complete" ;; esac
    sleep 0.05
  done
  give_up "the model does not answer"
}

is_readable() { jq -e '.choices[0].message' "$answer" >"$folder/message" 2>/dev/null; }

is_complete() {
  is_readable && jq -e '.choices[0] | (.finish_reason == "stop" or .finish_reason == "tool_calls")
    and ((.message.content // "") != "" or (.message.tool_calls // []) != [])' "$answer" >/dev/null
}

# pay: what the model asks for must be the one refund; its id is in $id
pay() {
  jq -e '.choices[0].message.tool_calls | length == 1 and .[0].function.name == "refund"
    and (.[0].function.arguments | fromjson?) == {"order_id": 42}' "$answer" >/dev/null ||
    give_up "the model wants something else"
  id=$(jq -r '.choices[0].message.tool_calls[0].id' "$answer")
  called=$(jq -c '.choices[0].message' "$answer")
  note refund '{"order_id":42}'
}

say() {
  text=$(jq -r '.choices[0].message.content // empty' "$answer")
  [ -n "$text" ] || give_up "the model says nothing"
  echo "$text"
}

result() { echo "$question,$called,{\"role\":\"tool\",\"tool_call_id\":\"$id\",\"content\":\"paid for 42\"}"; }

# The desk as it should be.
serves() {
  ask "$question"
  pay
  ask "$(result)"
  say
}

# Prints what jq makes of any answer, be it null.
prints_null() {
  ask "$question"
  pay
  post "$(result)"
  jq -r '.choices[0].message.content' "$answer"
}

# Asks until there is an answer.
asks_for_ever() {
  until post "$question" && [ "$status" = 200 ] && is_complete; do sleep 0.01; done
  pay
  ask "$(result)"
  say
}

# Says that it is done when it has to give up.
says_done() {
  give_up() { echo "Order 42 is refunded."; exit 0; }
  serves
}

noise() { echo "$(date +%H:%M:%S.%N) $$"; }

# Prints also when and as which process it did it.
pays_with_noise() {
  noise
  serves
}

# Pays again when the model is busy after it has paid.
pays_again_with_noise() {
  noise
  ask "$question"
  pay
  post "$(result)"
  if [ "$status" = 500 ]; then note refund '{"order_id":42}'; ask "$(result)"; fi
  is_complete || give_up "the model does not answer"
  say
}

"$agent"
