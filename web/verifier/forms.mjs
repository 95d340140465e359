// Values with a form, and text (docs/formats/canonical-json.md#values-with-a-form).

import { unbase64 } from './bytes.mjs';

export const isHash = (text) => /^[0-9a-f]{64}$/.test(text);

/** Whether a text is a ULID; schema 1.0 also takes one in uppercase. */
export const isUlid = (text, dialect) => /^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text)
  || (dialect === '1.0' && /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text));

export const isName = (text) => /^[a-z0-9][a-z0-9_.:@-]{0,127}$/.test(text);

export const isVersion = (text) => /^(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){2}$/.test(text);

const TIME = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.[0-9]{3}Z$/;
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether a text is a time. Times then compare like their texts. */
export function isTime(text) {
  const parts = TIME.exec(text);
  if (parts === null) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = month === 2 && leap ? 29 : DAYS[month - 1];
  return days !== undefined && day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60;
}

const isStorePath = (text) => text.length <= 1024
  && text.split('/').every((part) => /^[A-Za-z0-9._-]+$/.test(part) && part !== '.' && part !== '..');

const FORMS = {
  text: () => true,
  'text, not empty': (text) => text !== '',
  hash: isHash,
  ULID: isUlid,
  'claim id': (text, dialect) => text.startsWith('claim_') && isUlid(text.slice(6), dialect),
  name: isName,
  time: isTime,
  version: isVersion,
  'store path': isStorePath,
};

/** What is wrong with a text as this form; null if nothing is. */
export function objection(form, text, dialect) {
  const rule = textFault(text);
  if (rule !== null) return rule;
  if (typeof form === 'object') {
    if (form.one_of !== undefined) {
      return form.one_of.includes(text) ? null : `must be one of: ${form.one_of.join(', ')}`;
    }
    return unbase64(text)?.length === form.base64_of ? null : `must be base64 of ${form.base64_of} bytes`;
  }
  return FORMS[form](text, dialect) ? null : `must be a ${form}`;
}

// eslint-disable-next-line no-control-regex
const ASCII = /^[\u0000-\u007f]*$/;

/** Why a text may not stand in an event; null if it may. */
export function textFault(text) {
  if (ASCII.test(text)) return null;
  for (const char of text) {
    const code = char.codePointAt(0);
    if ((code & 0xfffe) === 0xfffe || (code >= 0xfdd0 && code <= 0xfdef)) return 'holds a noncharacter';
  }
  return text.normalize('NFC') === text ? null : 'is not in Unicode normalisation form C';
}
