// The phases of a work item, and what they are called.

import { own, plain } from './dom.mjs';

/** The phases in the order in which an item goes through them; BLOCKED can follow any. */
export const PHASES = ['DRAFT', 'IMPLEMENTATION', 'CI_PENDING', 'READY_FOR_REVIEW', 'REVIEW', 'READY_FOR_MERGE',
  'COMPLETED', 'BLOCKED'];

const NAMES = {
  DRAFT: 'Draft', IMPLEMENTATION: 'Implementation', CI_PENDING: 'CI pending', READY_FOR_REVIEW: 'Ready for review',
  REVIEW: 'Review', READY_FOR_MERGE: 'Ready for merge', COMPLETED: 'Completed', BLOCKED: 'Blocked',
};

/** A phase in words. */
export const phaseName = (phase) => own(NAMES, phase) ?? plain(phase ?? 'no phase', 40);
