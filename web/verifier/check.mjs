// Does a document have the members of an event? (docs/formats/event.md)

import { isTime, isVersion, objection, textFault } from './forms.mjs';
import { Real } from './json.mjs';
import { CLOSED, OBJECTS, TYPES } from './shapes.mjs';

/** The table of an event type; names such as `constructor` are none. */
export const typeOf = (name) => (Object.hasOwn(TYPES, name) ? TYPES[name] : null);

const isInteger = (value) => typeof value === 'number';
const isText = (value) => typeof value === 'string';

/** A member of an object, if it is a text. */
export function text(object, name) {
  const member = object instanceof Map ? object.get(name) : undefined;
  return isText(member) ? member : undefined;
}

/** The rules under which an event is read. */
export function dialectOf(event) {
  const version = text(event, 'schema_version') ?? '';
  return version.startsWith('1.0.') ? '1.0' : '1.1';
}

/** The names of a table's members. Tables are few and asked for with every event. */
const names = new WeakMap();

function namesOf(table) {
  if (!names.has(table)) names.set(table, new Set(table.map(([name]) => name)));
  return names.get(table);
}

/** Collects faults, each with a JSON pointer, while a document is walked. */
class Checker {
  constructor(dialect) {
    this.dialect = dialect;
    this.faults = [];
  }

  fault(pointer, message) {
    this.faults.push({ pointer, message });
  }

  check(form, value, pointer) {
    if (form === 'any') return this.any(value, pointer);
    if (form === 'boolean') return this.needs(typeof value === 'boolean', 'true or false', pointer);
    if (form === 'number') return this.needs(isInteger(value) || value instanceof Real, 'a number', pointer);
    if (form.from !== undefined) {
      const fits = isInteger(value) && value >= form.from && value <= form.to;
      return this.needs(fits, `an integer from ${form.from} to ${form.to}`, pointer);
    }
    if (form.null_or !== undefined) return value === null ? undefined : this.check(form.null_or, value, pointer);
    if (form.list_of !== undefined) {
      if (!Array.isArray(value)) return this.fault(pointer, 'must be an array');
      return value.forEach((element, at) => this.check(form.list_of, element, `${pointer}/${at}`));
    }
    if (form.values !== undefined) {
      if (!(value instanceof Map)) return this.fault(pointer, 'must be an object');
      return value.forEach((member, key) => {
        this.key(key, pointer);
        this.check(form.values, member, below(pointer, key));
      });
    }
    if (form.object !== undefined) {
      if (CLOSED.includes(form.object)) this.closed(OBJECTS[form.object], value, pointer);
      return this.object(OBJECTS[form.object], value, pointer);
    }
    if (!isText(value)) return this.fault(pointer, 'must be a string');
    const wrong = objection(form, value, this.dialect);
    return wrong === null ? undefined : this.fault(pointer, wrong);
  }

  needs(holds, what, pointer) {
    if (!holds) this.fault(pointer, `must be ${what}`);
  }

  object(table, value, pointer, left = []) {
    if (!(value instanceof Map)) return this.fault(pointer, 'must be an object');
    for (const [name, since, form] of table) {
      if (left.includes(name)) continue;
      if (value.has(name)) this.check(form, value.get(name), below(pointer, name));
      else if (since === '1.0' || since === this.dialect) this.fault(below(pointer, name), 'missing');
    }
    const known = namesOf(table);
    for (const [key, member] of value) {
      if (known.has(key)) continue;
      this.key(key, pointer);
      this.any(member, below(pointer, key));
    }
    return undefined;
  }

  /** An object that holds nothing that is not known. */
  closed(table, value, pointer) {
    if (!(value instanceof Map)) return;
    for (const key of value.keys()) {
      if (!table.some(([name]) => name === key)) this.fault(below(pointer, key), 'unknown field');
    }
  }

  /**
   * The payload of an event. Of schema 1.0 only what it requires has a form: whatever else stands
   * there is unknown to it.
   */
  payload(table, value) {
    const known = this.dialect === '1.1' ? table : table.filter(([, since]) => since === '1.0');
    return this.object(known, value, '/payload');
  }

  /** Text rules hold for everything inside, known or not. */
  any(value, pointer) {
    if (isText(value)) {
      const wrong = textFault(value);
      if (wrong !== null) this.fault(pointer, wrong);
    } else if (Array.isArray(value)) {
      value.forEach((element, at) => this.any(element, `${pointer}/${at}`));
    } else if (value instanceof Map) {
      for (const [key, member] of value) {
        this.key(key, pointer);
        this.any(member, below(pointer, key));
      }
    }
  }

  key(key, pointer) {
    const wrong = textFault(key);
    if (wrong !== null) this.fault(below(pointer, key), `key: ${wrong}`);
  }
}

const below = (pointer, key) => (/[~/]/.test(key)
  ? `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}` : `${pointer}/${key}`);

/** What is wrong with the members of a signature. */
export function signatureFaults(signature, dialect, pointer = '') {
  const checker = new Checker(dialect);
  checker.object(OBJECTS.Signature, signature, pointer);
  return checker.faults;
}

/** What is wrong with the record of a key, as far as its members go. */
export function identityFaults(identity, dialect) {
  const checker = new Checker(dialect);
  const left = dialect === '1.0' && identity instanceof Map && !identity.has('schema_version')
    ? ['schema_version'] : [];
  checker.object(OBJECTS.AgentIdentity, identity, '', left);
  return checker.faults;
}

/**
 * Every way in which a document is not an event. Its signature is left out: a verifier gives that
 * codes of its own.
 */
export function eventFaults(event) {
  const dialect = dialectOf(event);
  const checker = new Checker(dialect);
  checker.object(OBJECTS.ProtocolEvent, event, '', ['payload', 'signature']);
  if (!(event instanceof Map)) return checker.faults;
  const version = text(event, 'schema_version');
  if (version !== undefined && isVersion(version) && !/^1\.[01]\./.test(version)) {
    checker.fault('/schema_version', 'must be 1.0 or 1.1');
  }
  const name = text(event, 'event_type');
  const type = typeOf(name ?? '');
  if (dialect === '1.1' && type !== null && text(event, 'payload_type') !== name) {
    checker.fault('/payload_type', 'must be the type of the event');
  }
  const role = text(event.get('actor'), 'role');
  if (dialect === '1.0' && (role === 'operator' || role === 'recorder')) {
    checker.fault('/actor/role', 'schema 1.0 does not know this role');
  }
  const [raw, created] = [text(event, 'raw_clock'), text(event, 'created_at')];
  if (raw !== undefined && created !== undefined && isTime(raw) && isTime(created) && raw >= created) {
    checker.fault('/raw_clock', 'must lie before created_at');
  }
  checkPayload(event, type, checker);
  return checker.faults;
}

function checkPayload(event, type, checker) {
  if (!event.has('payload')) return checker.fault('/payload', 'missing');
  const payload = event.get('payload');
  if (type === null) return checker.any(payload, '/payload');
  if (checker.dialect === '1.0') {
    if (type.since === '1.1') checker.fault('/event_type', 'schema 1.0 does not know this type');
    // It may then lie in the store, unless something of it must stand here.
    if (payload === null && type.payload.every(([, since]) => since !== '1.0')) return undefined;
  }
  return checker.payload(type.payload, payload);
}
