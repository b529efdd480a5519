/* Moving part "two-way-shadow": the saddle loss (y^2 - x^2) / 2 with curvatures -1 (x expands) and 1 (y contracts).
   Flow from (x0, 1), seen every h: (x0 e^(hk), e^(-hk)). Gradient descent from (a, b): (a (1 + h)^k, b (1 - h)^k).
   Same start: (a, b) = (x0, 1). Shadow: x fixed at the last step, y at the first: a = x0 (e^h / (1 + h))^K, b = 1.
   Bound for the shadow: h Gamma max{1 / mu, 2 / nu} = 2 h Gamma, Gamma the largest gradient along the flow.
   Markup: <div class="ld-widget" data-widget="two-way-shadow"></div>; whatever stands inside is replaced.
   Optional: data-step="0.2", data-count="7", data-start="0.1". Pure formulas: window.learningDynamics.twoWayShadow. */
(function () {
  "use strict";
  const { add, set, number, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const steps = (count) => Array.from({ length: count + 1 }, (_, k) => k);
  const flow = (h, count, start) => steps(count).map((k) => [start * Math.exp(h * k), Math.exp(-h * k)]);
  const descent = (h, count, x, y) => steps(count).map((k) => [x * (1 + h) ** k, y * (1 - h) ** k]);
  const shadowStart = (h, count, start) => start * (Math.exp(h) / (1 + h)) ** count;
  const gaps = (one, other) => one.map((p, k) => Math.hypot(p[0] - other[k][0], p[1] - other[k][1]));
  function runs(h, count, start) {
    const truth = flow(h, count, start);
    const same = descent(h, count, start, 1);
    const shadow = descent(h, count, shadowStart(h, count, start), 1);
    return {
      truth, same, shadow,
      sameGaps: gaps(same, truth),
      shadowGaps: gaps(shadow, truth),
      shift: shadowStart(h, count, start) - start,
      bound: 2 * h * Math.max(...truth.map((p) => Math.hypot(p[0], p[1]))),
    };
  }

  window.learningDynamics.twoWayShadow = { flow, descent, shadowStart, runs };

  // ---------------------------------------------------------------- picture
  const RANGE = { step: [0.02, 0.5], count: [2, 60], start: [0.001, 0.1] };
  const HTML = `
    <p class="ld-widget-title">One saddle, one flow, two runs. Which one stays near?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="plane"></div><div data-part="sizes"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>step size h <data data-quantity="step"></data></span>
          <input type="range" name="step" min="0.02" max="0.5" step="0.02"></label>
        <label class="ld-slider"><span>number of steps K <data data-quantity="count"></data></span>
          <input type="range" name="count" min="2" max="60" step="1"></label>
        <label class="ld-slider"><span><bdi>start of the flow, first coordinate</bdi> <data data-quantity="start"></data></span>
          <input type="range" name="start" min="0.001" max="0.1" step="0.001"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <dl class="ld-numbers">
            <dt>largest gap, same start</dt><dd data-quantity="same"></dd>
            <dt>largest gap, shadow</dt><dd data-quantity="shadow"></dd>
            <dt>the shadow starts beside by</dt><dd data-quantity="shift"></dd>
            <dt>allowed for the shadow, 2hΓ</dt><dd data-quantity="bound"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: the flow (grey), the shadow (blue) and, dashed, the run from the same start; axes as shares of where the flow
      begins and ends. Below: distance to the flow at each step, as a share of the largest.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      step: given(host, "step", 0.2, ...RANGE.step),
      count: Math.round(given(host, "count", 7, ...RANGE.count)),
      start: given(host, "start", 0.1, ...RANGE.start),
    };
    const share = [0, 0.5, 1].map((v) => [v, number(v, 1)]);
    const plane = panel(find('[data-part="plane"]'), {
      label: "The flow and the two runs in the plane.", tall: 230,
      x: { low: -0.04, high: 1.1, ticks: share, title: "first coordinate (expands)" },
      y: { low: -0.04, high: 1.1, ticks: share, title: "second coordinate" },
    });
    const sizes = panel(find('[data-part="sizes"]'), {
      label: "Distance to the flow against the step.", tall: 200,
      x: { low: 0, high: 1, ticks: [[0, "0"], [0.5, "K/2"], [1, "K"]], title: "step" },
      y: { low: 0, high: 1.05, ticks: share, title: "gap / largest" },
    });
    const truth = add(plane.area, "path", { class: "curve muted", "data-part": "flow" });
    const dashed = add(plane.area, "path", { class: "curve control", "data-part": "same" });
    const blue = add(plane.area, "path", { class: "curve blue", "data-part": "shadow" });
    const dashedGap = add(sizes.area, "path", { class: "curve control" });
    const blueGap = add(sizes.area, "path", { class: "curve blue", "data-part": "gap" });

    function draw() {
      const { step, count, start } = state;
      const found = runs(step, count, start);
      const reach = found.truth[count][0];
      const scaled = (path) => plane.path(path.map((p) => [p[0] / reach, p[1]]));
      set(truth, { d: scaled(found.truth) });
      set(dashed, { d: scaled(found.same) });
      set(blue, { d: scaled(found.shadow) });
      const largest = Math.max(...found.sameGaps, ...found.shadowGaps);
      const curve = (values) => sizes.path(values.map((v, k) => [k / count, v / largest]));
      set(dashedGap, { d: curve(found.sameGaps) });
      set(blueGap, { d: curve(found.shadowGaps) });
      shown.step.textContent = number(step, 2);
      shown.count.textContent = String(count);
      shown.start.textContent = number(start, 3);
      shown.same.textContent = scientific(Math.max(...found.sameGaps));
      shown.shadow.textContent = scientific(Math.max(...found.shadowGaps));
      shown.shift.textContent = scientific(found.shift);
      shown.bound.textContent = scientific(found.bound);
      for (const name of ["step", "count", "start"]) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    function layout() {
      plane.layout();
      sizes.layout();
      draw();
    }
    for (const name of ["step", "count", "start"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = clamp(Number(event.target.value), ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="plane"]'), layout);
  }

  mount("two-way-shadow", build);
})();
