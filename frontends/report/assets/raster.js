// SPDX-License-Identifier: Apache-2.0
// A drawing of more things than pixels: every rectangle adds to the pixels that it covers, and a pixel is the darker
// the more of it is covered. The work is one addition per line of pixels that a rectangle touches and one pass over the
// pixels, whatever the number of rectangles.

class Raster {
  constructor(width, height) {
    this.width = Math.max(1, Math.round(width));
    this.height = Math.max(1, Math.round(height));
    // Differences along a line: what a pixel adds to the one before it.
    this.layers = [0, 1].map(() => new Float32Array((this.width + 1) * this.height));
  }

  /** Adds `weight` to layer 0 or 1 in [x0, x1) of the lines [y0, y1), all of them whole pixels. */
  add(layer, x0, x1, y0, y1, weight) {
    const first = Math.max(0, x0);
    const end = Math.min(this.width, x1);
    if (first >= end) return;
    const cells = this.layers[layer];
    for (let y = Math.max(0, y0); y < Math.min(this.height, y1); ++y) {
      cells[y * (this.width + 1) + first] += weight;
      cells[y * (this.width + 1) + end] -= weight;
    }
  }

  /** Layer 1 over layer 0, each in its colour ([red, green, blue]). */
  image(colours) {
    const image = new ImageData(this.width, this.height);
    const [under, over] = this.layers;
    for (let y = 0; y < this.height; ++y) {
      let below = 0;
      let above = 0;
      for (let x = 0; x < this.width; ++x) {
        const cell = y * (this.width + 1) + x;
        below += under[cell];
        above += over[cell];
        if (below < 1e-4 && above < 1e-4) continue;
        const colour = above >= 1e-4 ? colours[1] : colours[0];
        const cover = above >= 1e-4 ? above : below;
        const at = 4 * (y * this.width + x);
        image.data[at] = colour[0];
        image.data[at + 1] = colour[1];
        image.data[at + 2] = colour[2];
        image.data[at + 3] = Math.min(255, 70 + 185 * cover);
      }
    }
    return image;
  }
}
