/* What the moving parts share: SVG nodes, numbers as text, a panel with axes, and the start.
   Loaded before them; window.learningDynamics.drawing. */
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";

  function set(node, attributes) {
    for (const key of Object.keys(attributes)) node.setAttribute(key, attributes[key]);
  }
  function add(parent, name, attributes = {}, text) {
    const node = document.createElementNS(SVG, name);
    set(node, attributes);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  /** Fixed decimals with a typographic minus, and no minus before zero. */
  const number = (x, digits = 4) => {
    const text = x.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "\u2212");
  };
  const power = (k) => `10${String(k).replace("-", "\u207b").replace(/\d/g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])}`;
  /** Three digits between 0.01 and 1000, beyond that one decimal and a power of ten; x > 0. */
  const scientific = (x) => {
    let k = Math.floor(Math.log10(x));
    if (k >= -2 && k <= 2) return String(Number(x.toPrecision(3)));
    let m = (x / 10 ** k).toFixed(1);
    if (m === "10.0") [m, k] = ["1.0", k + 1];
    return `${m}×${power(k)}`;
  };

  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

  /** The number in data-KEY within its range, or the usual one. */
  function given(host, key, usual, low, high) {
    const value = host.dataset[key] === undefined ? usual : Number(host.dataset[key]);
    return Number.isFinite(value) ? clamp(value, low, high) : usual;
  }

  /** The box with a script's HTML: a finder, and the nodes with data-quantity by name. */
  function box(html) {
    const node = document.createElement("div");
    node.className = "ld-widget-box";
    node.innerHTML = html;
    const shown = {};
    for (const each of node.querySelectorAll("[data-quantity]")) shown[each.dataset.quantity] = each;
    return { node, find: (selector) => node.querySelector(selector), shown };
  }

  let panels = 0;
  /** A picture with axes. An axis is { low, high, log, ticks: [[value, text], ...], title }; curves go into `area`,
      which is clipped at the frame. `layout` fits the width; then `x`, `y` give pixels and `path` a curve. */
  function panel(parent, { label, tall, x: across, y: up, square = false }) {
    const svg = add(parent, "svg", { role: "img", "aria-label": label });
    const id = `ld-panel-${(panels += 1)}`;
    const frame = add(add(svg, "clipPath", { id }), "rect");
    const axes = add(svg, "g");
    const area = add(svg, "g", { "clip-path": `url(#${id})` });
    const labels = add(svg, "g");
    const edge = { left: 52, right: 16, top: 8, bottom: 36 };
    const scaled = (axis, v) => (axis.log ? Math.log10(Math.max(v, 1e-300)) : v);
    const share = (axis, v) => (scaled(axis, v) - scaled(axis, axis.low)) / (scaled(axis, axis.high) - scaled(axis, axis.low));
    const self = { svg, area, labels, edge, width: 0, height: 0 };
    self.x = (v) => edge.left + share(across, v) * (self.width - edge.left - edge.right);
    self.y = (v) => self.height - edge.bottom - clamp(share(up, v), -3, 4) * (self.height - edge.top - edge.bottom);
    self.path = (points) => {
      const kept = points.filter((p) => Number.isFinite(p[0]) && Number.isFinite(p[1]));
      return kept.length ? `M${kept.map((p) => `${self.x(p[0]).toFixed(2)} ${self.y(p[1]).toFixed(2)}`).join("L")}` : "";
    };
    self.layout = () => {
      self.width = Math.max(250, parent.clientWidth || 420);
      const inner = self.width - edge.left - edge.right;
      self.height = square ? Math.min(inner, tall) + edge.top + edge.bottom : tall;
      if (square) self.width = Math.min(inner, tall) + edge.left + edge.right;
      const [right, bottom] = [self.width - edge.right, self.height - edge.bottom];
      const full = Math.max(250, parent.clientWidth || 420);
      set(svg, { viewBox: `${(self.width - full) / 2} 0 ${full} ${self.height}`, height: self.height });
      const size = { x: edge.left, y: edge.top, width: right - edge.left, height: bottom - edge.top };
      set(frame, size);
      axes.replaceChildren();
      add(axes, "rect", { class: "frame", ...size });
      for (const [v, text] of across.ticks) {
        add(axes, "line", { class: "axis", x1: self.x(v), x2: self.x(v), y1: bottom, y2: bottom + 4 });
        add(axes, "text", { class: "small muted", x: self.x(v), y: bottom + 17, "text-anchor": "middle" }, text);
      }
      for (const [v, text] of up.ticks) {
        add(axes, "line", { class: "axis", x1: edge.left - 4, x2: edge.left, y1: self.y(v), y2: self.y(v) });
        add(axes, "text", { class: "small muted", x: edge.left - 7, y: self.y(v) + 4, "text-anchor": "end" }, text);
      }
      const middle = (edge.top + bottom) / 2;
      add(axes, "text", { class: "small muted", x: (edge.left + right) / 2, y: self.height - 5, "text-anchor": "middle" }, across.title);
      add(axes, "text", { class: "small muted", transform: `translate(11 ${middle}) rotate(-90)`, "text-anchor": "middle" }, up.title);
    };
    return self;
  }

  /** Call `layout` now and whenever the node changes its width. */
  function follow(node, layout) {
    layout();
    if (window.ResizeObserver) new ResizeObserver(layout).observe(node);
    else window.addEventListener("resize", layout);
  }

  /** Build every place of this name once the page is there. */
  function mount(name, build) {
    const begin = () => {
      for (const host of document.querySelectorAll(`[data-widget="${name}"]:not([data-ready])`)) {
        build(host);
        host.dataset.ready = "true";
      }
    };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
    else begin();
  }

  window.learningDynamics = window.learningDynamics || {};
  window.learningDynamics.drawing = { add, set, number, power, scientific, clamp, given, box, panel, follow, mount };
})();
