// SPDX-License-Identifier: Apache-2.0
// Amounts as people read them; the same words as `remora solve` prints.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function grouped(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

function byteUnit(most) {
  let unit = 0;
  for (let value = Math.abs(most); value >= 1024 && unit + 1 < BYTE_UNITS.length; value /= 1024) ++unit;
  return unit;
}

function bytesText(bytes) {
  const unit = byteUnit(bytes);
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(2)} ${BYTE_UNITS[unit]}`;
}

function durationText(duration, unit) {
  if (unit !== "ns") return grouped(duration) + (unit ? " " + unit : "");
  const names = ["ns", "\u00b5s", "ms", "s"];
  let name = 0;
  for (; Math.abs(duration) >= 1000 && name + 1 < names.length; ++name) duration /= 1000;
  return (name === 0 ? duration.toFixed(0) : duration.toFixed(2)) + " " + names[name];
}

function percentText(part, digits = 2) {
  return (100 * part).toFixed(digits) + " %";
}

function signedPercent(part, digits = 2) {
  return (part >= 0 ? "+" : "") + percentText(part, digits);
}

function plural(count, word) {
  return `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** Ends of about `wanted` round steps within [least, most]: multiples of 1, 2 or 5 times a power of ten. */
function roundTicks(least, most, wanted, smallest = 0) {
  const rough = Math.max((most - least) / Math.max(1, wanted), 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(smallest, power * ([1, 2, 5].find((factor) => factor * power >= rough * (1 - 1e-9)) ?? 10));
  const ticks = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most * (1 + 1e-12) + 1e-12; ++i) ticks.push(i * step);
  return ticks;
}

/** A tick as people write it: no trailing zeros, no binary dust. */
function tickText(value) {
  return Number.isInteger(value) ? grouped(value) : String(Number(value.toPrecision(6)));
}

/** An element with attributes and children; text never becomes markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
