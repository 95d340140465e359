#!/bin/sh
# Verifies the sealed files (.cap) of a pull request, and writes down what the agent did, as Markdown.
#
#   verify-pr.sh --base COMMIT [--head COMMIT] [--trust FINGERPRINT|FILE]... [--out FILE]
#                [--require] [--fail-on-gaps]
#
# Looked at are the .cap files that the commits between base and head add or change, and those of the
# traces that their messages name in `Countersign-Trace:` lines, where head has a file `<trace id>.cap`.
#
#   --trust         a root to trust: its fingerprint, or a file with one on each line
#   --out           where the Markdown goes, instead of standard output
#   --require       a pull request without a sealed file is refused
#   --fail-on-gaps  so is one whose trace names a coverage gap, or was never compared
#
# Exit status: 0 all is well; 1 it could not be told; 2 usage; 3 something is wrong; 4 nothing wrong was
# found, but a file has an untrusted signer, or a trace is named that has no file.
#
# Needs git, jq and countersign. $COUNTERSIGN names another program than `countersign`.
set -eu

bytes_max=268435456   # of a sealed file
files_max=50          # sealed files that are looked at
body_max=50000        # bytes of Markdown, after which only verdicts are written

fail() { printf 'verify-pr: %s\n' "$2" >&2; exit "$1"; }

countersign=${COUNTERSIGN:-countersign}
base='' head=HEAD out='' require=no fail_on_gaps=no
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
: > "$tmp/roots"

while [ $# -gt 0 ]; do
  case $1 in
    --base|--head|--trust|--out) [ $# -ge 2 ] || fail 2 "$1 needs a value" ;;
  esac
  case $1 in
    --base) base=$2; shift ;;
    --head) head=$2; shift ;;
    --trust)
      if [ -f "$2" ]; then cat -- "$2" >> "$tmp/roots"; else printf '%s\n' "$2" >> "$tmp/roots"; fi
      shift ;;
    --out) out=$2; shift ;;
    --require) require=yes ;;
    --fail-on-gaps) fail_on_gaps=yes ;;
    *) fail 2 "unknown argument: $1" ;;
  esac
  shift
done
[ -n "$base" ] || fail 2 "--base COMMIT is missing"
for program in git jq "$countersign"; do
  command -v "$program" >/dev/null 2>&1 || fail 1 "$program is not installed"
done

commit() { git rev-parse --verify --quiet --end-of-options "$1^{commit}" || fail 1 "no commit $1"; }
base=$(commit "$base")
head=$(commit "$head")
fork=$(git merge-base "$base" "$head") || fail 1 "base and head have no common commit"

# Content is taken from the commit by its hash: no name of a file is ever used as a path. Git quotes
# names that hold anything but plain characters, so that each stands on one line.
git -c core.quotePath=true diff --raw --no-renames --no-ext-diff --full-index --diff-filter=AM \
  "$fork" "$head" -- '*.cap' | awk -F '\t' '
  { split($1, part, " ")
    if (part[2] ~ /^100/) print part[4] "\t" $2 }' > "$tmp/files"
git log --format='%(trailers:key=Countersign-Trace,valueonly,unfold)' "$fork..$head" \
  | grep -E '^[0-9a-hjkmnp-tv-z]{26}$' | sort -u > "$tmp/named" || :
git -c core.quotePath=true ls-tree -r --full-tree "$head" | awk -F '\t' -v ids="$tmp/named" '
  BEGIN { while ((getline id < ids) > 0) wanted[id ".cap"] = 1 }
  { split($1, part, " "); name = $2; sub(/^.*\//, "", name)
    if (part[1] ~ /^100/ && name in wanted) print part[3] "\t" $2 }' >> "$tmp/files"
sort -u "$tmp/files" > "$tmp/list"
count=$(wc -l < "$tmp/list")
[ "$count" -le "$files_max" ] || fail 3 "$count sealed files, the limit is $files_max"

# What an agent wrote is shown as code, with every character but letters, digits and spaces as an
# entity: it cannot end the code, make a link, a mention or a table cell, or hide.
cat > "$tmp/markdown.jq" <<'JQ'
def hex: "0123456789abcdef" as $digits
  | [recurse(if . < 16 then empty else (. / 16 | floor) end) % 16]
  | reverse | map($digits[.:. + 1]) | join("");
def hidden: . < 32 or (. >= 127 and . <= 160) or . == 173 or . == 1564 or . == 6158
  or (. >= 8203 and . <= 8207) or (. >= 8232 and . <= 8238) or (. >= 8288 and . <= 8303)
  or . == 65279 or (. >= 65529 and . <= 65533) or (. >= 917504 and . <= 921599);
def plain: (. >= 48 and . <= 57) or (. >= 65 and . <= 90) or (. >= 97 and . <= 122) or . == 32;
def text($max): (if type == "string" then . else tojson end) | explode
  | (if length > $max then .[:$max] + [8230] else . end)
  | map(if plain then [.] | implode
        elif hidden then "&#92;u&#123;\(hex)&#125;"
        else "&#\(.);" end) | join("");
def code($max): "<code>" + text($max) + "</code>";
def count($one; $many): if . == 1 then "1 \($one)" else "\(.) \($many)" end;

def approvals: [
    (if .protected_key > 0 then "\(.protected_key) with a protected key" else empty end),
    (if .unprotected_key > 0
      then "\(.unprotected_key) with an unprotected key, which an agent under the same user could have used"
      else empty end),
    (if .client_prompt > 0 then "\(.client_prompt) at the prompt of the agent's own program" else empty end),
    (if .unstated > 0 then "\(.unstated) in a way that is not stated" else empty end)
  ] | if length == 0 then "none" else join("; ") end;
def coverage: if . == null then "nobody compared this trace with what the agent did"
  elif .gaps == 0 then "no gap was found, compared with: " + ([.sources[] | code(120)] | join(", "))
  else "**\(.gaps | count("gap"; "gaps"))**: something bypassed the recorder, compared with: "
    + ([.sources[] | code(120)] | join(", ")) end;
def row: "| \(.action_id | code(20)) | \(.action_type | code(20)) | \((.gate_decision // "ungated") | code(20)) | "
  + "\(if .success then "done" elif .gate_decision == "skip" then "refused" else "failed" end) | "
  + "\(.description | code(120)) |";
def rows($title; $max): if length == 0 then empty else
    "\n<details><summary>\($title): \(length)</summary>\n",
    "| action | type | gate | end | description |", "|---|---|---|---|---|",
    (.[:$max][] | row),
    (if length > $max then "\n… and \(length - $max) more" else empty end),
    "\n</details>" end;
def verdict: if $code == 0 then "verified"
  elif $code == 3 then "**does not verify**"
  elif $code == 4 then "nothing wrong found, but **not from a trusted signer, or not ended**"
  else "**could not be read**" end;

($verify[0] // {}) as $v | ($show[0] // {}) as $s
| "\n### \($path | code(200)): \(verdict)\n",
  (if $code == 3 then
    "Nothing that this file says can be relied upon.\n",
    (($v.failures // [])[:10][] | "- \(.failure_code | code(40)) \(.message | code(200))")
  elif $code == 0 or $code == 4 then
    (if $code == 4 then "Anybody can have made a file like this. What it says of itself:\n" else empty end),
    "- trace \($v.trace_id | code(40)), by \($s.identity.agent // "-" | code(80)), "
      + "\($v.metrics.events | count("event"; "events")): \($v.summary | code(200))",
    "- actions: \($s.actions_count), of which "
      + "\([$s.actions[] | select(.gate_decision == "skip")] | length) were refused, "
      + "\([$s.actions[] | select(.success == false and .gate_decision != "skip")] | length) failed, "
      + "\([$s.actions[] | select(.gate_decision == null)] | length) were never asked about"
      + (if $s.actions_count > ($s.actions | length) then " (of the first \($s.actions | length))" else "" end),
    "- approvals by people: \($v.approvals | approvals)",
    "- coverage: \($v.coverage | coverage)",
    (if $brief == 1 then "\nDetails are left out: there is too much to show."
     else ([$s.actions[] | select(.gate_decision == "skip")] | rows("Refused"; 20)),
          ($s.actions | rows("Actions"; 40)) end)
  else empty end)
JQ

worst=0
worse() {  # 3 before 1 before 4 before 0
  case "$worst$1" in
    [0-4]3|3[0-4]) worst=3 ;;
    [0-4]1|1[0-4]) worst=1 ;;
    [0-4]4|4[0-4]) worst=4 ;;
  esac
}

body=$tmp/body.md
printf '<!-- countersign -->\n## What the agent did\n' > "$body"
: > "$tmp/seen"
number=0
tab=$(printf '\t')
while IFS="$tab" read -r blob path; do
  number=$((number + 1))
  cap=$tmp/$number.cap verify=$tmp/verify.json show=$tmp/show.json code=0
  : > "$verify"; : > "$show"
  size=$(git cat-file -s "$blob" 2>/dev/null || echo 0)
  if [ "$size" -gt "$bytes_max" ]; then
    code=1
  elif git cat-file blob "$blob" > "$cap" 2>/dev/null; then
    "$countersign" verify "$cap" --trust "$tmp/roots" --json > "$verify" 2>"$tmp/said" || code=$?
    "$countersign" cap show "$cap" --json > "$show" 2>/dev/null || :
    rm -f "$cap"
  else
    code=1
  fi
  case $code in 0|3|4) ;; *) code=1; : > "$verify"; : > "$show" ;; esac
  worse "$code"
  if [ "$code" != 3 ]; then
    jq -r '.trace_id // empty' "$verify" >> "$tmp/seen" 2>/dev/null || :
  fi
  if [ "$fail_on_gaps" = yes ] && [ "$code" != 1 ]; then
    gaps=$(jq -r 'if .coverage == null then "never" else .coverage.gaps end' "$verify" 2>/dev/null || echo never)
    [ "$gaps" = 0 ] || worse 3
  fi
  brief=0
  [ "$(wc -c < "$body")" -lt "$body_max" ] || brief=1
  jq -n -r --arg path "$path" --argjson code "$code" --argjson brief "$brief" \
    --slurpfile verify "$verify" --slurpfile show "$show" -f "$tmp/markdown.jq" >> "$body" \
    || fail 1 "what countersign says of $blob cannot be shown"
done < "$tmp/list"

while read -r id; do
  if ! grep -qx "$id" "$tmp/seen"; then
    printf '\n- A commit names trace <code>%s</code>, of which there is no file that could be used.\n' "$id" >> "$body"
    worse 4
  fi
done < "$tmp/named"

if [ "$number" -eq 0 ]; then
  printf '\nNo sealed file belongs to this pull request.\n' >> "$body"
  [ "$require" = no ] || worse 3
fi
printf '\nA verified file shows what was recorded, and that nobody changed it since. It does not show that %s.\n' \
  'claims in it are true, nor that nothing happened beside it' >> "$body"

if [ -n "$out" ]; then cp -- "$body" "$out"; else cat -- "$body"; fi
exit "$worst"
