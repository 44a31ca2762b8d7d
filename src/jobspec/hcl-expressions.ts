/** Owns what the readers of HCL's expressions have of each other: expressions hold each other, so reading is one recursion. */
import type { HclNode, HclSink } from './hcl-faults.js';
import type { Budget } from './hcl-made.js';
import type { Objects } from './hcl-objects.js';
import type { Scope } from './hcl-scope.js';
import type { Tree } from './tree.js';

/** Where an expression stands. */
export interface Place {
  readonly scope: Scope;
  readonly depth: number;
}

/** The whole of it, for a reader of a part. */
export interface Expressions {
  /** The job file. */
  readonly text: string;
  readonly sink: HclSink;
  readonly budget: Budget;
  /** Where the elements of maps are found. */
  readonly objects: Objects;
  /** True once something was worked out: the tree is then no copy of the text. */
  hasWorkedOut: boolean;
  /** One expression. @throws ExpressionFault, AlreadyTold */
  value(node: HclNode, place: Place): Tree;
  /** Tells the sink what ended an expression; anything but a fault goes on up. */
  note(error: unknown): void;
  /** Does it for each, tells all faults. @throws AlreadyTold when there were any */
  each<N, T>(nodes: readonly N[], read: (node: N) => T): T[];
  /** The text of a string that has nothing to fill in. */
  quoted(node: HclNode): string;
  /** As it is written. */
  slice(node: HclNode): string;
}
