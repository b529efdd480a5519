/* Moving part "noise-clock": kicks with the Hurst exponent h, on a clock where one step stands for the time D, in a well
   that contracts by rho = 1 - eta L. Independent kicks (h = 1/2) have size one on every clock:
       size of a kick D^(h - 1/2),   cloud = size * sqrt((1 + 2 sum rho^j chi_j) / (1 - rho^2)),
       chi_j = (|j + 1|^2h - 2 |j|^2h + |j - 1|^2h) / 2.
   Markup: <div class="ld-widget" data-widget="noise-clock"></div>; whatever stands inside is replaced.
   Optional: data-clock="0.01", data-hurst="0.1", data-step="0.3". Pure formulas: window.learningDynamics.noiseClock. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const LAGS = 2000;
  const HURSTS = [0.1, 0.25, 0.5, 0.75, 0.9];
  const covariance = (h, j) => ((j + 1) ** (2 * h) - 2 * j ** (2 * h) + Math.abs(j - 1) ** (2 * h)) / 2;
  function variance(rho, h) {
    let sum = 1;
    let weight = rho;
    for (let j = 1; j < LAGS && Math.abs(weight) > 1e-18; j += 1, weight *= rho) sum += 2 * weight * covariance(h, j);
    return sum / (1 - rho * rho);
  }
  const kick = (clock, h) => clock ** (h - 0.5);
  const cloud = (clock, h, step) => kick(clock, h) * Math.sqrt(variance(1 - step, h));

  window.learningDynamics.noiseClock = { covariance, variance, kick, cloud };

  // ---------------------------------------------------------------- picture
  const RANGE = { clock: [0.01, 100], hurst: [0.02, 0.95], step: [0.05, 1.95] };
  const LOW = 0.02;
  const HIGH = 300;
  const HTML = `
    <p class="ld-widget-title">Which noise makes the largest cloud? Independent kicks have size one on every clock.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="bars"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>time Δ of one step <data data-quantity="clock"></data></span>
          <input type="range" name="clock" min="-8" max="8" step="1"></label>
        <label class="ld-slider"><span>step size times curvature, ηL <data data-quantity="step"></data></span>
          <input type="range" name="step" min="0.05" max="1.95" step="0.05"></label>
        <label class="ld-slider"><span>Hurst exponent h of the numbers below <data data-quantity="hurst"></data></span>
          <input type="range" name="hurst" min="0.02" max="0.95" step="0.01"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="order"></p>
          <dl class="ld-numbers">
            <dt>contraction ρ = 1 − ηL</dt><dd data-quantity="rho"></dd>
            <dt>size of one kick at this h</dt><dd data-quantity="kick"></dd>
            <dt>size of its cloud</dt><dd data-quantity="cloud"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Bars: sizes of the clouds of five exponents, sorted. Line: the cloud of independent kicks, which no clock changes.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      clock: Math.round(4 * Math.log10(given(host, "clock", 0.01, ...RANGE.clock))),
      hurst: given(host, "hurst", 0.1, ...RANGE.hurst),
      step: given(host, "step", 0.3, ...RANGE.step),
    };
    const bars = panel(find('[data-part="bars"]'), {
      label: "Sizes of the clouds of five Hurst exponents, as sorted bars.", tall: 260,
      x: { low: 0, high: 5, ticks: [], title: "five exponents, sorted" },
      y: { low: LOW, high: HIGH, log: true, ticks: [-1, 0, 1, 2].map((k) => [10 ** k, k ? power(k) : "1"]), title: "size of the cloud" },
    });
    const boxes = HURSTS.map(() => add(bars.area, "rect", { class: "ball" }));
    const names = HURSTS.map(() => add(bars.labels, "text", { class: "small", "text-anchor": "middle" }));
    const level = add(bars.area, "line", { class: "axis" });

    function draw() {
      const clock = 10 ** (state.clock / 4);
      const sorted = HURSTS.map((h) => [cloud(clock, h, state.step), h]).sort((a, b) => a[0] - b[0]);
      sorted.forEach(([size, h], i) => {
        const [top, bottom] = [bars.y(clamp(size, LOW, HIGH)), bars.y(LOW)];
        const [left, right] = [bars.x(i + 0.12), bars.x(i + 0.88)];
        set(boxes[i], { x: left, y: top, width: right - left, height: Math.max(0, bottom - top) });
        set(names[i], { x: (left + right) / 2, y: bottom + 15 });
        names[i].textContent = `h = ${h}`;
      });
      const y = bars.y(clamp(cloud(clock, 0.5, state.step), LOW, HIGH));
      set(level, { x1: bars.x(0), x2: bars.x(5), y1: y, y2: y });
      const spread = sorted[4][0] / sorted[0][0];
      shown.order.textContent = spread < 1.001
        ? "All five clouds have one size."
        : `The smallest cloud has h = ${sorted[0][1]}, the largest h = ${sorted[4][1]}; ratio ${scientific(spread)}.`;
      shown.clock.textContent = scientific(clock);
      shown.step.textContent = number(state.step, 2);
      shown.hurst.textContent = number(state.hurst, 2);
      shown.rho.textContent = number(1 - state.step, 2);
      shown.kick.textContent = scientific(kick(clock, state.hurst));
      shown.cloud.textContent = scientific(cloud(clock, state.hurst, state.step));
      for (const name of ["clock", "step", "hurst"]) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    for (const name of ["clock", "step", "hurst"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const value = Number(event.target.value);
        state[name] = name === "clock" ? clamp(Math.round(value), -8, 8) : clamp(value, ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="bars"]'), () => {
      bars.layout();
      draw();
    });
  }

  mount("noise-clock", build);
})();
