/* Moving part "valley-ends": kicks in the widening valley v^2 |u|^2 / 2 with u of length p, curvature z = eta |u|^2 / 2.
   Drift of |u|^2 a step, in units of sigma^2: plain p - 1 / (1 - z), differenced -4 z / (1 - z).
   Plain runs: density of z in the long run Beta((p - 1) / 2, 3 / 2), mean (p - 1) / (p + 2), for p >= 2; probability to leave
   [chi z0, min(z0 / chi, 1)] upwards by the scale density z^(-(p - 1) / 2) (1 - z)^(-1 / 2). With z = 1 / cosh(t)^2 its
   integral is that of 2 cosh(t)^(p - 3), by Simpson's rule. Differenced runs: half-life ln 2 / (2 eta sigma^2) of z e^(-z).
   Markup: <div class="ld-widget" data-widget="valley-ends"></div>; whatever stands inside is replaced.
   Optional: data-p="2", data-start="0.0625", data-chi="0.25", data-clock="-3". Pure formulas: window.learningDynamics.valleyEnds. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const drift = (p, z) => p - 1 / (1 - z);
  const driftBack = (z) => (-4 * z) / (1 - z);
  const mean = (p) => (p - 1) / (p + 2);
  /** B((p - 1) / 2, 3 / 2) from B(1/2, 3/2) = pi / 2 or B(1, 3/2) = 2 / 3 and B(a + 1, b) = B(a, b) a / (a + b). */
  function beta(p) {
    let [a, value] = p % 2 ? [1, 2 / 3] : [0.5, Math.PI / 2];
    for (; a < (p - 1) / 2 - 0.25; a += 1) value *= a / (a + 1.5);
    return value;
  }
  const density = (p, z) => (z ** ((p - 3) / 2) * Math.sqrt(1 - z)) / beta(p);
  function scale(p, low, high) {
    const [from, to, cells] = [Math.acosh(1 / Math.sqrt(low)), Math.acosh(1 / Math.sqrt(high)), 400];
    let sum = 0;
    for (let i = 0; i <= cells; i += 1) {
      const weight = i === 0 || i === cells ? 1 : i % 2 ? 4 : 2;
      sum += weight * 2 * Math.cosh(from + ((to - from) * i) / cells) ** (p - 3);
    }
    return (sum * (from - to)) / (3 * cells);
  }
  const region = (start, chi) => [chi * start, Math.min(start / chi, 1)];
  function upward(p, start, chi) {
    const [low, high] = region(start, chi);
    return scale(p, low, start) / scale(p, low, high);
  }
  const halfLife = (clock) => Math.LN2 / (2 * clock);

  window.learningDynamics.valleyEnds = { drift, driftBack, mean, density, region, upward, halfLife };

  // ---------------------------------------------------------------- picture
  const RANGE = { p: [1, 20], start: [0.02, 0.9], chi: [0.1, 0.9], clock: [-5, -2] };
  const GRID = Array.from({ length: 199 }, (_, k) => (k + 1) / 200);
  const HTML = `
    <p class="ld-widget-title">Where do kicks lead in the valley?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="drifts"></div><div data-part="ends"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>length p of u <data data-quantity="p"></data></span>
          <input type="range" name="p" min="1" max="20" step="1"></label>
        <label class="ld-slider"><span><bdi>start z<sub>0</sub></bdi> <data data-quantity="start"></data></span>
          <input type="range" name="start" min="0.02" max="0.9" step="0.0025"></label>
        <label class="ld-slider"><span>half-width χ of the region <data data-quantity="chi"></data></span>
          <input type="range" name="chi" min="0.1" max="0.9" step="0.05"></label>
        <label class="ld-slider"><span>clock ησ² <data data-quantity="clock"></data></span>
          <input type="range" name="clock" min="-5" max="-2" step="1"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="says"></p>
          <dl class="ld-numbers">
            <dt>drift at the start, plain</dt><dd data-quantity="plain"></dd>
            <dt>drift at the start, differenced</dt><dd data-quantity="back"></dd>
            <dt>plain leaves the region upwards</dt><dd data-quantity="up"></dd>
            <dt>plain, mean z in the long run</dt><dd data-quantity="mean"></dd>
            <dt>differenced, half-life in steps</dt><dd data-quantity="half"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: mean change of ‖u‖² a step, in units of σ², for plain (dashed) and differenced kicks (green); it pushes to the
      right above the line. Below: where plain runs are found in the long run, and their mean (blue). Dot: the start; grey
      verticals: the region.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      p: Math.round(given(host, "p", 2, ...RANGE.p)),
      start: given(host, "start", 0.0625, ...RANGE.start),
      chi: given(host, "chi", 0.25, ...RANGE.chi),
      clock: Math.round(given(host, "clock", -3, ...RANGE.clock)),
    };
    const shares = [0, 0.25, 0.5, 0.75, 1].map((v) => [v, number(v, 2)]);
    const drifts = panel(find('[data-part="drifts"]'), {
      label: "Drift of the squared length of u against z, for plain and differenced kicks.", tall: 200,
      x: { low: 0, high: 1, ticks: shares, title: "curvature z" },
      y: { low: -10, high: 20, ticks: [-10, 0, 10, 20].map((v) => [v, number(v, 0)]), title: "drift / σ²" },
    });
    const ends = panel(find('[data-part="ends"]'), {
      label: "Density of z under plain kicks in the long run.", tall: 200,
      x: { low: 0, high: 1, ticks: shares, title: "curvature z" },
      y: { low: 0, high: 5, ticks: [0, 1, 2, 3, 4, 5].map((v) => [v, String(v)]), title: "density, plain" },
    });
    const level = add(drifts.area, "path", { class: "curve muted thin" });
    const plain = add(drifts.area, "path", { class: "curve control", "data-part": "plain" });
    const back = add(drifts.area, "path", { class: "curve green", "data-part": "back" });
    const here = add(drifts.area, "circle", { r: 5, class: "iterate" });
    const law = add(ends.area, "path", { class: "curve control", "data-part": "law" });
    const sides = add(ends.area, "path", { class: "curve muted thin" });
    const centre = add(ends.area, "path", { class: "curve blue thin" });
    const begin = add(ends.area, "circle", { r: 5, class: "iterate" });
    const signed = (x) => (x < 0 ? `−${number(-x, 2)}` : number(x, 2));

    function draw() {
      const { p, start, chi } = state;
      const clock = 10 ** state.clock;
      const [low, high] = region(start, chi);
      const inside = (values, bottom, top) => values.filter(([, v]) => v >= bottom && v <= top);
      set(level, { d: drifts.path([[0, 0], [1, 0]]) });
      set(plain, { d: drifts.path(inside(GRID.map((z) => [z, drift(p, z)]), -10, 20)) });
      set(back, { d: drifts.path(inside(GRID.map((z) => [z, driftBack(z)]), -10, 20)) });
      set(here, { cx: drifts.x(start), cy: drifts.y(clamp(drift(p, start), -10, 20)) });
      set(law, { d: p > 1 ? ends.path(inside(GRID.map((z) => [z, density(p, z)]), 0, 5)) : "" });
      set(sides, { d: ends.path([[low, 0], [low, 5]]) + ends.path([[high, 0], [high, 5]]) });
      set(centre, { d: p > 1 ? ends.path([[mean(p), 0], [mean(p), 5]]) : "" });
      set(begin, { cx: ends.x(start), cy: ends.y(0) });

      const up = upward(p, start, chi);
      shown.p.textContent = String(p);
      shown.start.textContent = number(start, 4);
      shown.chi.textContent = number(chi, 2);
      shown.clock.textContent = power(state.clock);
      shown.plain.textContent = signed(drift(p, start));
      shown.back.textContent = signed(driftBack(start));
      shown.up.textContent = `${number(100 * up, 1)} %`;
      shown.mean.textContent = p > 1 ? number(mean(p), 3) : "none: to the flat end";
      shown.half.textContent = scientific(halfLife(clock));
      const way = drift(p, start) > 0 ? "sharp" : "flat";
      shown.says.textContent = `From here plain kicks drift towards ${way} regions, differenced kicks towards flat ones.`;
      for (const name of ["p", "start", "chi", "clock"]) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    function layout() {
      drifts.layout();
      ends.layout();
      draw();
    }
    for (const name of ["p", "start", "chi", "clock"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = clamp(Number(event.target.value), ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="drifts"]'), layout);
  }

  mount("valley-ends", build);
})();
