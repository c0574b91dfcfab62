// SPDX-License-Identifier: Apache-2.0
// The visible stretch [first, end) of a row of `count` things, which several views may share.

class VisibleRange {
  constructor(count, least = 4) {
    this.listeners = [];
    this.resize(count, least);
  }

  resize(count, least = 4) {
    this.count = Math.max(1, count);
    this.least = Math.min(least, this.count);
    this.show(0, this.count);
  }

  get length() { return this.end - this.first; }
  get whole() { return this.length >= this.count; }

  /** Shows [first, end), moved and clipped into what there is. */
  show(first, end) {
    const length = Math.min(this.count, Math.max(this.least, end - first));
    const start = Math.min(Math.max(0, (first + end - length) / 2), this.count - length);
    if (start === this.first && start + length === this.end) return;
    this.first = start;
    this.end = start + length;
    this.listeners.forEach((listener) => listener());
  }

  /** Shrinks the stretch by `factor` around `at`, which stays in its place. */
  zoom(factor, at = (this.first + this.end) / 2) {
    const length = Math.min(this.count, Math.max(this.least, this.length / factor));
    const first = at - (at - this.first) * (length / this.length);
    this.show(first, first + length);
  }

  pan(by) { this.show(this.first + by, this.end + by); }
  reset() { this.show(0, this.count); }

  /** Moves so that `at` is visible. */
  reveal(at) {
    if (at < this.first) this.pan(at - this.first);
    if (at + 1 > this.end) this.pan(at + 1 - this.end);
  }
}
