// SPDX-License-Identifier: Apache-2.0
// The step that all views point at.

class Cursor {
  constructor() {
    this.listeners = [];
    this.step = 0;
  }

  move(step) {
    if (step === this.step) return;
    this.step = step;
    this.listeners.forEach((listener) => listener());
  }
}
