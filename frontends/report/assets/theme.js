// SPDX-License-Identifier: Apache-2.0
// The colours of the style sheet for canvases, which cannot read them by themselves.

class Theme {
  constructor() {
    this.listeners = [];
    this.read();
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => {
        this.read();
        this.listeners.forEach((listener) => listener());
      });
    }
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "muted", "line", "back", "after", "before", "again", "budget", "fill", "focus"]) {
      this[name] = style.getPropertyValue("--" + name).trim();
    }
    this.patterns = new Map();
  }

  /** Diagonal lines of a colour, over a paler ground of it. */
  hatch(context, colour) {
    if (!this.patterns.has(colour)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const brush = tile.getContext("2d");
      brush.globalAlpha = 0.35;
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 6, 6);
      brush.globalAlpha = 1;
      brush.strokeStyle = colour;
      brush.lineWidth = 1.5;
      brush.beginPath();
      for (const shift of [-6, 0, 6]) {
        brush.moveTo(shift - 1, 7);
        brush.lineTo(shift + 7, -1);
      }
      brush.stroke();
      this.patterns.set(colour, context.createPattern(tile, "repeat"));
    }
    return this.patterns.get(colour);
  }

  /** A colour as [red, green, blue]. */
  channels(colour) {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  }
}
