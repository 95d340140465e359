// What a finding means, in plain words; the verifier's own words and its code come after them.

const WORDS = {
  HASH_MISMATCH: (where) => `${where} was changed after it was signed`,
  SIG_INVALID: (where) => `the signature of ${where} does not fit: it was changed, or another key signed it`,
  SIG_MISSING: (where) => `${where} is not signed`,
  CHAIN_BREAK: (where) => `${where} does not follow the one before it: something was changed, taken out or put in`,
  SCHEMA_INVALID: (where) => `${where} is not written as it must be`,
  ARTIFACT_MISSING: (where) => `evidence of ${where} is missing`,
  ARTIFACT_HASH_MISMATCH: (where) => `evidence of ${where} was changed after it was recorded`,
  ROLE_POLICY_VIOLATION: (where) => `${where} breaks a rule`,
  CLAIM_UNPROVEN: (where) => `the claim of ${where} is not borne out`,
  LOG_ENTRY_MISSING: () => 'the workspace log does not say what it should of this trace',
};

/** One plain line of a failure, or null where there are no other words than its own. */
export function findingWords({ failure_code: code, index }, isLog = false) {
  const where = Number.isInteger(index) ? `${isLog ? 'entry' : 'event'} ${index}` : 'this trace';
  return WORDS[code]?.(where) ?? null;
}

/** The events that are missing after the one with this `seq`, -1 before the first; null if none is. */
export function gapWords(one, event) {
  const next = event?.seq;
  if (!Number.isInteger(one) || !Number.isInteger(next) || next <= one + 1) return null;
  return next === one + 2 ? `event ${one + 1} is missing here` : `events ${one + 1} to ${next - 1} are missing here`;
}
