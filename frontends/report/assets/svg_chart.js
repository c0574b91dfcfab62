// SPDX-License-Identifier: Apache-2.0
// Small charts as SVG elements, drawn anew when their place changes its width. Colours come from the style sheet.

const SVG = "http://www.w3.org/2000/svg";

class SvgChart {
  constructor(host, label) {
    this.host = host;
    this.label = label;
    this.margins = { left: 62, right: 16, top: 26, bottom: 40 };
    this.height = 260;
    new ResizeObserver(() => this.render()).observe(host);
  }

  render() {
    const width = this.host.clientWidth;
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  redraw() {
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("aria-label", this.label);
    this.svg.setAttribute("role", "group");
    this.draw();
    this.host.replaceChildren(this.svg);
  }

  add(name, attributes, parent = this.svg) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  text(words, x, y, anchor, style = "tick") {
    this.add("text", { x, y, "text-anchor": anchor, class: style }).textContent = words;
  }

  /** Sets the scales: `across` and `up` are [least, most]; a logarithmic axis across where `logarithmic`. */
  scale(across, up, logarithmic = false) {
    const { left, right, top, bottom } = this.margins;
    const along = logarithmic ? Math.log10 : (value) => value;
    const [first, last] = across.map(along);
    this.toX = (value) => left + (along(value) - first) / (last - first || 1) * (this.width - left - right);
    this.toY = (value) => this.height - bottom - (value - up[0]) / (up[1] - up[0] || 1) * (this.height - top - bottom);
  }

  drawAxes(xTicks, yTicks, xText, yText, xLabel, yLabel) {
    const { left, right, top, bottom } = this.margins;
    for (const tick of yTicks) {
      this.add("path", { class: "grid", d: `M${left} ${this.toY(tick)}H${this.width - right}` });
      this.text(yText(tick), left - 8, this.toY(tick) + 4, "end");
    }
    for (const tick of xTicks) {
      const x = this.toX(tick);
      this.add("path", { class: "axis", d: `M${x} ${this.height - bottom}v4` });
      this.text(xText(tick), x, this.height - bottom + 17, "middle");
    }
    this.add("path", { class: "axis", d: `M${left} ${top}V${this.height - bottom}H${this.width - right}` });
    this.text(xLabel, this.width - right, this.height - 6, "end");
    this.text(yLabel, 0, 10, "start");
  }

  /** A path that holds each value until the next point. */
  stairs(points, style) {
    const path = points.map(([x, y], i) => (i === 0 ? `M${this.toX(x)} ` : `H${this.toX(x)}V`) + this.toY(y));
    if (path.length > 0) this.add("path", { class: style, d: path.join("") });
  }
}
